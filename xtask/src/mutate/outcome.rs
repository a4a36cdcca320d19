//! What came of each step of a run, kept in a file so that an interrupted run can go on.
//!
//! The file is named after the content of the program with the models, those of them that are asked
//! and the time that they have, so what it says is about these and no others: what no model of some
//! fails for, another may fail for. A line of it is a record; a line that was not
//! written to its end is done again.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::site::{Mutation, Site};
use super::trial::Verdict;
use crate::executables::fingerprint;

/// A model without a mutation, which passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    pub model: String,
    pub sites: Vec<Site>,
    pub seconds: f64,
}

/// What came of a mutation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub mutation: Mutation,
    /// Nothing if all models passed.
    pub killer: Option<Killer>,
    /// Until it failed, or all had passed.
    pub seconds: f64,
}

/// A model that failed, and what it said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killer {
    pub model: String,
    pub complaint: String,
    /// Whether that is how it ended, for want of a message.
    #[serde(default)]
    pub crashed: bool,
}

impl Killer {
    /// The model, if it did not pass.
    pub fn of(model: &str, verdict: Verdict) -> Option<Self> {
        let (complaint, crashed) = match verdict {
            Verdict::Passed => return None,
            Verdict::Failed(complaint) => (complaint, false),
            Verdict::Crashed(how) => (how, true),
        };
        Some(Self {
            model: model.to_owned(),
            complaint,
            crashed,
        })
    }
}

/// A step that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    Survey(Survey),
    Outcome(Outcome),
}

/// The steps done so far.
pub struct Journal {
    file: Mutex<File>,
    before: Vec<Record>,
}

impl Journal {
    /// Opens the journal of some models of a program in a directory; what an earlier run wrote is read.
    pub fn open(directory: &Path, program: &Path, models: &[String], seconds: u64) -> Result<Self> {
        let path = directory.join(name_of(program, models, seconds)?);
        Self::at(&path).with_context(|| format!("cannot use {}", path.display()))
    }

    fn at(path: &PathBuf) -> std::io::Result<Self> {
        let written = if path.exists() {
            fs::read_to_string(path)?
        } else {
            String::new()
        };
        let before: Vec<Record> = written
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if !written.is_empty() && !written.ends_with('\n') {
            writeln!(file)?;
        }
        Ok(Self {
            file: Mutex::new(file),
            before,
        })
    }

    /// What an earlier run found about a model without a mutation.
    pub fn survey_of(&self, model: &str) -> Option<&Survey> {
        self.before.iter().find_map(|record| match record {
            Record::Survey(survey) if survey.model == model => Some(survey),
            _ => None,
        })
    }

    /// What an earlier run found about a mutation.
    pub fn outcome_of(&self, mutation: &Mutation) -> Option<&Outcome> {
        self.before.iter().find_map(|record| match record {
            Record::Outcome(outcome) if outcome.mutation == *mutation => Some(outcome),
            _ => None,
        })
    }

    /// Writes a step down.
    pub fn write(&self, record: &Record) -> Result<()> {
        let line = serde_json::to_string(record).context("a step is not to be written")?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{line}").context("cannot write down what is done")
    }
}

fn name_of(program: &Path, models: &[String], seconds: u64) -> Result<String> {
    let program = fingerprint(program)?;
    let mut hasher = DefaultHasher::new();
    models.hash(&mut hasher);
    let models = hasher.finish();
    Ok(format!(
        "mutations-{program:016x}-{models:016x}-{seconds}s.jsonl"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_run_goes_on_where_it_was() {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("program");
        fs::write(&program, "models").expect("it can be written");
        let all = ["one", "two"].map(str::to_owned);
        let site = Site::parse("heap/src/stripe.rs\t37\tload\tAcquire").expect("a site");
        let mutation = site.mutations().next().expect("one");
        let survey = Survey {
            model: "one".to_owned(),
            sites: vec![site],
            seconds: 0.5,
        };
        let outcome = Outcome {
            mutation: mutation.clone(),
            killer: None,
            seconds: 2.0,
        };

        let journal = Journal::open(directory.path(), &program, &all, 20).expect("new");
        assert_eq!(journal.survey_of("one"), None);
        journal
            .write(&Record::Survey(survey.clone()))
            .expect("written");
        // Interrupted in the middle of a line.
        write!(journal.file.lock().expect("free"), "{{\"Outc").expect("written");

        let journal = Journal::open(directory.path(), &program, &all, 20).expect("there");
        assert_eq!(journal.survey_of("one"), Some(&survey));
        assert_eq!(journal.outcome_of(&mutation), None);
        journal
            .write(&Record::Outcome(outcome.clone()))
            .expect("written");
        let journal = Journal::open(directory.path(), &program, &all, 20).expect("there");
        assert_eq!(journal.outcome_of(&mutation), Some(&outcome));

        let other = Journal::open(directory.path(), &program, &all, 10).expect("new");
        assert_eq!(other.survey_of("one"), None, "other time");
        let other = Journal::open(directory.path(), &program, &all[..1], 20).expect("new");
        assert_eq!(
            other.outcome_of(&mutation),
            None,
            "the second was not asked"
        );
        fs::write(&program, "other models").expect("it can be written");
        let other = Journal::open(directory.path(), &program, &all, 20).expect("new");
        assert_eq!(other.survey_of("one"), None, "other models");
    }
}
