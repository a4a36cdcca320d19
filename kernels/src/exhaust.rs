//! Filling the heap until nothing is left, and giving everything back.
//!
//! Each thread keeps its blocks in a list through their first words.

use crate::churn::RoundsArguments;
use crate::pattern;
use crate::tally::{Count, Counts};
use bytemuck::{Pod, Zeroable};
use simt::{kernel, thread};

/// Bytes of a block before its pattern: the next block's address, and the size.
pub(crate) const LINK: u64 = 16;

/// Arguments of [`Exhaust`] and [`Recover`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ExhaustArguments {
    /// What each thread does; `rounds` bounds the blocks of a thread. Sizes must be at least 16
    /// bytes.
    pub rounds: RoundsArguments,
    /// Address of `count` list heads of 8 bytes.
    pub lists: u64,
}

kernel! {
    /// Every thread allocates until it gets NULL, at most `rounds` blocks.
    pub struct Exhaust = "scatterheap_kernel_exhaust";
    fn body(arguments: &ExhaustArguments) {
        let RoundsArguments { count, rounds, sizes, first_owner, .. } = arguments.rounds;
        let thread = u64::from(thread::index_1d());
        if thread >= count {
            return;
        }
        let mut counts = Counts::default();
        // SAFETY: the host gave a heap, a list head for each thread, and a tally.
        unsafe {
            let heap = &arguments.rounds.heap;
            let mut list = 0_u64;
            for round in 0..rounds {
                let bytes = sizes.of(thread, round);
                let block = heap.malloc(bytes);
                if !counts.allocated(heap, block, bytes) {
                    break;
                }
                block.cast::<u64>().write(list);
                block.cast::<u64>().add(1).write(bytes);
                pattern::fill(block.add(LINK as usize), bytes - LINK, first_owner + thread);
                list = block as u64;
            }
            (arguments.lists as *mut u64).add(thread as usize).write(list);
            counts.report(arguments.rounds.tally);
        }
    }
}

kernel! {
    /// Every thread checks and frees its blocks.
    pub struct Recover = "scatterheap_kernel_recover";
    fn body(arguments: &ExhaustArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.rounds.count {
            return;
        }
        let mut counts = Counts::default();
        // SAFETY: as `Exhaust` left them.
        unsafe {
            let heap = &arguments.rounds.heap;
            let mut list = (arguments.lists as *mut u64).add(thread as usize).read();
            while list != 0 {
                let block = list as *mut u8;
                let next = block.cast::<u64>().read();
                let bytes = block.cast::<u64>().add(1).read();
                let owner = arguments.rounds.first_owner + thread;
                let plausible = bytes >= LINK && bytes <= heap.usable_size(block);
                if !plausible {
                    // The link cannot be trusted either: the rest of the list counts as leaked.
                    counts.add(Count::Corrupt, 1);
                    break;
                }
                let intact = pattern::is_intact(block.add(LINK as usize), bytes - LINK, owner);
                counts.add(Count::Corrupt, u64::from(!intact));
                heap.free(block);
                counts.add(Count::Operations, 1);
                list = next;
            }
            counts.report(arguments.rounds.tally);
        }
    }
}
