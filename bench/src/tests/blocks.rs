//! `uniform`, `mixed`, `scale`, `large`, `warp`: all allocate, then all free, each in a launch that is
//! timed. `frag` looks only where the blocks lie.

use crate::allocator::Request;
use crate::bench::{Arrays, Bench, Ground};
use crate::case::Test;
use crate::contents::{range_ratio, verify};
use crate::error::Result;
use crate::{Allocator, figures::Figures};

/// Seconds to microseconds.
pub(super) const MICROSECONDS: f64 = 1e6;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let arrays = bench.ground.arrays(bench.ground.case.n as usize)?;
    if !bench.allocator.is_floor() {
        check(bench, &arrays)?;
    }
    time(bench, &arrays)
}

pub(super) fn spread(bench: &mut Bench<'_>) -> Result<()> {
    let arrays = bench.ground.arrays(bench.ground.case.n as usize)?;
    check(bench, &arrays)
}

/// Whether one lane of each warp works.
fn is_of_warps(ground: &Ground<'_>) -> bool {
    ground.case.test == Test::Warp
}

/// Enqueues the launch that allocates.
///
/// # Safety
///
/// The request's arrays must be as long as it says.
unsafe fn allocate(allocator: &mut dyn Allocator, of_warps: bool, request: &Request) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        if of_warps {
            allocator.allocate_of_warps(request)
        } else {
            allocator.allocate(request)
        }
    }
}

/// Enqueues the launch that frees.
///
/// # Safety
///
/// As for `allocate`, and the blocks must be the allocator's.
unsafe fn free(allocator: &mut dyn Allocator, of_warps: bool, request: &Request) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        if of_warps {
            allocator.free_of_warps(request)
        } else {
            allocator.free(request)
        }
    }
}

/// Allocates, verifies the blocks, tells how far they are spread, and frees them.
pub(super) fn check(bench: &mut Bench<'_>, arrays: &Arrays) -> Result<()> {
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let (of_warps, n) = (is_of_warps(ground), ground.case.n);
    let request = arrays.request(&ground.case, 0, n);
    // SAFETY: the arrays have `n` elements.
    unsafe { allocate(*allocator, of_warps, &request)? };
    ground.device.synchronize()?;
    tell_spread(ground, figures, arrays)?;
    verify(ground, arrays, n as usize)?.report(figures, n.into())?;
    // SAFETY: the blocks were just allocated, and found to be ours.
    unsafe { free(*allocator, of_warps, &request)? };
    Ok(ground.device.synchronize()?)
}

fn tell_spread(ground: &Ground<'_>, figures: &mut Figures<'_>, arrays: &Arrays) -> Result<()> {
    let count = ground.case.n as usize;
    let blocks = arrays.blocks.read::<u64>(0, count)?;
    let ratio = match &arrays.sizes {
        Some(_) => range_ratio(&blocks, ground.sizes(count).into_iter().map(u64::from)),
        None => range_ratio(&blocks, std::iter::repeat(ground.case.most)),
    };
    if let Some(ratio) = ratio {
        figures.one("range_ratio", ratio);
    }
    Ok(())
}

/// Times the two launches, one after the other.
fn time(bench: &mut Bench<'_>, arrays: &Arrays) -> Result<()> {
    time_after(bench, arrays, |_| Ok(()))
}

/// The same, each time after what else is enqueued before.
pub(super) fn time_after(
    bench: &mut Bench<'_>,
    arrays: &Arrays,
    mut before: impl FnMut(&mut dyn Allocator) -> Result<()>,
) -> Result<()> {
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let of_warps = is_of_warps(ground);
    let request = arrays.request(&ground.case, 0, ground.case.n);
    let (mut allocating, mut freeing) = (Vec::new(), Vec::new());
    ground.sample(figures, |counts| {
        before(*allocator)?;
        // SAFETY: the arrays have `n` elements; what is freed was just allocated.
        let (allocated, freed) = unsafe {
            let device = ground.device;
            (
                device.time_calls(|| allocate(*allocator, of_warps, &request))?,
                device.time_calls(|| free(*allocator, of_warps, &request))?,
            )
        };
        if counts {
            allocating.push(allocated * MICROSECONDS);
            freeing.push(freed * MICROSECONDS);
        }
        Ok(())
    })?;
    figures.spread("alloc_us", &allocating);
    figures.spread("free_us", &freeing);
    Ok(())
}
