//! `cargo xtask model --total`: explores the scenarios of the warps for hours, in slices.
//!
//! Each slice that passed is a line of a record, which is the program's own: other sources make another. Slices have seeds of their own,
//! so a run that was interrupted loses the slice that it was at, and the next goes on after the last one on record.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fs4::{FileExt, TryLockError};
use serde::{Deserialize, Serialize};

use crate::executables::{self, fingerprint};
use crate::model::build_of_scenarios;
use crate::process;
use crate::revision::Revision;
use crate::toolchain::workspace;

/// Schedules of a slice: a few minutes.
const SLICE: u64 = 100_000;
/// Slices have seeds from multiples of this on, more than any scenario takes.
const SEEDS: u64 = 1 << 32;

/// A line of the record.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Slice {
    /// For people.
    commit: String,
    /// First seed of each scenario.
    seed: u64,
    /// Schedules of all scenarios together.
    schedules: u64,
    /// Seconds by the clock.
    seconds: f64,
}

/// Explores until `total` schedules of these scenarios are on record, and sums the record up.
///
/// # Errors
/// The scenarios do not build, one of them fails, or the record cannot be kept.
pub fn run(total: u64) -> Result<()> {
    let commit = Revision::find()?.commit;
    let built = executables::build_by(&mut build_of_scenarios())?;
    let scenarios = built
        .iter()
        .find(|program| program.name == "warps" && program.is_test)
        .context("cargo built no scenarios of warps")?;
    // A copy, so that whoever builds meanwhile does not change what is explored.
    let scratch = tempfile::tempdir().context("cannot create a temporary directory")?;
    let program = scratch.path().join("warps");
    fs::copy(&scenarios.file, &program).context("cannot copy the scenarios")?;
    let record = record_of(&program)?;
    let _lock = lock(&record)?;

    let mut slices = read(&record)?;
    loop {
        let done: u64 = slices.iter().map(|slice| slice.schedules).sum();
        println!("{}", summary(&slices, total));
        if done >= total {
            println!("on record in {}", record.display());
            return Ok(());
        }
        let seed = slices.last().map_or(SEEDS, |slice| slice.seed + SEEDS);
        let slice = explore(&program, &commit, seed, SLICE.min(total - done))?;
        append(&record, &slice)?;
        slices.push(slice);
    }
}

/// Where it is kept what was explored by a program. A commit would not tell: sources may be changed, or not cloned.
fn record_of(program: &Path) -> Result<PathBuf> {
    let program = fingerprint(program)?;
    Ok(workspace().join(format!("target/shuttle/explored-{program:016x}.jsonl")))
}

/// Keeps a record to one run at a time: two would explore the same seeds, and count them twice. It ends with the file, also
/// if the process is killed.
fn lock(record: &Path) -> Result<File> {
    let path = record.with_extension("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    match FileExt::try_lock(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "another run explores for {}; end it, or wait until it is through",
            record.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// Explores one slice. What it prints is shown if it fails.
fn explore(program: &Path, commit: &str, seed: u64, schedules: u64) -> Result<Slice> {
    let scratch = tempfile::tempdir().context("cannot create a temporary directory")?;
    let explored = scratch.path().join("explored.csv");
    let begin = Instant::now();
    process::run(
        Command::new(program)
            .arg("--nocapture")
            .env("SCATTERHEAP_SEED", seed.to_string())
            .env("SCATTERHEAP_SCHEDULES", schedules.to_string())
            .env("SCATTERHEAP_EXPLORED", &explored)
            .env_remove("SCATTERHEAP_EACH"),
    )?;
    Ok(Slice {
        commit: commit.to_owned(),
        seed,
        schedules: count(&fs::read_to_string(&explored)?)?,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// Sums the schedules up that scenarios say they explored.
fn count(explored: &str) -> Result<u64> {
    let schedules = |line: &str| -> Option<u64> { line.split(',').nth(3)?.parse().ok() };
    let mut sum = 0;
    for line in explored.lines() {
        sum += schedules(line).with_context(|| format!("no scenario writes `{line}`"))?;
    }
    if sum == 0 {
        bail!("no scenario says what it explored");
    }
    Ok(sum)
}

fn read(record: &Path) -> Result<Vec<Slice>> {
    let text = match fs::read_to_string(record) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", record.display()));
        }
    };
    text.lines()
        .map(|line| {
            serde_json::from_str(line).with_context(|| {
                let file = record.display();
                format!("{file} has a line that is none of a record: `{line}`; remove it")
            })
        })
        .collect()
}

fn append(record: &Path, slice: &Slice) -> Result<()> {
    let line = serde_json::to_string(slice)? + "\n";
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(record)
        .with_context(|| format!("cannot open {}", record.display()))?;
    file.write_all(line.as_bytes())
        .with_context(|| format!("cannot write {}", record.display()))
}

/// How far the run is, and how long the rest takes.
fn summary(slices: &[Slice], total: u64) -> String {
    let done: u64 = slices.iter().map(|slice| slice.schedules).sum();
    let seconds: f64 = slices.iter().map(|slice| slice.seconds).sum();
    let Some(last) = slices.last() else {
        return format!("0 of {total} schedules");
    };
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    let (rate, left) = (
        done as f64 / seconds.max(1e-9),
        total.saturating_sub(done) as f64,
    );
    let hours = left / rate / 3600.0;
    format!(
        "{done} of {total} schedules in {seconds:.0} s, 0 failures, {rate:.0} a second, {hours:.1} h left; commit {}",
        last.commit
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(seed: u64) -> Slice {
        Slice {
            commit: "abc".into(),
            seed,
            schedules: 500,
            seconds: 2.0,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let record = scratch.path().join("record.jsonl");
        assert_eq!(read(&record).expect("there is none yet"), []);
        append(&record, &slice(1)).expect("write");
        append(&record, &slice(2)).expect("write");
        assert_eq!(read(&record).expect("a record"), [slice(1), slice(2)]);
        fs::write(&record, "{\"commit\":").expect("write");
        let error = read(&record).expect_err("half a line").to_string();
        assert!(error.contains("remove it"), "{error}");
    }

    #[test]
    fn a_record_is_of_one_run_at_a_time() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let [one, two] = ["one.jsonl", "two.jsonl"].map(|name| scratch.path().join(name));
        let first = lock(&one).expect("nobody else has it");
        lock(&two).expect("this is another");
        let message = lock(&one).expect_err("it is locked").to_string();
        assert!(
            message.starts_with("another run explores for "),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
        drop(first);
        lock(&one).expect("the first is through");
        assert!(!one.exists(), "what was explored is written elsewhere");
    }

    #[test]
    fn another_program_has_another_record() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let program = scratch.path().join("warps");
        let record = |content| {
            fs::write(&program, content).expect("write");
            record_of(&program).expect("it can be read")
        };
        let first = record("one");
        assert_ne!(record("another"), first);
        assert_eq!(record("one"), first);
    }

    #[test]
    fn what_scenarios_explored_is_summed_up() {
        let sum = count("one,7,3,12,0.1\ntwo,7,5,8,2.0\n").expect("two scenarios");
        assert_eq!(sum, 20);
        assert!(count("").is_err());
        assert!(count("one,7\n").is_err());
    }

    #[test]
    fn the_summary_says_what_is_left() {
        let text = summary(&[slice(1), slice(2)], 2000);
        let expected = "1000 of 2000 schedules in 4 s, 0 failures, 250 a second, 0.0 h left";
        assert!(text.starts_with(expected), "{text}");
    }
}
