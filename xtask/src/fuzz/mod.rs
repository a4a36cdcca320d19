//! `cargo xtask fuzz`: feeds the targets of `fuzz/targets` with inputs that libFuzzer makes up.
//!
//! A stable compiler does: the programs are built by cargo-fuzz without a sanitizer, unless one is asked
//! for. Each target runs in slices of a minute, and after each is written down what was done; so a run that
//! is interrupted loses a minute at most, and goes on with `--resume`. Inputs that reach something new
//! are kept in `target/fuzz/corpus`, and later runs begin with them.

mod journal;
mod libfuzzer;
mod program;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::process::run as run_command;
use crate::toolchain::workspace;
use journal::{Journal, Record};
use libfuzzer::{Fuzzer, Status};
pub use program::{Sanitizer, build};

/// The targets, in the order in which they run.
pub const TARGETS: [&str; 6] = [
    "operations",
    "threads",
    "trace",
    "snapshot",
    "sizes",
    "tables",
];
/// Seconds that each target has if nothing is said.
const USUAL_SECONDS: u64 = 60;
/// Seconds of a slice.
const SLICE_SECONDS: u64 = 60;

/// Feed the heap, the readers of files and the command line with made-up inputs (libFuzzer)
#[derive(clap::Args, Debug)]
pub struct FuzzArguments {
    /// Seconds for each target [default: 60, unless --runs is given]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    /// Inputs for each target; with --seconds, whichever comes first
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,

    /// Count what was done with the same programs before, as after an interruption
    #[arg(long)]
    resume: bool,

    /// What notices accesses out of bounds; `address` is many times slower
    #[arg(long, default_value = "none")]
    sanitizer: Sanitizer,

    /// Targets [default: all]
    #[arg(value_name = "TARGET", value_parser = TARGETS)]
    targets: Vec<String>,
}

/// How much of a target there is to do.
#[derive(Clone, Copy)]
struct Goal {
    seconds: u64,
    runs: u64,
}

/// Builds the targets, runs them one after the other, and prints a table.
///
/// # Errors
/// cargo-fuzz cannot be installed, a program cannot be built or started, or an input made one fail.
#[allow(
    clippy::needless_pass_by_value,
    reason = "arguments are parsed for this call alone"
)]
pub fn run(arguments: FuzzArguments) -> Result<()> {
    let targets: Vec<&str> = TARGETS
        .into_iter()
        .filter(|target| {
            arguments.targets.is_empty() || arguments.targets.iter().any(|asked| asked == target)
        })
        .collect();
    let goal = Goal {
        seconds: arguments.seconds.unwrap_or(match arguments.runs {
            Some(_) => u64::MAX,
            None => USUAL_SECONDS,
        }),
        runs: arguments.runs.unwrap_or(u64::MAX),
    };
    let programs = build(arguments.sanitizer)?;
    let commit = commit_of(workspace());
    let mut records = Vec::new();
    for target in targets {
        let begin = Record::new(target, &programs.of(target), &commit)?;
        let journal = Journal::open(&directory("journal")?)?;
        let done = if arguments.resume {
            journal.so_far(begin)?
        } else {
            begin
        };
        let fuzzer = Fuzzer {
            program: programs.of(target),
            found: directory("corpus")?.join(target),
            committed: workspace().join("fuzz").join("corpus").join(target),
            failures: directory("failures")?.join(target),
        };
        records.push(run_target(&fuzzer, &journal, done, goal)?);
    }
    print!("\n{}", journal::table(&records));
    judge(&records)
}

/// Where runs keep what they have; it is made if need be.
fn directory(name: &str) -> Result<PathBuf> {
    let directory = workspace().join("target").join("fuzz").join(name);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    Ok(directory)
}

/// The commit that is checked out, and whether files differ from it. It is for people alone: sources that were not cloned
/// have none.
fn commit_of(directory: &Path) -> String {
    let mut git = Command::new("git");
    git.current_dir(directory).args([
        "describe",
        "--always",
        "--dirty",
        "--abbrev=7",
        "--exclude=*",
    ]);
    run_command(&mut git).map_or_else(|_| "unknown".to_owned(), |said| said.trim().to_owned())
}

/// Runs one target in slices, until it has done enough or an input made it fail.
fn run_target(
    fuzzer: &Fuzzer,
    journal: &Journal,
    mut record: Record,
    goal: Goal,
) -> Result<Record> {
    let bar = bar(&record.target, goal);
    while record.crash.is_none() && record.runs < goal.runs && record.whole_seconds() < goal.seconds
    {
        let before = record.clone();
        let show = |status: &Status, seconds: f64| {
            let mut now = before.clone();
            now.add(status, seconds);
            bar.set_position(if goal.seconds == u64::MAX {
                now.runs.min(goal.runs)
            } else {
                now.whole_seconds().min(goal.seconds)
            });
            bar.set_message(now.progress());
        };
        let slice = fuzzer.run(
            SLICE_SECONDS.min(goal.seconds - record.whole_seconds()),
            goal.runs - record.runs,
            show,
        )?;
        record.add(&slice.status, slice.seconds);
        record.crash = slice.failure;
        journal.write(&record, &before)?;
    }
    bar.finish_and_clear();
    println!("{}", record.line());
    Ok(record)
}

/// A bar over seconds, or over inputs if there is no limit of time.
fn bar(target: &str, goal: Goal) -> ProgressBar {
    let (length, unit) = if goal.seconds == u64::MAX {
        (goal.runs, "inputs")
    } else {
        (goal.seconds, "s")
    };
    let style = ProgressStyle::with_template("{prefix:<12} {wide_bar} {pos}/{len} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(length).with_style(style);
    bar.set_prefix(target.to_owned());
    bar.set_message(unit);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Fails if a target did.
fn judge(records: &[Record]) -> Result<()> {
    let failed: Vec<String> = records
        .iter()
        .filter_map(|record| {
            let crash = record.crash.as_ref()?;
            Some(format!("{} ({})", record.target, relative(&crash.input)))
        })
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!(
        "inputs were found that make a target fail: {}; copy each to fuzz/corpus/TARGET under a telling \
         name, and `cargo test -p scatterheap-fuzz-targets` repeats it",
        failed.join(", ")
    )
}

/// A path as seen from the workspace.
fn relative(path: &Path) -> String {
    let path = path.strip_prefix(workspace()).unwrap_or(path);
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_were_not_cloned_have_no_commit() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(commit_of(directory.path()), "unknown");
    }

    #[test]
    fn each_target_has_a_program_and_a_corpus() {
        let mut targets = TARGETS.to_vec();
        targets.sort_unstable();
        for directory in ["fuzz_targets", "corpus"] {
            let directory = workspace().join("fuzz").join(directory);
            let mut found: Vec<String> = fs::read_dir(&directory)
                .expect("it can be listed")
                .map(|entry| entry.expect("it can be listed").path())
                .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
                .collect();
            found.sort();
            assert_eq!(found, targets, "{}", directory.display());
        }
    }
}
