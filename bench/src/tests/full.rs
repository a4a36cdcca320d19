//! `oom` and `oommix`: a heap filled by launch after launch. `utilization` is the share that was handed out when the first
//! launch with a NULL ended, `utilization_at_end` when a launch got nothing but NULL: between the two, small requests
//! fill what large ones could not. `utilization_rounded` is `utilization` with the bytes that the blocks take instead of those
//! that were asked for.

use super::blocks::MICROSECONDS;
use crate::allocator::Allocator;
use crate::bench::{Arrays, Bench, Ground};
use crate::contents::verify;
use crate::error::Result;
use kernels::sizes::Sizes;

/// Launches beyond those that an allocator without any loss would need: with mixed sizes the last ones get little.
const FURTHER_LAUNCHES: u64 = 256;
/// How the filling went.
struct Filled {
    /// Launches.
    launches: usize,
    /// Seconds in them.
    seconds: f64,
    /// What was not NULL.
    received: Received,
    /// The same when the first launch with a NULL ended.
    at_first_null: Option<Received>,
}

/// Blocks that are not NULL.
#[derive(Clone, Copy)]
struct Received {
    count: u64,
    /// Bytes asked for with them.
    bytes: u64,
    /// Bytes that they take, if the allocator knows.
    rounded: Option<u64>,
}

#[allow(clippy::cast_precision_loss, reason = "a ratio, for people")]
pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let ground = bench.ground;
    let heap_bytes = bench.allocator.heap_bytes(ground.plan.full_heap_bytes);
    let average = u64::midpoint(ground.case.least, ground.case.most);
    let most_launches = heap_bytes.div_ceil(average * u64::from(ground.case.n)) + FURTHER_LAUNCHES;
    let places = usize::try_from(most_launches).unwrap_or(usize::MAX) * ground.case.n as usize;
    let arrays = ground.arrays(places)?;
    let filled = fill(bench, &arrays, most_launches)?;
    let asked = filled.launches * ground.case.n as usize;
    let faults = verify(&ground, &arrays, asked)?;
    let figures = &mut bench.figures;
    let share = |bytes| bytes as f64 / heap_bytes as f64;
    let before_null = filled.at_first_null.unwrap_or(filled.received);
    figures.one("utilization", share(before_null.bytes));
    if let Some(rounded) = before_null.rounded {
        figures.one("utilization_rounded", share(rounded));
    }
    figures.one("utilization_at_end", share(filled.received.bytes));
    figures.count("launches", filled.launches as u64);
    figures.one("fill_us", filled.seconds * MICROSECONDS);
    faults.report(figures, asked as u64)?;
    empty(bench, &arrays, filled.launches)
}

fn fill(bench: &mut Bench<'_>, arrays: &Arrays, most_launches: u64) -> Result<Filled> {
    let Bench {
        ground, allocator, ..
    } = bench;
    let n = ground.case.n;
    let mut filled = Filled {
        launches: 0,
        seconds: 0.0,
        received: Received::nothing(*allocator),
        at_first_null: None,
    };
    while (filled.launches as u64) < most_launches {
        let first = filled.launches * n as usize;
        let request = arrays.request(&ground.case, first, n);
        // SAFETY: the arrays have places for all launches.
        filled.seconds += ground
            .device
            .time_calls(|| unsafe { allocator.allocate(&request) })?;
        filled.launches += 1;
        let blocks = arrays.blocks.read::<u64>(first as u64 * 8, n as usize)?;
        let received = received(ground, *allocator, first, &blocks);
        filled.received = filled.received.and(received);
        if received.count < u64::from(n) {
            filled.at_first_null.get_or_insert(filled.received);
        }
        if received.count == 0 {
            break;
        }
    }
    Ok(filled)
}

impl Received {
    /// No blocks of an allocator.
    fn nothing(allocator: &dyn Allocator) -> Self {
        Self {
            count: 0,
            bytes: 0,
            rounded: allocator.rounded(1).and(Some(0)),
        }
    }

    /// These and those.
    fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
            rounded: self
                .rounded
                .zip(other.rounded)
                .map(|(some, more)| some + more),
        }
    }
}

/// What a launch got.
fn received(
    ground: &Ground<'_>,
    allocator: &dyn Allocator,
    first: usize,
    blocks: &[u64],
) -> Received {
    let sizes = Sizes {
        least: ground.case.least,
        most: ground.case.most,
        seed: ground.plan.seed,
    };
    let mut received = Received::nothing(allocator);
    for (index, _) in blocks.iter().enumerate().filter(|(_, block)| **block != 0) {
        let bytes = sizes.of((first + index) as u64, 0);
        received = received.and(Received {
            count: 1,
            bytes,
            rounded: allocator.rounded(bytes),
        });
    }
    received
}

/// Frees everything.
fn empty(bench: &mut Bench<'_>, arrays: &Arrays, launches: usize) -> Result<()> {
    let Bench {
        ground, allocator, ..
    } = bench;
    let n = ground.case.n;
    for launch in 0..launches {
        let request = arrays.request(&ground.case, launch * n as usize, n);
        // SAFETY: the blocks are the allocator's, and nobody uses them any more.
        unsafe { allocator.free(&request)? };
    }
    Ok(ground.device.synchronize()?)
}
