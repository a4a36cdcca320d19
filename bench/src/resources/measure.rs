//! Runs a scenario on a resource.

use super::scenario::{Operation, Scenario};
use super::subjects::{Made, Subject};
use crate::Result;
use scatterheap_host::device::driver_calls_of_thread;
use scatterheap_host::resource::{DevicePointer, Error, MemoryResource};
use scatterheap_host::{Device, Stream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Rounds are run until they took so long, or there were as many as the scenario says.
const LIMIT: Duration = Duration::from_secs(5);

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
    barrier: &'a Barrier,
}

/// What a thread found.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Of an allocation and what belongs to it, in nanoseconds.
    pair: f64,
    calls: u64,
    hits: u64,
    failures: u64,
}

/// A thread's blocks.
struct Blocks<'a> {
    run: &'a Run<'a>,
    stream: Stream,
    slots: Vec<Option<DevicePointer>>,
    failures: u64,
}

impl Blocks<'_> {
    /// Does one operation; whether a block was allocated.
    #[inline]
    fn perform(&mut self, operation: Operation) -> std::result::Result<bool, Error> {
        let Operation { slot, bytes, .. } = operation;
        let place = &mut self.slots[slot as usize];
        if !operation.allocates {
            if let Some(block) = place.take() {
                self.run
                    .resource
                    .deallocate(block, bytes, 256, &self.stream)?;
            }
            return Ok(false);
        }
        match self.run.resource.allocate(bytes, 256, &self.stream) {
            Ok(block) => {
                *place = Some(block);
                Ok(true)
            }
            Err(error) if error.is_out_of_memory() => {
                self.failures += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn round(&mut self) -> std::result::Result<(), Error> {
        for operation in &self.run.scenario.operations {
            self.perform(*operation)?;
        }
        Ok(())
    }

    /// Nanoseconds of a pair in the timed rounds.
    fn time(&mut self) -> std::result::Result<f64, Error> {
        let scenario = self.run.scenario;
        let (begin, mut rounds) = (Instant::now(), 0);
        while rounds < scenario.rounds && (rounds == 0 || begin.elapsed() < LIMIT) {
            self.round()?;
            rounds += 1;
        }
        #[expect(clippy::cast_precision_loss, reason = "times are not that exact")]
        let pairs = (scenario.allocations() * u64::from(rounds)) as f64;
        Ok(begin.elapsed().as_secs_f64() * 1e9 / pairs)
    }

    /// Allocations of a round without a call of the driver.
    fn hits(&mut self) -> std::result::Result<u64, Error> {
        let mut hits = 0;
        for operation in &self.run.scenario.operations {
            let before = driver_calls_of_thread();
            if self.perform(*operation)? && driver_calls_of_thread() == before {
                hits += 1;
            }
        }
        Ok(hits)
    }
}

/// What a thread does. Also one that failed comes to every barrier.
fn run_thread(run: &Run<'_>) -> std::result::Result<Found, Error> {
    let stream = Stream::new(run.resource.device());
    let mut failed = None;
    let mut blocks = stream.map(|stream| Blocks {
        run,
        stream,
        slots: vec![None; run.scenario.slots()],
        failures: 0,
    });
    let mut found = Found::default();
    for step in 0..3 {
        run.barrier.wait();
        let (Ok(blocks), None) = (&mut blocks, &failed) else {
            continue;
        };
        let before = driver_calls_of_thread();
        let stepped = match step {
            0 => blocks.round(),
            1 => blocks.time().map(|pair| found.pair = pair),
            _ => blocks.hits().map(|hits| found.hits = hits),
        };
        if step == 1 {
            found.calls = driver_calls_of_thread() - before;
        }
        failed = stepped.err();
    }
    found.failures = blocks?.failures;
    failed.map_or(Ok(found), Err)
}

/// Runs a scenario with so many threads, each with a stream of its own.
///
/// # Errors
///
/// If the resource cannot be made, or does anything but refuse for want of memory.
pub fn measure(
    device: &Device,
    subject: &Subject,
    scenario: &Scenario,
    threads: usize,
) -> Result<Vec<Figure>> {
    device.reset_peak();
    let before = device.usage().bytes;
    let Made { resource, reserved } = subject.make(device, scenario, threads as u64)?;
    let run = Run {
        resource: &*resource,
        scenario,
        barrier: &Barrier::new(threads),
    };
    let found = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| run_thread(&run)))
            .collect();
        let found = threads.into_iter().map(|thread| match thread.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        found.collect::<std::result::Result<Vec<_>, _>>()
    })?;
    let peak = match reserved {
        Some(pool) => pool.statistics()?.reserved_high,
        None => device.usage().peak_bytes - before,
    };
    let allocations = scenario.allocations() * threads as u64;
    let live = scenario.peak() * threads as u64;
    Ok(figures(&found, peak, live, allocations))
}

#[expect(clippy::cast_precision_loss, reason = "figures are not that exact")]
fn figures(found: &[Found], peak: u64, live: u64, allocations: u64) -> Vec<Figure> {
    let sum = |number: fn(&Found) -> u64| found.iter().map(number).sum::<u64>() as f64;
    let slowest = found.iter().map(|found| found.pair).fold(0.0, f64::max);
    let figure = |metric, value| Figure { metric, value };
    let mut figures = vec![
        figure("ns_per_pair", slowest),
        figure("reserved_over_live", peak as f64 / live.max(1) as f64),
        figure("driver_calls", sum(|found| found.calls)),
        figure("hit_rate", sum(|found| found.hits) / allocations as f64),
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
        measure(&device, default, scenario, threads).expect("no failure but for memory")
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

    #[test]
    fn what_is_kept_is_hit_without_a_call_of_the_driver() {
        let mut all = scenarios(1, true).into_iter();
        let same_size = all.next().expect("there");
        let figures = figures_of(&same_size, 2);
        assert_eq!(find(&figures, "hit_rate"), Some(1.0));
        assert!(find(&figures, "ns_per_pair").expect("measured") > 0.0);
    }
}
