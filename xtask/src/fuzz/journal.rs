//! What was done with which program, kept in a file so that an interrupted run can go on; and the
//! table that tells it.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::libfuzzer::{Failure, Status};
use crate::executables::fingerprint;

/// What was done with a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The target.
    pub target: String,
    /// Tells apart programs.
    program: u64,
    /// The commit that it was built of.
    commit: String,
    /// Inputs.
    pub runs: u64,
    /// Seconds that they took.
    seconds: f64,
    /// Edges that they covered.
    coverage: u64,
    /// Inputs that are kept.
    corpus: u64,
    /// The input that made it fail.
    pub crash: Option<Failure>,
}

impl Record {
    /// Nothing done.
    ///
    /// # Errors
    /// The program cannot be read.
    pub fn new(target: &str, program: &Path, commit: &str) -> Result<Self> {
        Ok(Self {
            target: target.to_owned(),
            program: fingerprint(program)?,
            commit: commit.to_owned(),
            runs: 0,
            seconds: 0.0,
            coverage: 0,
            corpus: 0,
            crash: None,
        })
    }

    /// Adds what a slice did.
    pub fn add(&mut self, status: &Status, seconds: f64) {
        self.runs += status.runs;
        self.seconds += seconds;
        self.coverage = self.coverage.max(status.coverage);
        self.corpus = status.corpus;
    }

    /// Full seconds so far.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds are few and positive"
    )]
    pub fn whole_seconds(&self) -> u64 {
        // A slice may end a little early.
        (self.seconds + 0.5) as u64
    }

    /// What is shown beside the bar.
    pub fn progress(&self) -> String {
        let (runs, coverage, corpus) = (self.runs, self.coverage, self.corpus);
        let rate = self.rate();
        format!("{runs} inputs, {rate:.0}/s, {coverage} edges, {corpus} kept")
    }

    /// One line when the target is done.
    pub fn line(&self) -> String {
        let ending = match &self.crash {
            None => "no crash".to_owned(),
            Some(crash) => format!("CRASH: {}", crash.complaint),
        };
        let seconds = self.seconds;
        format!(
            "{:<12} {} in {seconds:.0} s; {ending}",
            self.target,
            self.progress()
        )
    }

    #[allow(clippy::cast_precision_loss, reason = "for people, three digits do")]
    fn rate(&self) -> f64 {
        self.runs as f64 / self.seconds.max(1e-3)
    }
}

/// The table of what was done, in Markdown.
pub fn table(records: &[Record]) -> String {
    let mut table = String::from(
        "| target | inputs | seconds | inputs/s | edges | kept | crashes | commit |\n\
         |---|--:|--:|--:|--:|--:|--:|---|\n",
    );
    for record in records {
        let _ = writeln!(
            table,
            "| {} | {} | {:.0} | {:.0} | {} | {} | {} | {} |",
            record.target,
            record.runs,
            record.seconds,
            record.rate(),
            record.coverage,
            record.corpus,
            u8::from(record.crash.is_some()),
            record.commit
        );
    }
    table
}

/// The file.
pub struct Journal(PathBuf);

impl Journal {
    /// The journal in a directory.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("fuzz.jsonl");
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(path))
    }

    /// What was last written of a target and its program; `begin` if nothing was. A crash does not count: it may
    /// be one that comes and goes.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn so_far(&self, begin: Record) -> Result<Record> {
        let written = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("cannot read {}", self.0.display()))?,
        };
        let last = written
            .lines()
            .rev()
            .filter_map(|line| serde_json::from_str::<Record>(line).ok())
            .find(|record| record.target == begin.target && record.program == begin.program);
        Ok(last.map_or(begin, |record| Record {
            crash: None,
            ..record
        }))
    }

    /// Writes down how far a target is, unless nothing came since.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn write(&self, record: &Record, before: &Record) -> Result<()> {
        if record == before {
            return Ok(());
        }
        let line = serde_json::to_string(record).context("a record is not to be written")?;
        let append = || {
            let mut file = OpenOptions::new().append(true).open(&self.0)?;
            // On a line of its own, whatever an interruption left.
            writeln!(file, "\n{line}")
        };
        append().with_context(|| format!("cannot write {}", self.0.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(directory: &Path, content: &str) -> Record {
        let program = directory.join("program");
        fs::write(&program, content).expect("it can be written");
        Record::new("sizes", &program, "abc").expect("it can be read")
    }

    #[test]
    fn an_interrupted_run_goes_on_with_the_same_program() {
        let directory = tempfile::tempdir().expect("a directory");
        let journal = Journal::open(directory.path()).expect("new");
        let begin = record(directory.path(), "one");
        let mut done = begin.clone();
        let status = Status {
            runs: 100,
            coverage: 7,
            corpus: 3,
        };
        done.add(&status, 1.5);
        journal.write(&done, &begin).expect("written");
        fs::OpenOptions::new()
            .append(true)
            .open(&journal.0)
            .and_then(|mut file| write!(file, "{{\"target\":\"si"))
            .expect("written");

        let mut again = journal.so_far(begin).expect("read");
        assert_eq!(again, done);
        again.add(&status, 1.5);
        assert_eq!((again.runs, again.whole_seconds()), (200, 3));
        journal.write(&again, &done).expect("written");
        let begin = record(directory.path(), "one");
        assert_eq!(journal.so_far(begin).expect("read"), again);

        let other = record(directory.path(), "another");
        assert_eq!(journal.so_far(other.clone()).expect("read"), other);
    }

    #[test]
    fn the_table_has_a_row_for_each_target() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut one = record(directory.path(), "one");
        let status = Status {
            runs: 100,
            coverage: 7,
            corpus: 3,
        };
        one.add(&status, 2.0);
        let table = table(&[one]);
        assert!(
            table.ends_with("\n| sizes | 100 | 2 | 50 | 7 | 3 | 0 | abc |\n"),
            "{table}"
        );
    }
}
