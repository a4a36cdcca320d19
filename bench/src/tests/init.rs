//! `init`: making a heap, from nothing until it is usable, with the memory for it, after another of its size was given back. (The first of a process is
//! measured apart, see [`crate::first`].)

use crate::bench::Bench;
use crate::error::Result;
use crate::first::milliseconds_to_create;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
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
