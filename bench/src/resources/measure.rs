//! Runs a scenario on a resource.

use super::scenario::Scenario;
use super::subjects::{Made, Subject};
use super::worker::{Found, Worker};
use crate::{Error, Result};
use scatterheap_host::resource::{MemoryResource, Result as Done};
use scatterheap_host::{Device, Error as HostError};
use std::sync::{Barrier, OnceLock};
use std::thread::{self, Builder};
use std::time::Duration;

/// Pairs that all threads together must have done in the timed rounds, so that a figure means something.
const LEAST_PAIRS: u64 = 100;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// See `docs/resources.md`.
    pub metric: &'static str,
    /// Nanoseconds, ratios or numbers.
    pub value: f64,
}

/// What the threads have in common.
struct Run<'a> {
    resource: &'a dyn MemoryResource,
    scenario: &'a Scenario,
    limit: Duration,
    /// Whether all threads are there, once that is known.
    complete: OnceLock<bool>,
    barrier: Barrier,
}

/// What a thread does; nothing if others could not start, who would be waited for. Also one that failed comes to every
/// barrier.
fn run_thread(run: &Run<'_>) -> Done<Found> {
    if !run.complete.wait() {
        return Ok(Found::default());
    }
    let mut worker = Worker::new(run.resource, run.scenario);
    for part in [Worker::warm_up, Worker::time, Worker::observe] {
        run.barrier.wait();
        if let Ok(working) = &mut worker
            && let Err(error) = part(working, run.limit)
        {
            worker = Err(error);
        }
    }
    run.barrier.wait();
    worker?.finish()
}

/// Runs so many threads, or none.
fn run_threads(run: &Run<'_>, count: usize) -> Result<Vec<Found>> {
    thread::scope(|scope| {
        let start = |_| Builder::new().spawn_scoped(scope, || run_thread(run));
        let threads = (0..count).map(start).collect::<std::io::Result<Vec<_>>>();
        // Nobody else sets it.
        let _set = run.complete.set(threads.is_ok());
        let found = threads
            .map_err(HostError::threads(count))?
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            });
        Ok(found.collect::<Done<Vec<_>>>()?)
    })
}

/// Runs a scenario with so many threads, each with a stream of its own. The untimed round, the timed rounds and the
/// round after them may take `limit` each, the first one longer if that makes it whole.
///
/// # Errors
///
/// If the resource cannot be made, does anything but refuse for want of memory, or is too slow for a
/// figure, or if the system does not start that many threads.
pub fn measure(
    device: &Device,
    subject: &Subject,
    scenario: &Scenario,
    threads: usize,
    limit: Duration,
) -> Result<Vec<Figure>> {
    device.reset_peak();
    let before = device.usage().bytes;
    let Made { resource, reserved } = subject.make(device, scenario, threads as u64)?;
    let run = Run {
        resource: &*resource,
        scenario,
        limit,
        complete: OnceLock::new(),
        barrier: Barrier::new(threads),
    };
    let found = run_threads(&run, threads)?;
    let peak = match reserved {
        Some(pool) => pool.statistics()?.reserved_high,
        None => device.usage().peak_bytes - before,
    };
    let pairs = found.iter().map(|found| found.timed / 2).sum();
    if pairs < LEAST_PAIRS {
        return Err(Error::TooSlow { pairs, limit });
    }
    let live = |found: &Found| scenario.peak_of_first(found.operations);
    Ok(figures(&found, peak, found.iter().map(live).sum()))
}

#[expect(clippy::cast_precision_loss, reason = "figures are not that exact")]
fn figures(found: &[Found], peak: u64, live: u64) -> Vec<Figure> {
    let sum = |number: fn(&Found) -> u64| found.iter().map(number).sum::<u64>() as f64;
    // Of all threads' pairs, so that one that got no core for a while counts as little as it did.
    let seconds: f64 = found.iter().map(|found| found.seconds).sum();
    let pair = seconds * 2e9 / sum(|found| found.timed).max(1.0);
    let operations = found.iter().map(|found| found.operations).min();
    let figure = |metric, value| Figure { metric, value };
    let mut figures = vec![
        figure("ns_per_pair", pair),
        figure("pairs", sum(|found| found.timed / 2)),
        figure("reserved_over_live", peak as f64 / live.max(1) as f64),
        figure("operations", operations.unwrap_or(0) as f64),
        figure("driver_calls", sum(|found| found.calls)),
        figure(
            "hit_rate",
            sum(|found| found.hits) / sum(|found| found.observed.max(1)),
        ),
    ];
    let failures = sum(|found| found.failures);
    if failures > 0.0 {
        figures.push(figure("failures", failures));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::super::{scenarios, subjects};
    use super::*;

    fn figures_of(scenario: &Scenario, threads: usize) -> Vec<Figure> {
        let device = Device::cpu();
        let subjects = subjects(&device);
        let default = subjects.first().expect("there are some");
        assert_eq!(default.name, "scatterheap");
        measure(&device, default, scenario, threads, Duration::from_secs(10))
            .expect("no failure but for memory")
    }

    /// A thread that did nearly nothing in all of its time, beside one that did much.
    #[test]
    fn a_thread_that_got_no_core_does_not_make_the_figure() {
        let found = |seconds, timed| Found {
            seconds,
            timed,
            ..Found::default()
        };
        let figures = figures(&[found(1.0, 2_000_000), found(1.0, 2)], 1, 1);
        let pair = find(&figures, "ns_per_pair").expect("measured");
        assert!((1999.0..2000.0).contains(&pair), "{pair}");
    }

    fn find(figures: &[Figure], metric: &str) -> Option<f64> {
        let found = figures.iter().find(|figure| figure.metric == metric);
        found.map(|figure| figure.value)
    }

    /// 10^6 operations on blocks of random sizes: no more than a tenth is lost.
    #[test]
    fn the_default_holds_little_more_than_is_live() {
        let mut all = scenarios(1, false).into_iter();
        let mut variable = all.find(|one| one.name == "variable").expect("there");
        variable.rounds = 1;
        assert!(variable.operations.len() >= 1_000_000);
        let figures = figures_of(&variable, 1);
        let ratio = find(&figures, "reserved_over_live").expect("measured");
        assert!((1.0..=1.10).contains(&ratio), "{ratio}");
        assert_eq!(find(&figures, "failures"), None);
    }

    /// 95 % of the memory are in use all the time.
    #[test]
    fn the_default_does_not_fail_while_a_twentieth_is_free() {
        let mut all = scenarios(1, false).into_iter();
        let mut pressure = all.find(|one| one.name == "pressure").expect("there");
        pressure.rounds = 1;
        let figures = figures_of(&pressure, 1);
        assert_eq!(find(&figures, "failures"), None);
        let ratio = find(&figures, "reserved_over_live").expect("measured");
        assert!((1.0..=1.06).contains(&ratio), "{ratio}");
    }

    /// Slower than any clock is looked at: a figure all the same, of what was done.
    #[test]
    fn a_case_that_is_cut_short_has_figures_of_what_was_done() {
        let mut all = scenarios(1, false).into_iter();
        let mut variable = all.find(|one| one.name == "variable").expect("there");
        variable.rounds = 1_000_000;
        let device = Device::cpu();
        let subjects = subjects(&device);
        let default = subjects.first().expect("there are some");
        let (begin, limit) = (std::time::Instant::now(), Duration::from_millis(20));
        let figures = measure(&device, default, &variable, 2, limit).expect("enough was done");
        assert!(begin.elapsed() < Duration::from_secs(10));
        let (pairs, operations) = (find(&figures, "pairs"), find(&figures, "operations"));
        let operations = operations.expect("counted");
        assert!(pairs.expect("counted") >= 100.0);
        // The scenario has a million in each round.
        assert!(operations < 1e6, "{operations}");
        let ratio = find(&figures, "reserved_over_live").expect("measured");
        assert!(ratio >= 1.0, "of what was live by then: {ratio}");

        let mut little = variable.clone();
        little.operations.truncate(0);
        little
            .operations
            .extend(scenarios(1, true)[0].operations.iter().take(1));
        let error = measure(&device, default, &little, 1, Duration::from_nanos(1));
        assert!(matches!(error, Err(Error::TooSlow { .. })), "{error:?}");
    }

    #[test]
    fn what_is_kept_is_hit_without_a_call_of_the_driver() {
        let mut all = scenarios(1, true).into_iter();
        let same_size = all.next().expect("there");
        let figures = figures_of(&same_size, 2);
        assert_eq!(find(&figures, "hit_rate"), Some(1.0));
        assert!(find(&figures, "ns_per_pair").expect("measured") > 0.0);
    }
}
