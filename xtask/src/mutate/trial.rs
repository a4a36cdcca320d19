//! One loom model in a process of its own, with or without a mutation.

use std::fs;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::site::{Mutation, Site};
use crate::process::run;
use crate::toolchain::workspace;

/// How often a running model is looked at.
const PAUSE: Duration = Duration::from_millis(10);

/// The program with the models.
pub struct Models {
    pub program: PathBuf,
}

/// How a model ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// A panic, and what it said.
    Failed(String),
    /// It hung, or ended without a word: how.
    Crashed(String),
}

/// A run of a model.
pub struct Trial {
    pub verdict: Verdict,
    pub time: Duration,
}

impl Models {
    /// Names of the models, those that contain `filter`.
    pub fn names(&self, filter: Option<&str>) -> Result<Vec<String>> {
        let mut command = Command::new(&self.program);
        command.args(["--list", "--format", "terse"]).args(filter);
        let names = names_in(&run(&mut command)?);
        ensure!(
            !names.is_empty(),
            "no model has a name that contains `{}`",
            filter.unwrap_or_default()
        );
        Ok(names)
    }

    /// Runs a model as the source has it, and finds the sites that it comes to.
    pub fn survey(&self, model: &str, seconds: u64) -> Result<(Trial, Vec<Site>)> {
        let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
        let file = directory.path().join("sites");
        let mut command = self.command(model, seconds);
        let trial = conclude(command.env("SCATTERHEAP_SITES", &file), seconds)?;
        // A model without sites writes none.
        let written = if file.exists() {
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?
        } else {
            String::new()
        };
        let sites = written.lines().map(Site::parse).collect::<Result<_>>()?;
        Ok((trial, sites))
    }

    /// Runs a model with a mutation.
    pub fn try_mutation(&self, model: &str, mutation: &Mutation, seconds: u64) -> Result<Trial> {
        let mut command = self.command(model, seconds);
        command.env("SCATTERHEAP_WEAKEN", mutation.variable());
        conclude(&mut command, seconds)
    }

    fn command(&self, model: &str, seconds: u64) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--exact", model, "--nocapture", "--test-threads=1"])
            .current_dir(workspace())
            .env("LOOM_MAX_DURATION", seconds.to_string())
            // Traces of a failure are long, and only its message is wanted.
            .env("RUST_BACKTRACE", "0")
            .env_remove("SCATTERHEAP_WEAKEN")
            .env_remove("SCATTERHEAP_SITES");
        command
    }
}

/// The tests that a test program lists.
fn names_in(list: &str) -> Vec<String> {
    list.lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect()
}

/// Runs a model to its end, which a hang does not come to: loom looks at its clock between
/// executions only, and a test may have several explorations.
fn conclude(command: &mut Command, seconds: u64) -> Result<Trial> {
    let mut log = tempfile::tempfile().context("cannot make a temporary file")?;
    let begin = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(log.try_clone().context("cannot share a temporary file")?)
        .spawn()
        .context("cannot start the models")?;
    let patience = Duration::from_secs(30 + 4 * seconds);
    let status = wait(&mut child, begin + patience)?;
    let verdict = match status {
        Some(status) if status.success() => Verdict::Passed,
        Some(status) => {
            ensure!(
                !is_killed(status),
                "a model was killed ({status}), so it is not known whether it fails; look whether memory is \
                short, and run this again: it goes on where it was"
            );
            match complaint(&read_from_start(&mut log)?) {
                Some(complaint) => Verdict::Failed(complaint),
                None => Verdict::Crashed(status.to_string()),
            }
        }
        None => Verdict::Crashed(format!("no end after {} s", patience.as_secs())),
    };
    Ok(Trial {
        verdict,
        time: begin.elapsed(),
    })
}

/// Waits for a process until `deadline`, and ends it then.
fn wait(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a model")? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill().context("cannot end a model that hangs")?;
            child.wait().context("cannot wait for a model")?;
            return Ok(None);
        }
        thread::sleep(PAUSE);
    }
}

fn read_from_start(file: &mut fs::File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .context("cannot read what a model said")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether somebody else ended a process, such as the system when memory is short. A fault is its own.
#[cfg(unix)]
fn is_killed(status: ExitStatus) -> bool {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
    use std::os::unix::process::ExitStatusExt;
    let signal = status.signal();
    signal.is_some_and(|signal| [SIGHUP, SIGINT, SIGKILL, SIGTERM].contains(&signal))
}

#[cfg(not(unix))]
fn is_killed(_: ExitStatus) -> bool {
    false
}

/// The first line of the first panic's message.
fn complaint(log: &str) -> Option<String> {
    let mut lines = log.lines();
    lines.find(|line| line.contains("panicked at "))?;
    lines.next().map(|line| line.trim().to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn tests_are_read_from_a_list() {
        assert_eq!(
            names_in("one: test\nsome: benchmark\n\ntwo: test\n"),
            ["one", "two"]
        );
    }

    #[test]
    fn a_failure_is_known_by_its_message_or_its_status() {
        let verdict = |script| conclude(&mut shell(script), 1).expect("sh starts").verdict;
        assert_eq!(verdict("exit 0"), Verdict::Passed);
        assert_eq!(
            verdict(
                "printf \"a\\nthread 'x' panicked at y:1:1:\\nit broke\\nnote\\n\" >&2; exit 101"
            ),
            Verdict::Failed("it broke".to_owned())
        );
        let Verdict::Crashed(fault) = verdict("kill -SEGV $$") else {
            panic!("it has failed");
        };
        assert!(fault.contains("SIGSEGV"), "{fault}");
    }

    #[test]
    fn what_is_killed_from_outside_has_not_failed() {
        let Err(error) = conclude(&mut shell("kill -KILL $$"), 1) else {
            panic!("nothing is known of it");
        };
        let text = error.to_string();
        assert!(text.contains("signal: 9"), "{text}");
    }

    #[test]
    fn what_hangs_is_ended() {
        let mut child = shell("sleep 60").spawn().expect("sh starts");
        let status = wait(&mut child, Instant::now()).expect("it can be ended");
        assert_eq!(status, None);
    }
}
