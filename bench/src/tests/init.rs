//! `init`: making a heap, from nothing until it is usable, with the memory for it.

use crate::bench::Bench;
use crate::error::Result;
use std::time::Instant;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let mut times = Vec::new();
    ground.sample(figures, |counts| {
        allocator.destroy();
        ground.device.synchronize()?;
        let start = Instant::now();
        allocator.create(ground.case.most)?;
        ground.device.synchronize()?;
        if counts {
            times.push(start.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(())
    })?;
    allocator.destroy();
    figures.spread("init_ms", &times);
    Ok(())
}
