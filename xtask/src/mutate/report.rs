//! What a run found, against the source: the table, and whether the models suffice.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::outcome::Outcome;
use super::site::Site;
use super::source::{function_at, lines_unreached};
use super::table::{self, Row, Run, Unreached};
use crate::process::{run, succeeds};
use crate::toolchain::workspace;

/// The allocator's sources, relative to the workspace.
const SOURCES: &str = "heap/src";

/// What the run has to say.
pub struct Report<'a> {
    rows: Vec<Row<'a>>,
    unreached: Vec<Unreached>,
}

impl<'a> Report<'a> {
    /// Holds outcomes, and the sites that models came to, against the source.
    pub fn new(outcomes: &'a [Outcome], reached: &[&Site]) -> Result<Self> {
        let mut report = Self {
            rows: Vec::new(),
            unreached: Vec::new(),
        };
        for outcome in outcomes {
            report.add_outcome(outcome)?;
        }
        for file in sources()? {
            report.add_unreached(&file, reached)?;
        }
        Ok(report)
    }

    fn add_outcome(&mut self, outcome: &'a Outcome) -> Result<()> {
        let site = &outcome.mutation.site;
        let source = read(&site.file)?;
        let function = function_at(&source, site.line).unwrap_or("?");
        self.rows.push(Row {
            outcome,
            function: function.to_owned(),
        });
        Ok(())
    }

    fn add_unreached(&mut self, file: &str, reached: &[&Site]) -> Result<()> {
        let here: Vec<_> = reached
            .iter()
            .copied()
            .filter(|site| site.file == file)
            .collect();
        let source = read(file)?;
        for line in lines_unreached(&source, &here) {
            let function = function_at(&source, line).unwrap_or("?");
            self.unreached.push(Unreached {
                file: file.to_owned(),
                line,
                function: function.to_owned(),
            });
        }
        Ok(())
    }

    /// The page for people.
    pub fn page(&self, seconds: u64, models: usize) -> Result<String> {
        let lock = read("Cargo.lock")?;
        let run = Run {
            commit: commit()?,
            loom: table::locked_version(&lock, "loom")
                .context("Cargo.lock has no loom")?
                .to_owned(),
            seconds,
            models,
        };
        Ok(table::page(&run, &self.rows, &self.unreached))
    }

    /// An error if there is a gap in the models.
    pub fn judge(&self) -> Result<()> {
        let survivors = self.rows.iter();
        let survivors = survivors.filter(|row| row.outcome.killer.is_none()).count();
        let unreached = self.unreached.len();
        ensure!(
            survivors == 0 && unreached == 0,
            "{survivors} of {} mutations made no model fail, and no model comes to {unreached} orderings: \
            weaken these, or add models to heap/tests/protocols.rs",
            self.rows.len()
        );
        Ok(())
    }
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(workspace().join(file)).with_context(|| format!("cannot read {file}"))
}

/// The allocator's files, of all depths.
fn sources() -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut directories = vec![SOURCES.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in entries(&directory).with_context(|| format!("cannot list {directory}"))? {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            let path = format!("{directory}/{name}");
            if entry.path().is_dir() {
                directories.push(path);
            } else if entry.path().extension().is_some_and(|it| it == "rs") {
                names.push(path);
            }
        }
    }
    names.sort();
    Ok(names)
}

fn entries(directory: &str) -> std::io::Result<Vec<fs::DirEntry>> {
    fs::read_dir(workspace().join(directory))?.collect()
}

/// The commit and its date, and whether the sources differ from it. Sources that were not cloned
/// have none.
fn commit() -> Result<String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(workspace());
        command
    };
    if !succeeds(&mut git(&["rev-parse", "HEAD"])) {
        return Ok("unknown".to_owned());
    }
    let commit = run(&mut git(&["log", "-1", "--format=%h of %cs"]))?;
    let changes = run(&mut git(&["status", "--porcelain", "--", "heap", "simt"]))?;
    let suffix = if changes.is_empty() {
        ""
    } else {
        ", with changes"
    };
    Ok(format!("{}{suffix}", commit.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Killer;
    use super::*;

    #[test]
    fn what_no_model_reaches_fails_the_run() {
        let report = Report::new(&[], &[]).expect("the sources are there");
        let files: Vec<_> = report.unreached.iter().map(|place| &place.file).collect();
        for file in ["heap/src/stripe.rs", "heap/src/hardened/quarantine.rs"] {
            assert!(files.iter().any(|found| *found == file), "{file}");
        }
        assert!(report.judge().is_err());
        let page = report.page(20, 3).expect("the lock file is there");
        assert!(page.contains("loom 0."), "{page}");
    }

    #[test]
    fn a_survivor_fails_the_run() {
        let site = Site::parse("heap/src/stripe.rs\t47\tstore\tRelease").expect("a site");
        let outcomes = [true, false].map(|killed| Outcome {
            mutation: site.mutations().next().expect("one"),
            killer: killed.then(|| Killer {
                model: "one".to_owned(),
                complaint: String::new(),
                crashed: false,
            }),
            seconds: 0.0,
        });
        let judge = |outcomes| {
            let mut report = Report::new(outcomes, &[]).expect("the sources are there");
            report.unreached.clear();
            report.judge().map_err(|error| error.to_string())
        };
        let error = judge(&outcomes[1..]).expect_err("one survived");
        assert!(error.starts_with("1 of 1 mutations"), "{error}");
        assert_eq!(judge(&outcomes[..1]), Ok(()));
    }
}
