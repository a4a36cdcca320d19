//! `alloc_heavy`: every thread grows a block by `realloc`, doubling it from few bytes to many, in
//! one launch. What each part was marked with must still be there at the end.

use super::blocks::MICROSECONDS;
use super::counters::{Counters, not_compiled_for};
use crate::allocator::Handle;
use crate::bench::Bench;
use crate::contents::Faults;
use crate::error::Result;
use bench_kernels::DeviceAllocator;
use bench_kernels::alloc_heavy::{CheckGrown, Grow, Growth, GrowthArguments, NativeGrow};
use scatterheap_host::Grid;
use simt::kernel::Kernel;

const METRIC: &str = "realloc_us";

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    match bench.allocator.handle() {
        Some(Handle::Heap(heap)) => measure::<Grow, _>(bench, heap),
        Some(Handle::Native(native)) => measure::<NativeGrow, _>(bench, native),
        None => Err(not_compiled_for(bench.allocator.name())),
    }
}

fn measure<K, A>(bench: &mut Bench<'_>, device_allocator: A) -> Result<()>
where
    A: DeviceAllocator,
    K: Kernel<Arguments = GrowthArguments<A>>,
{
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let (device, n) = (ground.device, ground.case.n);
    let arrays = ground.arrays(n as usize)?;
    let counters = Counters::new(device)?;
    let growth = Growth {
        blocks: arrays.blocks.address(),
        count: n.into(),
        least: ground.case.least,
        most: ground.case.most,
        faults: counters.address(),
    };
    let arguments = GrowthArguments {
        allocator: device_allocator,
        growth,
    };
    let request = arrays.request(&ground.case, 0, n);
    let grow = || -> Result<()> {
        // SAFETY: there is a place for each thread's address, and the heap outlives the launches.
        unsafe { device.launch::<K>(Grid::of(n), &arguments)? };
        Ok(())
    };
    let check = || -> Result<Faults> {
        grow()?;
        // SAFETY: blocks that are not NULL have grown to the last size.
        unsafe { device.launch::<CheckGrown>(Grid::of(n), &growth)? };
        counters.read()
    };
    check()?.refuse_corrupt(figures, n.into())?;
    // SAFETY: the blocks were just allocated.
    unsafe { allocator.free(&request)? };
    let mut times = Vec::new();
    let launches = ground.sample(figures, |counts| {
        let time = device.time_calls(grow)?;
        counters.count_nulls(device, &arrays, n)?;
        // SAFETY: the blocks were just allocated.
        unsafe { allocator.free(&request)? };
        if counts {
            times.push(time * MICROSECONDS);
        }
        Ok(())
    })?;
    // Once more, in the heap that was used.
    check()?.report_of_all(figures, (launches + 2) * u64::from(n))?;
    // SAFETY: the blocks were just allocated, and found to be ours.
    unsafe { allocator.free(&request)? };
    figures.spread(METRIC, &times);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, Test};
    use crate::tests::try_out::{HEAP_BYTES, try_out, try_out_leaking};

    #[test]
    fn blocks_keep_their_marks_while_they_grow() {
        let case = Case {
            test: Test::AllocHeavy,
            least: 16,
            most: 64 << 10,
            n: 64,
        };
        for found in try_out(case) {
            found.expect_metrics(&["null", "corrupt", "requests", super::METRIC]);
            found.expect_zero(&["null", "corrupt"]);
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let n = u32::try_from(HEAP_BYTES / (64 << 10)).expect("few") * 2;
        let case = Case {
            test: Test::AllocHeavy,
            least: 16,
            most: 64 << 10,
            n,
        };
        let found = try_out(case);
        let ours = found.iter().find(|found| found.allocator == "scatterheap");
        let ours = ours.expect("scatterheap takes every test");
        assert!(ours.value("null") > 0.0 && ours.value("null") < ours.value("requests"));
        ours.expect_zero(&["corrupt"]);
    }

    #[test]
    fn nulls_of_launches_that_are_timed_are_counted() {
        let case = Case {
            test: Test::AllocHeavy,
            least: 16,
            most: 64 << 10,
            n: u32::try_from(HEAP_BYTES / (64 << 10) / 4).expect("few"),
        };
        let found = try_out_leaking(case);
        assert!(found.value("null") > 0.0, "{found:?}");
        found.expect_zero(&["corrupt"]);
    }
}
