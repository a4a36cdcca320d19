//! `uniform_aged`, `mixed_aged` and `sizes_aged`: the heap is filled to 70 % with blocks of 16 to 8192 bytes; then
//! launches free a random part of them and allocate as many of other sizes, until enough was done. What
//! still fits is then timed as in `uniform` and `mixed`. What filled the heap is freed at last: an allocator
//! whose reset frees nothing, as a plug-in's may, would keep it.

use super::blocks;
use crate::bench::{Arrays, Bench, Ground, sizes_of};
use crate::case::Case;
use crate::error::Result;
use crate::{Allocator, figures::Figures};
use rand::seq::SliceRandom;

/// Sizes of the blocks that fill the heap.
const LEAST: u64 = 16;
const MOST: u64 = 8192;
/// Part of the blocks that each launch replaces.
const REPLACED: u32 = 4;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    if bench.allocator.is_floor() {
        return blocks::run(bench);
    }
    let case = filling(&bench.ground);
    let arrays = age(&bench.ground, bench.allocator, &mut bench.figures, case)?;
    blocks::run(bench)?;
    // SAFETY: the blocks are the allocator's, and nobody uses them any more.
    unsafe { bench.allocator.free(&arrays.request(&case, 0, case.n))? };
    Ok(bench.ground.device.synchronize()?)
}

/// The blocks that fill the heap, as a case.
fn filling(ground: &Ground<'_>) -> Case {
    let average = u64::midpoint(LEAST, MOST);
    Case {
        least: LEAST,
        most: MOST,
        n: u32::try_from(ground.plan.heap_bytes / 10 * 7 / average).unwrap_or(u32::MAX),
        ..ground.case
    }
}

/// Makes the allocator's heap one that has been used. The blocks stay.
fn age(
    ground: &Ground<'_>,
    allocator: &mut dyn Allocator,
    figures: &mut Figures<'_>,
    case: Case,
) -> Result<Arrays> {
    let count = case.n;
    let arrays = Ground { case, ..*ground }.arrays(count as usize)?;
    // SAFETY: the arrays have `count` elements.
    unsafe { allocator.allocate(&arrays.request(&case, 0, count))? };
    let replaced = count.div_ceil(REPLACED);
    let mut random = ground.random();
    let mut done = 0;
    let mut launch = 0;
    while done < ground.plan.aging_operations {
        shuffle(&arrays, count as usize, &mut random)?;
        let request = arrays.request(&case, 0, replaced);
        // SAFETY: the arrays have more elements than `replaced`; the blocks are the allocator's.
        unsafe { allocator.free(&request)? };
        launch += 1;
        let seed = ground.plan.seed.wrapping_add(launch << 32);
        if let Some(sizes) = &arrays.sizes {
            sizes.write(0, &sizes_of(LEAST, MOST, seed, replaced as usize))?;
        }
        // SAFETY: as above.
        unsafe { allocator.allocate(&request)? };
        done += 2 * u64::from(replaced);
    }
    ground.device.synchronize()?;
    let nulls = arrays.blocks.read::<u64>(0, count as usize)?;
    let nulls = nulls.into_iter().filter(|block| *block == 0).count();
    figures.count("aged_null", nulls as u64);
    Ok(arrays)
}

/// Brings the blocks into another order, so that threads free what others allocated.
fn shuffle(arrays: &Arrays, count: usize, random: &mut impl rand::Rng) -> Result<()> {
    let mut blocks = arrays.blocks.read::<u64>(0, count)?;
    blocks.shuffle(random);
    Ok(arrays.blocks.write(0, &blocks)?)
}
