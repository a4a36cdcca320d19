//! What `calloc` and `realloc` write into blocks, by the lanes of a warp for each other.
//!
//! Blocks of a warp lie side by side, or anywhere. If each lane wrote its own, 16 bytes at a time, each instruction would write half a sector of 32 different
//! ones, and the next one the other halves. So a few lanes write each block, and the others the next ones: whole sectors of a few lines.
//!
//! Where lanes write for each other none leaves before all blocks are written, and none begins before all lanes own theirs.

use core::mem::MaybeUninit;
use simt::lanes::Lanes;
use simt::{warp, with_active_lanes};

/// What is written at once: 16 bytes, as which blocks are aligned, and of which they are multiples. On a GPU it is a vector. What is copied may be
/// anything, padding and what nobody has written too.
type Chunk = MaybeUninit<u128>;

/// Bytes of a [`Chunk`].
const CHUNK_BYTES: u64 = 16;
/// So many lanes of a whole warp write one block, side by side (binary logarithm): those of a line of L2.
const TEAM_LOG2: u32 = 3;
/// And so many where no block has more chunks than that.
const SMALL_TEAM_LOG2: u32 = 2;

/// Sets as many chunks as hold `bytes` to zero.
///
/// # Safety
///
/// `block` must be aligned to chunks and have that many, which are the calling lane's alone.
#[inline(never)]
pub(crate) unsafe fn fill_with_zero(block: *mut u8, bytes: u64) {
    let block = block as u64;
    // SAFETY: as the caller promises, for each lane's block.
    unsafe {
        let chunks = lay_beyond::<false>(0, block, bytes);
        with_active_lanes!(lanes => lay::<_, false>(lanes, 0, block, chunks));
    }
}

/// Copies as many chunks as hold `bytes`.
///
/// # Safety
///
/// Both blocks must be aligned to chunks and have that many, which are the calling lane's alone.
#[inline(never)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: u64) {
    let (from, to) = (from as u64, to as u64);
    // SAFETY: as the caller promises, for each lane's blocks.
    unsafe {
        let chunks = lay_beyond::<true>(from, to, bytes);
        with_active_lanes!(lanes => lay::<_, true>(lanes, from, to, chunks));
    }
}

/// Writes what is beyond 64 GiB, which each lane does alone; gives the chunks before that.
///
/// # Safety
///
/// As for [`copy`], or [`fill_with_zero`].
#[inline(always)]
unsafe fn lay_beyond<const COPIES: bool>(from: u64, to: u64, bytes: u64) -> u32 {
    let chunks = bytes.div_ceil(CHUNK_BYTES);
    #[allow(clippy::cast_possible_truncation, reason = "no more than 32 bits")]
    let before = chunks.min(u64::from(u32::MAX)) as u32;
    for index in u64::from(before)..chunks {
        let offset = index * CHUNK_BYTES;
        // SAFETY: as the caller promises.
        unsafe { write(to + offset, read::<COPIES>(from + offset)) };
    }
    before
}

/// Writes what lies at `from`, or zeroes, to `to`, for all lanes that came together.
///
/// # Safety
///
/// As for [`copy`], or [`fill_with_zero`], in each lane.
#[inline(always)]
unsafe fn lay<L: Lanes, const COPIES: bool>(lanes: L, from: u64, to: u64, chunks: u32) {
    if lanes.ballot(chunks > 1) == 0 {
        if chunks > 0 {
            // SAFETY: as the caller promises.
            unsafe { write(to, read::<COPIES>(from)) };
        }
        return;
    }
    // A block is its lane's, by whatever that acquired, and what is copied was written by it.
    lanes.sync();
    let lay_of = |source: u32, first: u32, step: u32| {
        let from = if COPIES {
            lanes.shuffle_u64(from, source)
        } else {
            0
        };
        let to = lanes.shuffle_u64(to, source);
        let chunks = lanes.shuffle(chunks, source);
        // SAFETY: as that lane's caller promises; the other lanes write other parts.
        unsafe { lay_part::<COPIES>(from, to, first, step, chunks) };
    };
    if L::ARE_WHOLE_WARP {
        let is_small = lanes.ballot(chunks > 1 << SMALL_TEAM_LOG2) == 0;
        let team_log2 = if is_small { SMALL_TEAM_LOG2 } else { TEAM_LOG2 };
        let (lane, width) = (warp::lane_id(), 1 << team_log2);
        // (A number that the compiler does not know, or there would be as many copies of what follows.)
        for turn in 0..warp::opaque(width) {
            let source = turn * (warp::LANES >> team_log2) + (lane >> team_log2);
            lay_of(source, lane & (width - 1), width);
        }
    } else {
        let mut rest = lanes.mask();
        while rest != 0 {
            let source = warp::lowest(rest);
            lay_of(
                source,
                lanes.rank_in(lanes.mask()),
                lanes.count_of(lanes.mask()),
            );
            rest &= rest - 1;
        }
    }
    // Before a lane uses its block, or gives the old one up.
    lanes.sync();
}

/// Writes each `step`th chunk from `first` on, of so many in all.
///
/// # Safety
///
/// As for [`lay`], but for those chunks alone.
#[inline(always)]
unsafe fn lay_part<const COPIES: bool>(from: u64, to: u64, first: u32, step: u32, chunks: u32) {
    if first >= chunks {
        return;
    }
    let bytes = |count: u32| u64::from(count) * CHUNK_BYTES;
    let (mut from, mut to) = (from + bytes(first), to + bytes(first));
    let mut left = chunks - first;
    // SAFETY: as the caller promises.
    unsafe {
        // Two at once, to wait for both together.
        while left > step {
            let one = read::<COPIES>(from);
            let other = read::<COPIES>(from + bytes(step));
            write(to, one);
            write(to + bytes(step), other);
            (from, to) = (from + 2 * bytes(step), to + 2 * bytes(step));
            left = left.saturating_sub(2 * step);
        }
        if left > 0 {
            write(to, read::<COPIES>(from));
        }
    }
}

/// The chunk at an address, or zeroes.
///
/// # Safety
///
/// As for [`lay`].
#[inline(always)]
unsafe fn read<const COPIES: bool>(from: u64) -> Chunk {
    if COPIES {
        // SAFETY: as the caller promises.
        unsafe { (from as *const Chunk).read() }
    } else {
        MaybeUninit::new(0)
    }
}

/// Writes a chunk to an address.
///
/// # Safety
///
/// As for [`lay`].
#[inline(always)]
unsafe fn write(to: u64, chunk: Chunk) {
    // SAFETY: as the caller promises.
    unsafe { (to as *mut Chunk).write(chunk) };
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn lanes_together_write_all_of_a_block_and_nothing_else() {
        let from: Vec<u128> = (1..=200).collect();
        for step in 1..=32 {
            for chunks in 0..100_u32 {
                let mut to = vec![0; from.len()];
                let addresses = (from.as_ptr() as u64, to.as_mut_ptr() as u64);
                for first in 0..step {
                    // SAFETY: both have more chunks.
                    unsafe {
                        lay_part::<true>(addresses.0, addresses.1, first, step, chunks);
                    };
                }
                let (written, rest) = to.split_at(chunks as usize);
                assert_eq!(written, &from[..chunks as usize], "by {step} lanes");
                assert!(rest.iter().all(|chunk| *chunk == 0), "by {step} lanes");
            }
        }
    }
}
