//! Blocks that double by `realloc`, as a growing vector does.

use crate::blocks::Block;
use crate::churn::RoundsArguments;
use crate::pattern;
use crate::tally::{Count, Counts};
use simt::{kernel, thread};

kernel! {
    /// Every thread grows a block from the least size, doubling it until it would pass the most,
    /// checks the old content in the new block each time, and holds the last block.
    pub struct Grow = "scatterheap_kernel_grow";
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
            for _ in 0..arguments.rounds {
                held.check_and_free(heap, owner, &mut counts);
                let mut bytes = arguments.sizes.least;
                let mut block = heap.malloc(bytes);
                if !counts.allocated(heap, block, bytes) {
                    continue;
                }
                pattern::fill(block, bytes, owner);
                while bytes * 2 <= arguments.sizes.most {
                    let larger = heap.realloc(block, bytes * 2);
                    if !counts.allocated(heap, larger, bytes * 2) {
                        break;
                    }
                    block = larger;
                    let intact = pattern::is_intact(block, bytes, owner);
                    counts.add(Count::Corrupt, u64::from(!intact));
                    bytes *= 2;
                    pattern::fill(block, bytes, owner);
                }
                *held = Block { address: block as u64, bytes };
            }
            counts.report(arguments.tally);
        }
    }
}
