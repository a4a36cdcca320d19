//! Whether blocks are what they should be, whichever allocator they are from: [`Fill`] writes a pattern
//! of its owner through the whole length of every block, and [`Check`], when all were filled, looks
//! whether it is still there. So blocks that overlap, or reach out of their memory, are noticed.
//!
//! Several threads share a block, so that large ones take no longer than many.

use bytemuck::{Pod, Zeroable};
use kernels::sizes::mix;
use kernels::tally::{Count, Tally};
use simt::atomic::{DeviceAtomicU32, Ordering};
use simt::{kernel, thread};

/// Arguments of the kernels of this module.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ContentsArguments {
    /// Address of `count` addresses of blocks, or NULL.
    pub blocks: u64,
    /// Address of `count` sizes of 4 bytes; 0: all have `bytes` bytes.
    pub sizes: u64,
    /// Bytes of each block where there are no sizes.
    pub bytes: u64,
    /// Number of blocks.
    pub count: u64,
    /// Threads that share a block.
    pub share: u64,
    /// Address of `count` marks of 4 bytes, all 0: set by the first thread that finds its block corrupt.
    pub marks: u64,
    /// Address of the tally.
    pub tally: u64,
    /// Different seeds give different patterns.
    pub seed: u64,
}

/// A thread's part of a block.
struct Part {
    index: u64,
    block: *mut u8,
    bytes: u64,
    first_word: u64,
    pattern: u64,
}

impl ContentsArguments {
    /// The calling thread's part, if it has one.
    ///
    /// # Safety
    ///
    /// The arrays must be as the arguments say.
    #[inline]
    unsafe fn part(&self) -> Option<Part> {
        let thread = u64::from(thread::index_1d());
        let index = thread / self.share;
        if index >= self.count {
            return None;
        }
        // SAFETY: the arrays have `count` elements.
        let (block, bytes) = unsafe {
            let bytes = match self.sizes {
                0 => self.bytes,
                sizes => u64::from((sizes as *const u32).add(index as usize).read()),
            };
            (
                (self.blocks as *const u64).add(index as usize).read(),
                bytes,
            )
        };
        Some(Part {
            index,
            block: block as *mut u8,
            bytes,
            first_word: thread % self.share,
            pattern: mix(self.seed ^ index << 1),
        })
    }
}

impl Part {
    /// The word at `index`.
    #[inline]
    fn word(&self, index: u64) -> u64 {
        (self.pattern ^ index.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Calls `act` with each address and word of the part, and `act_on_byte` with each byte behind the last word.
    #[inline]
    fn for_each(
        &self,
        share: u64,
        mut act: impl FnMut(*mut u64, u64),
        mut act_on_byte: impl FnMut(*mut u8, u8),
    ) {
        let mut index = self.first_word;
        while index < self.bytes / 8 {
            act(
                self.block.cast::<u64>().wrapping_add(index as usize),
                self.word(index),
            );
            index += share;
        }
        if self.first_word == 0 {
            for offset in self.bytes & !7..self.bytes {
                act_on_byte(self.block.wrapping_add(offset as usize), self.pattern as u8);
            }
        }
    }
}

kernel! {
    /// Fills every block, and counts those that are NULL or not aligned to 16 bytes.
    pub struct Fill = "scatterheap_bench_fill";
    fn body(arguments: &ContentsArguments) {
        // SAFETY: the host gave arrays as long as it said.
        let Some(part) = (unsafe { arguments.part() }) else { return };
        // SAFETY: there is a tally.
        let tally = unsafe { Tally::at(arguments.tally) };
        let address = part.block as u64;
        if part.first_word == 0 {
            tally.add(Count::Nulls, u64::from(address == 0));
            tally.add(Count::Misaligned, u64::from(!address.is_multiple_of(16)));
        }
        // What is not aligned cannot be written by words.
        if address != 0 && address.is_multiple_of(16) {
            part.for_each(
                arguments.share,
                // SAFETY: the word lies in the block, which nobody else uses.
                |place, word| unsafe { place.write(word) },
                // SAFETY: the byte lies in the block, which nobody else uses.
                |place, byte| unsafe { place.write(byte) },
            );
        }
    }
}

kernel! {
    /// Counts the blocks that are not as [`Fill`] left them.
    pub struct Check = "scatterheap_bench_check";
    fn body(arguments: &ContentsArguments) {
        // SAFETY: the host gave arrays as long as it said.
        let Some(part) = (unsafe { arguments.part() }) else { return };
        let address = part.block as u64;
        if address == 0 || !address.is_multiple_of(16) {
            return;
        }
        let (mut wrong, mut wrong_bytes) = (0, 0);
        part.for_each(
            arguments.share,
            // SAFETY: the word lies in the block.
            |place, word| wrong |= unsafe { place.read() } ^ word,
            // SAFETY: the byte lies in the block.
            |place, byte| wrong_bytes |= unsafe { place.read() } ^ byte,
        );
        if wrong != 0 || wrong_bytes != 0 {
            // SAFETY: there is a mark for each block, and a tally.
            let (mark, tally) = unsafe {
                let marks = arguments.marks as *const DeviceAtomicU32;
                (&*marks.add(part.index as usize), Tally::at(arguments.tally))
            };
            // Relaxed: only one thread is to count the block; the host reads after the launch.
            let first = mark.swap(1, Ordering::Relaxed) == 0;
            tally.add(Count::Corrupt, u64::from(first));
        }
    }
}
