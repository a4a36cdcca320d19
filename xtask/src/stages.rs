//! The stages of a long task: a heading and the time for each, what was skipped, and a summary.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::process::watch;

/// How a test says that it did not run: `skipped: NAME: REASON` or `skipped: NAME (REASON)` at the
/// beginning of a line.
const SKIPPED: &str = "skipped: ";
/// The end of the name of what needs a GPU.
const ON_A_GPU: &str = " on a GPU";

/// The stages that ran so far.
#[derive(Default)]
pub struct Stages {
    done: Vec<Stage>,
    skipped: Skipped,
}

struct Stage {
    name: &'static str,
    passed: bool,
    took: Duration,
}

/// What was skipped: the rest of each line that said so.
#[derive(Default)]
struct Skipped(Vec<String>);

impl Stages {
    /// Runs a stage under a heading.
    pub fn run(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        self.time(name, |_| work())
    }

    /// Runs a command as a stage under a heading, and collects what it skips.
    pub fn command(&mut self, name: &'static str, command: &mut Command) -> Result<()> {
        self.time(name, |skipped| watch(command, |line| skipped.see(line)))
    }

    /// Runs several commands as one stage.
    pub fn commands(&mut self, name: &'static str, commands: Vec<Command>) -> Result<()> {
        self.time(name, |skipped| {
            for mut command in commands {
                println!("-- {}", command.get_program().display());
                watch(&mut command, |line| skipped.see(line))?;
            }
            Ok(())
        })
    }

    /// Notes that a stage was skipped.
    pub fn skip(&mut self, name: &str, reason: &str) {
        let line = format!("{SKIPPED}{name}: {reason}");
        println!("\n{line}");
        self.skipped.see(&line);
    }

    fn time(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut Skipped) -> Result<()>,
    ) -> Result<()> {
        println!("\n== {name} ==");
        let start = Instant::now();
        let result = work(&mut self.skipped);
        let stage = Stage {
            name,
            passed: result.is_ok(),
            took: start.elapsed(),
        };
        println!("== {stage} ==");
        self.done.push(stage);
        result.with_context(|| format!("stage `{name}`"))
    }

    /// Stages, seconds, and what was skipped. `gpus` is how many GPUs there are, if known.
    pub fn summary(&self, gpus: Option<usize>) -> String {
        let mut text = String::from("\n== summary ==\n");
        for stage in &self.done {
            let _ = writeln!(text, "{stage}");
        }
        let total: Duration = self.done.iter().map(|stage| stage.took).sum();
        let passed = self.done.iter().filter(|stage| stage.passed).count();
        let (of, seconds) = (self.done.len(), total.as_secs_f64());
        let _ = writeln!(text, "{passed} of {of} stages passed in {seconds:.1} s");
        text + &self.skipped.summary(gpus)
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = if self.passed { "ok" } else { "FAILED" };
        let seconds = self.took.as_secs_f64();
        write!(formatter, "{:<24} {verdict:<6} {seconds:>7.1} s", self.name)
    }
}

impl Skipped {
    fn see(&mut self, line: &str) {
        if let Some(what) = line.strip_prefix(SKIPPED)
            && !self.0.iter().any(|known| known == what)
        {
            self.0.push(what.to_owned());
        }
    }

    fn summary(&self, gpus: Option<usize>) -> String {
        let (for_gpus, others): (Vec<_>, Vec<_>) = self
            .0
            .iter()
            .partition(|what| name_of(what).ends_with(ON_A_GPU));
        let mut text = String::new();
        for what in others {
            let _ = writeln!(text, "{SKIPPED}{what}");
        }
        let names: Vec<&str> = for_gpus
            .into_iter()
            .map(|what| name_of(what).trim_end_matches(ON_A_GPU))
            .collect();
        let list = if names.is_empty() {
            String::new()
        } else {
            format!(" ({})", names.join("; "))
        };
        let count = names.len();
        let suites = if count == 1 { "suite" } else { "suites" };
        match gpus {
            Some(gpus @ 1..) => {
                let _ = writeln!(text, "GPUs: {gpus}; {count} device {suites} skipped{list}");
            }
            Some(0) => {
                let _ = writeln!(text, "no GPU: {count} device {suites} skipped{list}");
            }
            None => {}
        }
        text
    }
}

/// What was skipped, without the reason.
fn name_of(what: &str) -> &str {
    let end = [": ", " ("]
        .into_iter()
        .filter_map(|reason| what.find(reason))
        .min();
    &what[..end.unwrap_or(what.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::workspace;
    use std::ffi::OsStr;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn stage(name: &'static str, passed: bool) -> Stage {
        Stage {
            name,
            passed,
            took: Duration::from_millis(1500),
        }
    }

    #[test]
    fn what_is_skipped_for_want_of_a_gpu_is_counted_and_named() {
        let mut stages = Stages::default();
        for line in [
            "test one ... ok",
            "skipped: ptxas: assembling for every GPU (not found)",
            "skipped: stress on a GPU (no driver found)",
            "skipped: stress on a GPU (no driver found)",
            "skipped: snapshots, large ones on a GPU: no GPU found",
        ] {
            stages.skipped.see(line);
        }
        let summary = stages.summary(Some(0));
        let lines: Vec<_> = summary.lines().rev().collect();
        assert_eq!(
            lines[0],
            "no GPU: 2 device suites skipped (stress; snapshots, large ones)"
        );
        assert_eq!(
            lines[1],
            "skipped: ptxas: assembling for every GPU (not found)"
        );
        assert!(stages.summary(Some(1)).contains("GPUs: 1; 2 device suites"));
    }

    #[test]
    fn stages_are_listed_and_counted() {
        let stages = Stages {
            done: vec![stage("first", true), stage("second", false)],
            skipped: Skipped::default(),
        };
        let summary = stages.summary(None);
        assert!(
            summary.ends_with("1 of 2 stages passed in 3.0 s\n"),
            "{summary}"
        );
        assert!(summary.contains("FAILED     1.5 s"), "{summary}");
    }

    /// Sources below directories named `tests`.
    fn tests_in(directory: &Path, is_test: bool, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("it can be listed") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            let is_left_out = path.is_symlink() || name.starts_with('.') || name == "target";
            if path.is_dir() && !is_left_out {
                tests_in(&path, is_test || name == "tests", found);
            } else if is_test && path.extension() == Some(OsStr::new("rs")) {
                found.push(path);
            }
        }
    }

    #[test]
    fn tests_say_that_they_are_skipped_as_the_summary_reads_it() {
        let mut tests = Vec::new();
        tests_in(workspace(), false, &mut tests);
        assert!(tests.len() > 50, "{tests:?}");
        for test in tests {
            let text = fs::read_to_string(&test).expect("a source");
            for (_, said) in text
                .match_indices("println!(\"")
                .map(|(at, _)| text.split_at(at))
            {
                let said = &said["println!(\"".len()..];
                let is_skip = said
                    .get(..4)
                    .is_some_and(|word| word.eq_ignore_ascii_case("skip"));
                assert!(
                    !is_skip || said.starts_with(SKIPPED),
                    "{} prints no `{SKIPPED}NAME (REASON)`: {}",
                    test.display(),
                    said.lines().next().unwrap_or_default()
                );
            }
        }
    }
}
