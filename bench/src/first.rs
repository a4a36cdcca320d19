//! The first heap of a process, made in a new one.
//!
//! A driver hands out memory that nobody had in the process before in a tenth of the time that it needs for memory that was freed there, and clears
//! what was freed in the meantime. So a heap that is made again and again tells nothing of the one that a program makes when it starts. And nearly all of a
//! GPU's memory took up to 20 times as long, now and then, where the measuring process had a little of it: it should have no device open.

use crate::allocator::Allocator;
use crate::allocators::{Scatterheap, name_of_hardened};
use crate::case::{Case, Test};
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::plan::Plan;
use crate::row::Event;
use scatterheap_host::{Device, Hardening};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The metric of what is measured here.
pub const FIRST_HEAP: &str = "init_ms_first";
/// Processes that make one heap each, at most.
const FIRST_HEAPS: u32 = 5;
/// How long a GPU rests before each: drivers clear what was freed, 128 GiB of an H200 in 0.4 s.
const REST: Duration = Duration::from_secs(1);

/// How to start a process that makes one heap and prints how long that took: the program, and what it is told before the heap's bytes, and
/// `--stripes` and `--harden` if they are not the usual.
#[derive(Clone, Debug)]
pub struct FirstHeap {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl FirstHeap {
    /// Measures the heaps of a plan's cases of `init`, each with all of several sets of modes. A process that fails is told of, and ends the case.
    pub fn measure(
        &self,
        plan: &Plan,
        modes: &[Hardening],
        is_gpu: bool,
        stop: &AtomicBool,
        on_event: &mut dyn FnMut(Event),
    ) {
        // Relaxed: nothing else is told by it.
        let is_stopped = || stop.load(Ordering::Relaxed);
        let cases = plan.cases.iter().filter(|case| case.test == Test::Init);
        for (case, modes) in cases.flat_map(|case| modes.iter().map(move |modes| (*case, *modes))) {
            let mut times = Vec::new();
            while times.len() < FIRST_HEAPS.min(plan.samples) as usize && !is_stopped() {
                if is_gpu {
                    sleep(REST);
                }
                match self.milliseconds(case.most, plan.stripes, modes) {
                    Ok(time) => times.push(time),
                    // A signal ends the process too.
                    Err(_) if is_stopped() => break,
                    Err(error) => {
                        on_event(failed(case, modes, &error));
                        break;
                    }
                }
            }
            Figures {
                case,
                allocator: name_of_hardened(modes),
                on_event,
            }
            .spread(FIRST_HEAP, &times);
        }
    }

    /// Milliseconds that a new process takes to make a heap of `bytes` bytes.
    fn milliseconds(&self, bytes: u64, stripes: Option<u32>, hardening: Hardening) -> Result<f64> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(bytes.to_string());
        if let Some(stripes) = stripes {
            command.arg("--stripes").arg(stripes.to_string());
        }
        if hardening != Hardening::NONE {
            command.arg("--harden").arg(hardening.to_string());
        }
        let output = command
            .output()
            .map_err(|error| Error::FirstHeap(error.to_string()))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        match printed.trim().parse::<f64>() {
            Ok(milliseconds) if output.status.success() && milliseconds.is_finite() => {
                Ok(milliseconds)
            }
            _ => {
                let errors = String::from_utf8_lossy(&output.stderr);
                let said = errors.trim().lines().last().unwrap_or_default();
                Err(Error::FirstHeap(format!("{}: {said}", output.status)))
            }
        }
    }
}

fn failed(case: Case, modes: Hardening, error: &Error) -> Event {
    Event::Failed {
        case,
        allocator: name_of_hardened(modes),
        reason: error.to_string(),
    }
}

/// The new process's side: makes a heap of `bytes` bytes on a device that has scatterheap's kernels, which should be the first, and gives the milliseconds
/// until it is usable.
///
/// # Errors
///
/// If it cannot be made.
pub fn make_first_heap(
    device: &Device,
    bytes: u64,
    stripes: Option<u32>,
    hardening: Hardening,
) -> Result<f64> {
    let mut allocator = Scatterheap::new(device)
        .stripes(stripes)
        .hardened(hardening);
    milliseconds_to_create(device, &mut allocator, bytes)
}

/// Milliseconds until an allocator's new heap is usable.
pub(crate) fn milliseconds_to_create(
    device: &Device,
    allocator: &mut dyn Allocator,
    bytes: u64,
) -> Result<f64> {
    device.synchronize()?;
    let start = Instant::now();
    allocator.create(bytes)?;
    device.synchronize()?;
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn told(script: &str) -> Result<f64> {
        let first = FirstHeap {
            program: "sh".into(),
            arguments: ["-c", script].map(OsString::from).into(),
        };
        first.milliseconds(4096, Some(7), Hardening::all())
    }

    #[test]
    fn the_process_is_told_what_heap_and_prints_its_time() {
        let modes = Hardening::all();
        let script =
            format!(r#"[ "$*" = "--stripes 7 --harden {modes}" ] && [ "$0" = 4096 ] && echo 1.5"#);
        let time = told(&script).expect("it is told so");
        assert!((time - 1.5).abs() < 1e-9, "{time}");
    }

    #[test]
    fn a_process_that_fails_says_why() {
        for script in ["echo oh >&2; exit 3", "echo 1; echo oh >&2; exit 3"] {
            let error = told(script).expect_err("it fails").to_string();
            assert!(
                error.contains("exit status: 3") && error.contains(": oh"),
                "{error}"
            );
        }
        for script in ["", "echo much", "echo inf"] {
            told(script).expect_err("it prints no time");
        }
    }
}
