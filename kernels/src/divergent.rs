//! Lanes that go their own ways: different calls, sizes, orders and lifetimes in one warp.

use crate::blocks::Block;
use crate::churn::RoundsArguments;
use crate::pattern;
use crate::sizes::mix;
use crate::tally::{Count, Counts};
use core::alloc::Layout;
use heap::Heap;
use simt::{kernel, thread};

/// Largest alignment that is asked for, as a power of two.
const LARGEST_ALIGNMENT: u64 = 12;

/// Allocates in one of four ways, by `choice`.
///
/// # Safety
///
/// None beyond the heap's own.
unsafe fn allocate(heap: &Heap, choice: u64, bytes: u64, counts: &mut Counts) -> *mut u8 {
    match choice % 4 {
        0 => heap.malloc(bytes),
        1 => {
            let block = heap.calloc(bytes, 1);
            for offset in 0..if block.is_null() { 0 } else { bytes } {
                // SAFETY: the block has that many bytes.
                let byte = unsafe { block.add(offset as usize).read() };
                counts.add(Count::Corrupt, u64::from(byte != 0));
            }
            block
        }
        2 => {
            let alignment = 1 << ((choice >> 2) % (LARGEST_ALIGNMENT + 1));
            // SAFETY: a power of two, and no size near the address space's.
            let request = unsafe { Layout::from_size_align_unchecked(bytes as usize, alignment) };
            let block = heap.aligned_alloc(request);
            counts.add(
                Count::Misaligned,
                u64::from(block as usize & (alignment - 1) != 0),
            );
            block
        }
        _ => {
            let block = heap.malloc(bytes.div_ceil(3));
            // All of it, not only what was asked for: so much is copied, and tools report what is read before it is written.
            let usable = heap.usable_size(block);
            // SAFETY: the block is this thread's, and has so many bytes; none if it is NULL.
            unsafe { pattern::fill(block, usable, choice) };
            // SAFETY: the block is this thread's.
            let resized = unsafe { heap.realloc(block, bytes) };
            if resized.is_null() {
                // SAFETY: a failed realloc leaves the block; NULL is nothing to free.
                unsafe { heap.free(block) };
            } else if usable <= bytes {
                // SAFETY: the block has `bytes` bytes.
                let kept = unsafe { pattern::is_intact(resized, usable, choice) };
                counts.add(Count::Corrupt, u64::from(!kept));
            }
            resized
        }
    }
}

kernel! {
    /// Every lane chooses each round, by a hash, whether to work at all, how, and whether to keep
    /// the block for the next round. It holds one block.
    pub struct Divergent = "scatterheap_kernel_divergent";
    fn body(arguments: &RoundsArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.count {
            return;
        }
        let mut counts = Counts::default();
        let heap = &arguments.heap;
        // SAFETY: the host gave a heap, a table of a block a thread, and a tally.
        unsafe {
            let (held, owner) = arguments.held(thread, 0);
            for round in 0..arguments.rounds {
                let choice = mix(arguments.sizes.seed ^ thread << 24 ^ round);
                if choice.is_multiple_of(8) {
                    continue;
                }
                if !(choice >> 3).is_multiple_of(4) {
                    held.check_and_free(heap, owner, &mut counts);
                }
                if held.address == 0 {
                    let bytes = arguments.sizes.of(thread, round);
                    let block = allocate(heap, choice >> 5, bytes, &mut counts);
                    if counts.allocated(heap, block, bytes) {
                        pattern::fill(block, bytes, owner);
                        *held = Block { address: block as u64, bytes };
                    }
                }
            }
            counts.report(arguments.tally);
        }
    }
}
