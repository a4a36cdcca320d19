//! Reading what was allocated: threads share a block and read it in pieces of 16 bytes, as code
//! does that works on a block together. It depends on where the blocks lie only, so it is the same
//! for any allocator, and for blocks that are cut from one array.

use crate::faults::{Fault, report};
use bytemuck::{Pod, Zeroable};
use simt::{kernel, thread};

/// Bytes that a thread reads at once.
pub const PIECE_BYTES: u64 = 16;

/// Arguments of the kernels of this module.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct AccessArguments {
    /// Address of `count` addresses of blocks, none of them NULL.
    pub blocks: u64,
    /// Number of blocks.
    pub count: u64,
    /// Pieces of each block.
    pub pieces: u64,
    /// Threads that share a block.
    pub share: u64,
    /// Address of the counters of [`Fault`].
    pub faults: u64,
}

/// What is read at once: aligned, so that it is one load.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Piece {
    low: u64,
    high: u64,
}

impl Piece {
    /// What piece `place` of block `block` holds.
    #[inline(always)]
    fn new(block: u64, place: u64) -> Self {
        Self {
            low: block << 32 | place,
            high: !block,
        }
    }

    #[inline(always)]
    fn sum(self) -> u64 {
        self.low.wrapping_add(self.high)
    }
}

/// The calling thread's block and first piece.
#[derive(Clone, Copy)]
struct Part {
    block: u64,
    pieces: *mut Piece,
    first: u64,
}

impl AccessArguments {
    /// # Safety
    ///
    /// There must be as many addresses as said.
    #[inline(always)]
    unsafe fn part(&self) -> Option<Part> {
        let thread = u64::from(thread::index_1d());
        let block = thread / self.share;
        if block >= self.count {
            return None;
        }
        // SAFETY: as the caller promises.
        let address = unsafe { (self.blocks as *const u64).add(block as usize).read() };
        Some(Part {
            block,
            pieces: address as *mut Piece,
            first: thread % self.share,
        })
    }
}

kernel! {
    /// Writes all blocks.
    pub struct Write = "scatterheap_bench_access_write";
    fn body(arguments: &AccessArguments) {
        // SAFETY: as the host promised.
        let Some(part) = (unsafe { arguments.part() }) else { return };
        let mut place = part.first;
        while place < arguments.pieces {
            // SAFETY: the piece lies in the block.
            unsafe { part.pieces.add(place as usize).write(Piece::new(part.block, place)) };
            place += arguments.share;
        }
    }
}

kernel! {
    /// Reads all blocks. Each thread sums its pieces up, and counts a sum that is not what was
    /// written.
    pub struct Read = "scatterheap_bench_access_read";
    fn body(arguments: &AccessArguments) {
        // SAFETY: as the host promised.
        let Some(part) = (unsafe { arguments.part() }) else { return };
        let (mut sum, mut expected) = (0_u64, 0_u64);
        let mut place = part.first;
        while place < arguments.pieces {
            // SAFETY: the piece lies in the block.
            let piece = unsafe { part.pieces.add(place as usize).read() };
            sum = sum.wrapping_add(piece.sum());
            expected = expected.wrapping_add(Piece::new(part.block, place).sum());
            place += arguments.share;
        }
        // SAFETY: there are counters.
        unsafe { report(arguments.faults, Fault::Corrupt, u32::from(sum != expected)) };
    }
}
