//! `cargo xtask model --mutate`: weakens each memory ordering of the allocator in turn, and finds the
//! loom model that fails for it.
//!
//! The models are built once: the explored atomics weaken a line by a variable of the environment. They
//! run first as the source has them, which must pass, and say which sites they come to; a mutation is
//! then tried on the models that come to its site, for a short time first. Each model is a process of
//! its own, for a mutation may do anything to it; a hang is a failure too.

mod outcome;
mod report;
mod site;
mod source;
mod table;
mod trial;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::executables;
use crate::model::build_of_models;
use crate::toolchain::workspace;
use outcome::{Journal, Killer, Outcome, Record, Survey};
use report::Report;
use site::Mutation;
use trial::{Models, Verdict};

/// Seconds that each model has at first.
const SHORT: u64 = 2;

/// What is to be run, and where the result goes.
pub struct Settings {
    /// File of the table.
    pub table: PathBuf,
    /// Seconds that a model may take.
    pub seconds: u64,
    /// Part of the names of the models to run.
    pub filter: Option<String>,
}

/// Runs all mutations and writes the table.
///
/// # Errors
/// The models cannot be built or run, one fails without a mutation, or an ordering has no model that
/// needs it.
pub fn run(settings: &Settings) -> Result<()> {
    let models = Models {
        program: program()?,
    };
    let names = models.names(settings.filter.as_deref())?;
    let directory = workspace().join("target").join("loom");
    let session = Session {
        journal: Journal::open(&directory, &models.program, &names, settings.seconds)?,
        models,
        seconds: settings.seconds,
    };
    println!("{} models as the source has them", names.len());
    let surveys = side_by_side(&names, |name| session.survey(name))?;
    let sites: BTreeSet<_> = surveys
        .iter()
        .flat_map(|survey| &survey.sites)
        .filter(|site| site.is_in_allocator())
        .collect();
    let sites = Vec::from_iter(sites);
    let mutations: Vec<_> = sites.iter().flat_map(|site| site.mutations()).collect();
    println!("{} mutations", mutations.len());
    let outcomes = side_by_side(&mutations, |mutation| session.judge(mutation, &surveys))?;
    let report = Report::new(&outcomes, &sites)?;
    let table = &settings.table;
    fs::write(table, report.page(settings.seconds, names.len())?)
        .with_context(|| format!("cannot write {}", table.display()))?;
    println!("wrote {}", table.display());
    report.judge()
}

fn program() -> Result<PathBuf> {
    executables::build_by(&mut build_of_models())?
        .into_iter()
        .find(|program| program.name == "protocols" && program.is_test)
        .map(|program| program.file)
        .context("cargo built no test `protocols`")
}

/// What a run works with.
struct Session {
    models: Models,
    journal: Journal,
    seconds: u64,
}

impl Session {
    /// Runs a model without a mutation.
    fn survey(&self, model: &str) -> Result<(Survey, String)> {
        if let Some(survey) = self.journal.survey_of(model) {
            return Ok((survey.clone(), format!("{model}: passed before")));
        }
        let (trial, sites) = self.models.survey(model, self.seconds)?;
        if let Verdict::Failed(complaint) | Verdict::Crashed(complaint) = trial.verdict {
            bail!(
                "the model {model} fails without a mutation ({complaint}); \
                run `cargo xtask model --only loom {model}`"
            );
        }
        let survey = Survey {
            model: model.to_owned(),
            sites,
            seconds: trial.time.as_secs_f64(),
        };
        self.journal.write(&Record::Survey(survey.clone()))?;
        let line = format!("{model}: passed in {:.1} s", survey.seconds);
        Ok((survey, line))
    }

    /// Finds the model that fails for a mutation.
    fn judge(&self, mutation: &Mutation, surveys: &[Survey]) -> Result<(Outcome, String)> {
        let known = self.journal.outcome_of(mutation);
        let outcome = match known {
            Some(outcome) => outcome.clone(),
            None => self.try_models(mutation, surveys)?,
        };
        if known.is_none() {
            self.journal.write(&Record::Outcome(outcome.clone()))?;
        }
        let result = match &outcome.killer {
            Some(killer) => format!("{} ({})", killer.model, killer.complaint),
            None => "SURVIVES".to_owned(),
        };
        let line = format!("{mutation}: {result}, {:.1} s", outcome.seconds);
        Ok((outcome, line))
    }

    fn try_models(&self, mutation: &Mutation, surveys: &[Survey]) -> Result<Outcome> {
        let begin = Instant::now();
        let mut killer = None;
        let mut left = candidates(mutation, surveys);
        for seconds in stages(self.seconds) {
            let mut unfinished = Vec::new();
            for model in left {
                let trial = self.models.try_mutation(model, mutation, seconds)?;
                killer = Killer::of(model, trial.verdict);
                if killer.is_some() {
                    break;
                }
                // A model that ends before its time has explored all that there is.
                if trial.time >= Duration::from_secs(seconds) {
                    unfinished.push(model);
                }
            }
            left = unfinished;
            if killer.is_some() {
                break;
            }
        }
        Ok(Outcome {
            mutation: mutation.clone(),
            killer,
            seconds: begin.elapsed().as_secs_f64(),
        })
    }
}

/// The models that come to the site of a mutation, the quickest first.
fn candidates<'a>(mutation: &Mutation, surveys: &'a [Survey]) -> Vec<&'a str> {
    let mut visitors: Vec<_> = surveys
        .iter()
        .filter(|survey| survey.sites.contains(&mutation.site))
        .collect();
    visitors.sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
    visitors
        .into_iter()
        .map(|survey| survey.model.as_str())
        .collect()
}

/// The times that a model has: a short one first, for most mutations fail soon.
fn stages(seconds: u64) -> Vec<u64> {
    let mut stages = vec![SHORT.min(seconds), seconds];
    stages.dedup();
    stages
}

/// Does something with each item, as many at once as there are processors, and prints the line that
/// it gives; the results are in the items' order.
fn side_by_side<I: Sync, T: Send>(
    items: &[I],
    act: impl Fn(&I) -> Result<(T, String)> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        while let Some((index, item)) = take_next(&next, items) {
            let (result, line) = act(item).inspect_err(|_| {
                // The others end after what they are at.
                next.store(items.len(), Ordering::Relaxed);
            })?;
            let done = 1 + done.fetch_add(1, Ordering::Relaxed);
            println!("[{done}/{}] {line}", items.len());
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((index, result));
        }
        Ok(())
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no worker panics"))
            .collect::<Result<Vec<_>>>()
    })?;
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

fn take_next<'a, I>(next: &AtomicUsize, items: &'a [I]) -> Option<(usize, &'a I)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    items.get(index).map(|item| (index, item))
}

#[cfg(test)]
mod tests {
    use super::site::Site;
    use super::*;
    use anyhow::ensure;

    #[test]
    fn a_mutation_is_tried_on_the_models_that_come_to_its_site() {
        let site = |line: &str| {
            Site::parse(&format!("heap/src/stripe.rs\t{line}\tload\tAcquire")).expect("a site")
        };
        let survey = |model: &str, line, seconds| Survey {
            model: model.to_owned(),
            sites: vec![site("1"), site(line)],
            seconds,
        };
        let surveys = [
            survey("slow", "2", 9.0),
            survey("other", "3", 0.1),
            survey("quick", "2", 0.2),
        ];
        let mutation = site("2").mutations().next().expect("one");
        assert_eq!(candidates(&mutation, &surveys), ["quick", "slow"]);
    }

    #[test]
    fn short_times_come_first() {
        assert_eq!(stages(20), [2, 20]);
        assert_eq!(stages(2), [2]);
        assert_eq!(stages(1), [1]);
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..20).collect();
        let results = side_by_side(&items, |item| {
            thread::sleep(Duration::from_millis(20 - item));
            Ok((item * 2, format!("item {item}")))
        });
        let expected: Vec<_> = items.iter().map(|item| item * 2).collect();
        assert_eq!(results.expect("none fails"), expected);
    }

    #[test]
    fn the_first_error_ends_the_run() {
        let items: Vec<u64> = (0..1000).collect();
        let begun = AtomicUsize::new(0);
        let result = side_by_side(&items, |item| {
            begun.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
            ensure!(*item != 3, "item {item} is bad");
            Ok(((), String::new()))
        });
        assert_eq!(result.expect_err("one fails").to_string(), "item 3 is bad");
        assert!(begun.load(Ordering::Relaxed) < 500);
    }
}
