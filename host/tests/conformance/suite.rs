//! The trials: each case for each resource on each device.

mod blocks;
mod capacity;
mod cases;
mod content;
mod devices;
mod kernel;
mod order;
mod random;
mod shadow;
mod table;
mod threads;

use cases::CASES;
use libtest_mimic::{Arguments, Trial};
use parking_lot::Mutex;
use scatterheap_host::Device;
use std::process::ExitCode;
use std::sync::Arc;
use table::subjects;

/// Held by who uses a GPU: what others wait for there would hide what one does not wait for.
static GPU: Mutex<()> = Mutex::new(());

/// Runs the trials that the arguments ask for.
pub fn run() -> ExitCode {
    let arguments = Arguments::from_args();
    let devices = if arguments.list {
        devices::found()
    } else {
        devices::devices()
    };
    libtest_mimic::run(&arguments, trials(&devices)).exit_code()
}

/// All trials, those on the CPU first: they need not wait for each other.
fn trials(devices: &[Device]) -> Vec<Trial> {
    let subjects: Vec<_> = subjects().into_iter().map(Arc::new).collect();
    let mut trials = Vec::new();
    for device in devices {
        for case in CASES {
            for subject in &subjects {
                let name = name(case.name, &subject.name, device);
                let subject = Arc::clone(subject);
                trials.push(trial(name, device, move |device| {
                    (case.check)(&subject, device);
                }));
            }
        }
        trials.push(trial(
            name(
                "a_growable_buffer_is_not_given_back_under_work_that_runs",
                "GrowableBuffer",
                device,
            ),
            device,
            order::a_growable_buffer_is_not_given_back_under_work_that_runs,
        ));
    }
    trials
}

fn trial(name: String, device: &Device, check: impl FnOnce(&Device) + Send + 'static) -> Trial {
    let device = device.clone();
    Trial::test(name, move || {
        let _alone = device.is_gpu().then(|| GPU.lock());
        check(&device);
        Ok(())
    })
}

/// A trial's name, without spaces: `basic::Caching-of-Segments::cpu`.
fn name(case: &str, subject: &str, device: &Device) -> String {
    let subject = subject.replace(", ", "-").replace(' ', "-");
    format!("{case}::{subject}::{}", device.label())
}
