//! Runs a program of libFuzzer for a while, and reads what it prints.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Bytes of an input at most. What is to be found needs no more.
const LONGEST: usize = 4096;
/// Seconds after which an input counts as a hang; the slowest takes a twentieth of one.
const PATIENCE: u64 = 60;
/// MiB after which the program counts as out of memory.
const MEMORY: u64 = 2048;

/// A program and its directories.
pub struct Fuzzer {
    /// The target.
    pub program: PathBuf,
    /// Where inputs are kept that reached something new.
    pub found: PathBuf,
    /// Inputs to begin with.
    pub committed: PathBuf,
    /// Where inputs are kept that made the program fail.
    pub failures: PathBuf,
}

/// How far the program is, as it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Inputs.
    pub runs: u64,
    /// Edges of the program that were covered.
    pub coverage: u64,
    /// Inputs that are kept.
    pub corpus: u64,
}

/// An input that made the program fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The file with it.
    pub input: PathBuf,
    /// What the program said.
    pub complaint: String,
}

/// What came of a slice.
pub struct Slice {
    pub status: Status,
    pub seconds: f64,
    pub failure: Option<Failure>,
}

impl Fuzzer {
    /// Runs for so many seconds or inputs; `see` is told how far it is, and after how many seconds.
    ///
    /// # Errors
    /// The program cannot be run, or ends without saying why.
    pub fn run(&self, seconds: u64, runs: u64, see: impl Fn(&Status, f64)) -> Result<Slice> {
        for directory in [&self.found, &self.failures] {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        let begin = Instant::now();
        let mut child = self
            .command(seconds, runs)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let output = child.stderr.take().context("its output is piped")?;
        let mut told = Told::default();
        for line in BufReader::new(output).split(b'\n') {
            told.hear(&String::from_utf8_lossy(&line?));
            see(&told.status, begin.elapsed().as_secs_f64());
        }
        let ending = child.wait()?;
        if !ending.success() && told.input.is_none() {
            bail!(
                "{} ended ({ending}) without an input that makes it: {}",
                self.program.display(),
                told.last
            );
        }
        Ok(Slice {
            status: told.status,
            seconds: begin.elapsed().as_secs_f64(),
            failure: told.input.map(|input| Failure {
                input,
                complaint: told.complaint.unwrap_or(told.last),
            }),
        })
    }

    fn command(&self, seconds: u64, runs: u64) -> Command {
        let mut prefix = self.failures.clone().into_os_string();
        prefix.push("/");
        let mut artifacts = std::ffi::OsString::from("-artifact_prefix=");
        artifacts.push(prefix);
        let mut command = Command::new(&self.program);
        command
            .arg(format!("-max_total_time={seconds}"))
            // What the option holds; more is not done in a slice.
            .arg(format!(
                "-runs={}",
                runs.min(i32::MAX.unsigned_abs().into())
            ))
            .arg(format!("-max_len={LONGEST}"))
            .arg(format!("-timeout={PATIENCE}"))
            .arg(format!("-rss_limit_mb={MEMORY}"))
            .args(["-print_final_stats=1", "-reload=0"])
            .arg(artifacts)
            .arg(&self.found)
            .args(self.committed.is_dir().then_some(&self.committed));
        command
    }
}

/// What the program said so far.
#[derive(Debug, Default)]
struct Told {
    status: Status,
    input: Option<PathBuf>,
    /// The message of a panic, or what libFuzzer itself complains of.
    complaint: Option<String>,
    is_panic: bool,
    last: String,
}

impl Told {
    fn hear(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(rest) = line.strip_prefix('#') {
            self.progress(rest);
        } else if let Some(runs) = line.strip_prefix("stat::number_of_executed_units:") {
            self.status.runs = runs.trim().parse().unwrap_or(self.status.runs);
        } else if let Some((_, path)) = line.split_once("Test unit written to ") {
            // One that only took long made nothing fail, and the program goes on.
            let path = Path::new(path);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.starts_with("slow-unit-") {
                self.input = Some(path.into());
            }
        } else if self.is_panic && self.complaint.is_none() {
            self.complaint = Some(line.to_owned());
        } else if line.contains(" panicked at ") {
            self.is_panic = true;
        } else if let Some((_, what)) = line.split_once("ERROR: libFuzzer: ")
            && self.complaint.is_none()
        {
            self.complaint = Some(what.to_owned());
        }
        if !line.is_empty() {
            line.clone_into(&mut self.last);
        }
    }

    /// `123 NEW cov: 4 ft: 5 corp: 6/7b exec/s: 8`
    fn progress(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let number = |word: Option<&str>| -> Option<u64> {
            let digits = word?.split('/').next()?;
            digits.parse().ok()
        };
        let Some(runs) = number(words.next()) else {
            return;
        };
        self.status.runs = self.status.runs.max(runs);
        while let Some(word) = words.next() {
            let place = match word {
                "cov:" => &mut self.status.coverage,
                "corp:" => &mut self.status.corpus,
                _ => continue,
            };
            *place = number(words.next()).unwrap_or(*place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_understood() {
        let mut told = Told::default();
        for line in [
            "INFO: Seed: 2839",
            "#12\tINITED cov: 300 ft: 400 corp: 5/60b exec/s: 0 rss: 30Mb",
            "#4096\tpulse  cov: 310 ft: 500 corp: 17/1Kb lim: 6 exec/s: 2048 rss: 31Mb",
            "\tNEW_FUNC[1/1]: 0x55f3c3a62261",
        ] {
            told.hear(line);
        }
        let status = Status {
            runs: 4096,
            coverage: 310,
            corpus: 17,
        };
        assert_eq!(told.status, status);
        assert!(told.input.is_none() && told.complaint.is_none());
        told.hear("stat::number_of_executed_units: 5000");
        assert_eq!(told.status.runs, 5000);
    }

    #[test]
    fn a_failure_has_its_reason_and_its_input() {
        let mut told = Told::default();
        for line in [
            "thread '<unnamed>' (14742) panicked at targets/src/sizes.rs:33:23:",
            "no luck",
            "note: run with `RUST_BACKTRACE=1`",
            "==14742== ERROR: libFuzzer: deadly signal",
            "artifact_prefix='x/'; Test unit written to x/crash-41a2",
        ] {
            told.hear(line);
        }
        assert_eq!(told.complaint.as_deref(), Some("no luck"));
        assert_eq!(told.input, Some("x/crash-41a2".into()));
        let mut told = Told::default();
        told.hear("==1== ERROR: libFuzzer: timeout after 60 seconds");
        assert_eq!(told.complaint.as_deref(), Some("timeout after 60 seconds"));
    }

    /// Runs a script as if it were a program of libFuzzer.
    #[cfg(unix)]
    fn run_script(script: &str) -> Result<Slice> {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("program");
        // Written by another process: while any of this one has it open, it cannot be started.
        let write = "printf '#!/bin/sh\\n%s' \"$1\" > \"$0\" && chmod +x \"$0\"";
        let mut writer = Command::new("sh");
        writer.args(["-c", write]).arg(&program).arg(script);
        crate::process::run(&mut writer).expect("it can be written");
        let fuzzer = Fuzzer {
            program,
            found: directory.path().join("found"),
            committed: directory.path().join("committed"),
            failures: directory.path().join("failures"),
        };
        fuzzer.run(1, 10, |_, _| {})
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_fails_names_its_input_or_is_at_fault() {
        let slice = run_script("echo '#10 DONE cov: 3 corp: 2/9b' >&2").expect("it ends well");
        assert_eq!((slice.status.runs, slice.failure), (10, None));

        let failing = "echo 'Test unit written to x/crash-1' >&2; echo bad >&2; exit 77";
        let slice = run_script(failing).expect("there is an input");
        let failure = slice.failure.expect("it fails");
        assert_eq!(failure.input, PathBuf::from("x/crash-1"));
        assert_eq!(failure.complaint, "bad");

        let slow = "echo 'Test unit written to x/slow-unit-1' >&2; exit 0";
        assert_eq!(run_script(slow).expect("it ends well").failure, None);
        let failing = "echo 'Test unit written to x/crash-1' >&2
            echo 'Test unit written to x/slow-unit-2' >&2; exit 77";
        let failure = run_script(failing).expect("there is an input").failure;
        let input = failure.map(|failure| failure.input);
        assert_eq!(input, Some(PathBuf::from("x/crash-1")));

        let Err(error) = run_script("echo no luck >&2; exit 3") else {
            panic!("it names no input");
        };
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        assert!(error.to_string().ends_with("no luck"), "{error}");
    }
}
