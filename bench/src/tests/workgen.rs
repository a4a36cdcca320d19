//! `workgen`: every thread allocates an output of its own length and writes it, in one launch. The
//! baseline writes the same outputs without an allocator, in two passes: count, add up, write. Its
//! room is there beforehand.

use super::blocks::MICROSECONDS;
use super::counters::{Counters, not_compiled_for};
use crate::allocator::Handle;
use crate::bench::{Arrays, Bench, Ground};
use crate::contents::Faults;
use crate::error::{Error, Result};
use crate::figures::Figures;
use bench_kernels::DeviceAllocator;
use bench_kernels::workgen::{
    CHUNK, CheckArguments, CheckOutputs, CountWords, NativeProduce, PassArguments, Produce,
    SumArguments, SumChunks, Work, WorkArguments, WriteOutputs, levels,
};
use scatterheap_host::size::Bytes;
use scatterheap_host::{Device, Grid, Memory};
use simt::kernel::Kernel;

const METRIC: &str = "workgen_us";

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    match bench.allocator.handle() {
        Some(Handle::Heap(heap)) => measure::<Produce, _>(bench, heap),
        Some(Handle::Native(native)) => measure::<NativeProduce, _>(bench, native),
        None => Err(not_compiled_for(bench.allocator.name())),
    }
}

fn measure<K, A>(bench: &mut Bench<'_>, device_allocator: A) -> Result<()>
where
    A: DeviceAllocator,
    K: Kernel<Arguments = WorkArguments<A>>,
{
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let (device, n) = (ground.device, ground.case.n);
    let outputs = Outputs::new(ground)?;
    let arguments = WorkArguments {
        allocator: device_allocator,
        work: outputs.work(n),
    };
    let request = outputs.0.request(&ground.case, 0, n);
    let produce = || -> Result<()> {
        // SAFETY: there are a length and a place for each thread, and the heap outlives the
        // launches.
        unsafe { device.launch::<K>(Grid::of(n), &arguments)? };
        Ok(())
    };
    let counters = Counters::new(device)?;
    let check = || -> Result<Faults> {
        produce()?;
        outputs.check(device, n, &counters)?;
        counters.read()
    };
    check()?.refuse_corrupt(figures, n.into())?;
    // SAFETY: the blocks were just allocated.
    unsafe { allocator.free(&request)? };
    let mut times = Vec::new();
    let launches = ground.sample(figures, |counts| {
        let time = device.time_calls(produce)?;
        counters.count_nulls(device, &outputs.0, n)?;
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

/// Measures the two passes.
pub(super) fn two_passes(ground: &Ground<'_>, figures: &mut Figures<'_>) -> Result<()> {
    let passes = TwoPasses::new(ground)?;
    let (device, n) = (ground.device, ground.case.n);
    passes.launch(device, n)?;
    let counters = Counters::new(device)?;
    passes.outputs.check(device, n, &counters)?;
    counters.read()?.report(figures, n.into())?;
    let mut times = Vec::new();
    ground.sample(figures, |counts| {
        let time = device.time_calls(|| passes.launch(device, n))?;
        if counts {
            times.push(time * MICROSECONDS);
        }
        Ok(())
    })?;
    figures.spread(METRIC, &times);
    Ok(())
}

/// Lengths of the outputs and places for their addresses.
struct Outputs(Arrays);

impl Outputs {
    fn new(ground: &Ground<'_>) -> Result<Self> {
        let count = ground.case.n as usize;
        let mut arrays = ground.arrays(count)?;
        if arrays.sizes.is_none() {
            let sizes = ground.device.allocate(count as u64 * 4)?;
            sizes.write(0, &ground.sizes(count))?;
            arrays.sizes = Some(sizes);
        }
        Ok(Self(arrays))
    }

    fn work(&self, n: u32) -> Work {
        Work {
            sizes: self.0.sizes.as_ref().map_or(0, Memory::address),
            outputs: self.0.blocks.address(),
            count: n.into(),
        }
    }

    /// Enqueues a launch that looks at all outputs.
    fn check(&self, device: &Device, n: u32, counters: &Counters) -> Result<()> {
        let arguments = CheckArguments {
            work: self.work(n),
            faults: counters.address(),
        };
        // SAFETY: there is a length and an address for each thread; outputs are as long as was
        // asked for.
        unsafe { device.launch::<CheckOutputs>(Grid::of(n), &arguments)? };
        Ok(())
    }
}

/// Words of all outputs, which the two passes add up in 4 bytes.
fn words_of(sizes: &[u32]) -> Result<u64> {
    let words: u64 = sizes.iter().map(|size| u64::from(size / 4)).sum();
    if words > u32::MAX.into() {
        return Err(Error::Unfit(format!(
            "outputs of {} in all are too many for two passes, which place less than 16 GiB",
            Bytes(words * 4)
        )));
    }
    Ok(words)
}

/// The memory of the baseline.
struct TwoPasses {
    outputs: Outputs,
    counts: Memory,
    room: Memory,
}

impl TwoPasses {
    fn new(ground: &Ground<'_>) -> Result<Self> {
        let count = ground.case.n;
        let sizes = ground.sizes(count as usize);
        let words = words_of(&sizes)?;
        let counts: u64 = levels(count.into()).map(|(_, length)| length).sum();
        Ok(Self {
            outputs: Outputs::new(ground)?,
            counts: ground.device.allocate(counts * 4)?,
            room: ground.device.allocate(words * 4)?,
        })
    }

    /// Enqueues the passes.
    fn launch(&self, device: &Device, n: u32) -> Result<()> {
        let arguments = PassArguments {
            work: self.outputs.work(n),
            counts: self.counts.address(),
            room: self.room.address(),
        };
        // SAFETY: there is a length, a place for an address and a count for each thread, counts for
        // all levels, and room for all outputs.
        unsafe {
            device.launch::<CountWords>(Grid::of(n), &arguments)?;
            for (begin, length) in levels(n.into()).filter(|(_, length)| *length > 1) {
                let counts = self.counts.address() + begin * 4;
                let sums = counts + length * 4;
                let chunks = u32::try_from(length.div_ceil(CHUNK)).unwrap_or(u32::MAX);
                let level = SumArguments {
                    counts,
                    count: length,
                    sums,
                };
                device.launch::<SumChunks>(Grid::of(chunks), &level)?;
            }
            device.launch::<WriteOutputs>(Grid::of(n), &arguments)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::words_of;
    use crate::case::{Case, Test};
    use crate::tests::try_out::{HEAP_BYTES, try_baseline, try_out, try_out_leaking};

    fn case(n: u32) -> Case {
        Case {
            test: Test::Workgen,
            least: 4,
            most: 200,
            n,
        }
    }

    #[test]
    fn outputs_are_written_by_threads_that_allocate() {
        for found in try_out(case(3000)) {
            found.expect_metrics(&["null", "corrupt", "requests", super::METRIC]);
            found.expect_zero(&["null", "corrupt"]);
        }
    }

    #[test]
    fn nulls_of_launches_that_are_timed_are_counted() {
        let large = Case {
            least: 4096,
            most: 4096,
            ..case(u32::try_from(HEAP_BYTES / 4096 / 2).expect("few"))
        };
        let found = try_out_leaking(large);
        assert!(found.value("null") > 0.0, "{found:?}");
        found.expect_zero(&["corrupt"]);
    }

    #[test]
    fn two_passes_find_a_place_for_every_output() {
        // Around the lengths where another level begins.
        for n in [1, 2, 31, 32, 33, 1023, 1024, 1025, 2000] {
            let found = try_baseline(case(n));
            found.expect_metrics(&["null", "corrupt", super::METRIC]);
            found.expect_zero(&["null", "corrupt"]);
        }
    }

    #[test]
    fn outputs_whose_places_are_too_large_numbers_are_refused() {
        assert_eq!(words_of(&[7, 8, 9]).expect("few"), 5);
        let mut sizes = vec![u32::MAX; 4];
        assert_eq!(words_of(&sizes).expect("they fit"), (1 << 32) - 4);
        sizes.push(16);
        let refused = words_of(&sizes).expect_err("a word too many").to_string();
        assert!(refused.starts_with("outputs of 16 GiB in all"), "{refused}");
    }
}
