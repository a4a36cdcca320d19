//! `latency`: how long single calls take, by the clock of the multiprocessor that they run on. Every thread allocates some blocks
//! and frees them, in one launch; what is told is the median call, and how long the slowest take.

use super::counters::{Counters, not_compiled_for};
use crate::allocator::Handle;
use crate::bench::Bench;
use crate::error::{Error, Result};
use bench_kernels::DeviceAllocator;
use bench_kernels::latency::{Latency, LatencyArguments, NativeLatency, Span, Watch};
use kernels::sizes::Sizes;
use scatterheap_host::{Grid, Memory};
use simt::kernel::Kernel;

/// Blocks of each thread.
pub(crate) const ROUNDS: u32 = 16;

/// What is told of each launch: what its metric has in its name, and which share of the calls took no longer.
const QUANTILES: [(&str, f64); 4] = [("", 0.5), ("_p99", 0.99), ("_p999", 0.999), ("_max", 1.0)];

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    match bench.allocator.handle() {
        Some(Handle::Heap(heap)) => measure::<Latency, _>(bench, heap),
        Some(Handle::Native(native)) => measure::<NativeLatency, _>(bench, native),
        None => Err(not_compiled_for(bench.allocator.name())),
    }
}

fn measure<K, A>(bench: &mut Bench<'_>, allocator: A) -> Result<()>
where
    A: DeviceAllocator,
    K: Kernel<Arguments = LatencyArguments<A>>,
{
    let Bench {
        ground, figures, ..
    } = bench;
    let (device, n) = (ground.device, ground.case.n);
    let calls = n as usize * ROUNDS as usize;
    let counters = Counters::new(device)?;
    let mallocs = device.allocate(calls as u64 * 4)?;
    let frees = device.allocate(calls as u64 * 4)?;
    let spans = device.allocate(u64::from(n) * size_of::<Span>() as u64)?;
    let arguments = LatencyArguments {
        allocator,
        watch: Watch {
            count: n.into(),
            rounds: ROUNDS.into(),
            sizes: Sizes {
                least: ground.case.least,
                most: ground.case.most,
                seed: ground.plan.seed,
            },
            mallocs: mallocs.address(),
            frees: frees.address(),
            spans: spans.address(),
            faults: counters.address(),
        },
    };
    let mut of_mallocs = [const { Vec::new() }; QUANTILES.len()];
    let mut of_frees = [const { Vec::new() }; QUANTILES.len()];
    let launches = ground.sample(figures, |counts| {
        frees.clear()?;
        // SAFETY: the arrays are as long as the arguments say, and the heap outlives the launch.
        unsafe { device.launch::<K>(Grid::of(n), &arguments)? };
        device.synchronize()?;
        if counts {
            let tick = nanoseconds_of_a_tick(&spans.read(0, n as usize)?)?;
            note(&mallocs, calls, tick, &mut of_mallocs)?;
            note(&frees, calls, tick, &mut of_frees)?;
        }
        Ok(())
    })?;
    let requests = launches * calls as u64;
    figures.count("requests", requests);
    counters.read()?.report(figures, requests)?;
    for (call, found) in [("alloc", of_mallocs), ("free", of_frees)] {
        for ((suffix, _), times) in QUANTILES.iter().zip(found) {
            figures.spread(&format!("{call}{suffix}_ns"), &times);
        }
    }
    Ok(())
}

/// Adds the quantiles of a launch's calls to those of the launches before.
fn note(
    notes: &Memory,
    calls: usize,
    tick: f64,
    found: &mut [Vec<f64>; QUANTILES.len()],
) -> Result<()> {
    let mut ticks: Vec<u32> = notes.read(0, calls)?;
    // One more than the ticks; 0: no call.
    ticks.retain(|note| *note != 0);
    ticks.sort_unstable();
    for ((_, share), times) in QUANTILES.into_iter().zip(found) {
        times.extend(quantile(&ticks, share).map(|note| f64::from(note - 1) * tick));
    }
    Ok(())
}

/// The least of the sorted numbers that is not below `share` of them.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "there are fewer calls than 2^32"
)]
fn quantile(sorted: &[u32], share: f64) -> Option<u32> {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.clamp(1, sorted.len().max(1)) - 1).copied()
}

#[allow(
    clippy::cast_precision_loss,
    reason = "launches take less than a month"
)]
fn nanoseconds_of_a_tick(spans: &[Span]) -> Result<f64> {
    let ticks: u64 = spans.iter().map(|span| span.ticks).sum();
    let nanoseconds: u64 = spans.iter().map(|span| span.nanoseconds).sum();
    if ticks == 0 || nanoseconds == 0 {
        return Err(Error::Unfit(
            "the launches are too short for the device's clock; take more threads".into(),
        ));
    }
    Ok(nanoseconds as f64 / ticks as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, Test};
    use crate::tests::try_out::try_out;

    #[test]
    fn each_call_is_timed() {
        let case = Case {
            test: Test::Latency,
            least: 16,
            most: 256,
            n: 64,
        };
        for found in try_out(case) {
            let calls = ["alloc", "free"].map(|call| {
                QUANTILES.map(|(suffix, _)| found.value(&format!("{call}{suffix}_ns")))
            });
            for quantiles in calls {
                assert!(quantiles.is_sorted() && quantiles[3] > 0.0, "{found:?}");
                assert!(quantiles[3] < 1e10, "{found:?}");
            }
            found.expect_zero(&["null", "corrupt"]);
        }
    }

    #[test]
    fn quantiles_are_calls() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[7], 0.5), Some(7));
        let numbers: Vec<u32> = (1..=1000).collect();
        assert_eq!(quantile(&numbers, 0.5), Some(500));
        assert_eq!(quantile(&numbers, 0.999), Some(999));
        assert_eq!(quantile(&numbers, 1.0), Some(1000));
        assert_eq!(quantile(&numbers, 0.0), Some(1));
    }

    #[test]
    fn ticks_become_nanoseconds() {
        let spans =
            [(1000, 500), (3000, 1500)].map(|(ticks, nanoseconds)| Span { ticks, nanoseconds });
        let tick = nanoseconds_of_a_tick(&spans).expect("there are some");
        assert!((tick - 0.5).abs() < 1e-9, "{tick}");
        assert!(nanoseconds_of_a_tick(&[]).is_err());
    }
}
