//! Short lives: every thread allocates, fills, checks and frees, again and again.

use crate::pattern;
use crate::sizes::Sizes;
use crate::tally::{Count, Counts};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::{kernel, thread};

/// Arguments of the kernels in which each thread works alone for some rounds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct RoundsArguments {
    /// The heap.
    pub heap: Heap,
    /// Number of threads that work; the grid has as many or more.
    pub count: u64,
    /// Address of the tally.
    pub tally: u64,
    /// Rounds of each thread.
    pub rounds: u64,
    /// Sizes asked for.
    pub sizes: Sizes,
    /// What the blocks' owners are numbered from.
    pub first_owner: u64,
}

/// Blocks that a thread holds at once.
const HELD: usize = 4;

kernel! {
    /// Every thread keeps up to four blocks, of which it replaces one a round.
    pub struct Churn = "scatterheap_kernel_churn";
    fn body(arguments: &RoundsArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.count {
            return;
        }
        let mut counts = Counts::default();
        let mut held = [(core::ptr::null_mut::<u8>(), 0_u64); HELD];
        // SAFETY: the host gave a heap and a tally; each block is this thread's until freed.
        unsafe {
            let heap = &arguments.heap;
            for round in 0..arguments.rounds + HELD as u64 {
                let place = (round % HELD as u64) as usize;
                let (block, bytes) = held[place];
                if !block.is_null() {
                    let owner = arguments.first_owner + thread * (HELD as u64) + place as u64;
                    let intact = pattern::is_intact(block, bytes, owner);
                    counts.add(Count::Corrupt, u64::from(!intact));
                    heap.free(block);
                    counts.add(Count::Operations, 1);
                    held[place].0 = core::ptr::null_mut();
                }
                if round < arguments.rounds {
                    let bytes = arguments.sizes.of(thread, round);
                    let block = heap.malloc(bytes);
                    if counts.allocated(heap, block, bytes) {
                        let owner = arguments.first_owner + thread * (HELD as u64) + place as u64;
                        pattern::fill(block, bytes, owner);
                        held[place] = (block, bytes);
                    }
                }
            }
            counts.report(arguments.tally);
        }
    }
}
