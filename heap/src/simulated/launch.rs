//! Which warps a multiprocessor runs, and in which order all of them come.

use rand::RngExt;
use rand::rngs::StdRng;
use simt::emulation::{Position, set_position};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Multiprocessors of an H200.
pub(super) const MULTIPROCESSORS: u32 = 132;
/// Warps of a block of 256 threads.
const BLOCK_WARPS: usize = 8;
/// Blocks that a multiprocessor has at once.
const RESIDENT: usize = 8;
/// Nanoseconds that a warp takes, less than.
const WARP_NANOSECONDS: u64 = 70;
/// Nanoseconds by which one multiprocessor begins later than another, less than. So some take a block or two more than others, as was seen on an H200.
const LATE_NANOSECONDS: u64 = 2500;

/// Runs the warps of a grid, by their number: each multiprocessor its own in turn, and all by a clock that goes a little at random.
pub(super) fn launch(warps: usize, random: &mut StdRng, mut run: impl FnMut(usize)) {
    let blocks = warps.div_ceil(BLOCK_WARPS);
    let warps_of =
        |block| (block * BLOCK_WARPS..(block + 1) * BLOCK_WARPS).filter(|warp| *warp < warps);
    let mut waiting = 0..blocks;
    let mut queues = vec![VecDeque::new(); MULTIPROCESSORS as usize];
    for _ in 0..RESIDENT {
        for queue in &mut queues {
            queue.extend(waiting.next().into_iter().flat_map(warps_of));
        }
    }
    let begin = |multiprocessor| {
        (
            Reverse(random.random_range(0..LATE_NANOSECONDS)),
            multiprocessor,
        )
    };
    let mut clocks: BinaryHeap<_> = (0..MULTIPROCESSORS).map(begin).collect();
    while let Some((Reverse(now), multiprocessor)) = clocks.pop() {
        let queue = &mut queues[multiprocessor as usize];
        let Some(warp) = queue.pop_front() else {
            continue;
        };
        set_position(position(warp / BLOCK_WARPS, blocks, multiprocessor));
        run(warp);
        if warp % BLOCK_WARPS == BLOCK_WARPS - 1 {
            queue.extend(waiting.next().into_iter().flat_map(warps_of));
        }
        clocks.push((
            Reverse(now + random.random_range(0..WARP_NANOSECONDS)),
            multiprocessor,
        ));
    }
    set_position(Position::default());
}

/// The first thread of a block.
fn position(block: usize, blocks: usize, multiprocessor: u32) -> Position {
    let number = |count| u32::try_from(count).expect("a grid has fewer blocks than 2^32");
    Position {
        thread_index: 0,
        block_dim: u32::try_from(BLOCK_WARPS).expect("few") * simt::warp::LANES,
        block_index: number(block),
        grid_dim: number(blocks),
        sm_id: multiprocessor,
        ..Position::default()
    }
}
