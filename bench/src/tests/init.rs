//! `init`: making a heap, from nothing until it is usable, with the memory for it: as the first one of a process, and after another that was given back.

use crate::bench::Bench;
use crate::error::Result;
use crate::first::milliseconds_to_create;
use std::thread::sleep;
use std::time::Duration;

/// Processes that make one heap each, at most.
const FIRST_HEAPS: u32 = 5;
/// How long a GPU rests before each: drivers clear what was freed, 128 GiB of an H200 in 0.4 s.
const REST: Duration = Duration::from_secs(1);

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    bench.allocator.destroy();
    first_heaps(bench)?;
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let mut times = Vec::new();
    ground.sample(figures, |counts| {
        allocator.destroy();
        let time = milliseconds_to_create(ground.device, *allocator, ground.case.most)?;
        if counts {
            times.push(time);
        }
        Ok(())
    })?;
    allocator.destroy();
    figures.spread("init_ms", &times);
    Ok(())
}

/// Has new processes make a heap each. Nothing for allocators that cannot be had there.
fn first_heaps(bench: &mut Bench<'_>) -> Result<()> {
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let mut times = Vec::new();
    for _ in 0..FIRST_HEAPS.min(ground.plan.samples) {
        if ground.device.is_gpu() {
            sleep(REST);
        }
        match allocator.create_first(ground.case.most)? {
            Some(time) => times.push(time),
            None => return Ok(()),
        }
    }
    figures.spread("init_ms_first", &times);
    Ok(())
}
