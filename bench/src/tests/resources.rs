//! `resources`: what the timed kernels use of a multiprocessor, as the driver compiled them.

use crate::bench::Bench;
use crate::error::Result;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    if let Some(resources) = bench.allocator.resources()? {
        for (metric, value) in [
            ("registers", resources.registers),
            ("stack_bytes", resources.stack_bytes),
            ("free_registers", resources.free_registers),
            ("free_stack_bytes", resources.free_stack_bytes),
        ] {
            bench.figures.count(metric, value.into());
        }
    }
    Ok(())
}
