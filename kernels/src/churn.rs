//! Short lives: every thread allocates, fills, checks and frees, again and again. What it holds
//! at the end of a launch it finds again in the next.

use crate::blocks::Block;
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
    /// Address of an array of [`Block`]s that threads hold from launch to launch: `count` for
    /// each that a thread may hold, all empty at first.
    pub held: u64,
}

impl RoundsArguments {
    /// The block that a thread holds at a place, and its owner's number.
    ///
    /// # Safety
    ///
    /// The array must be as the arguments say, and the thread the caller.
    pub(crate) unsafe fn held<'a>(&self, thread: u64, place: u64) -> (&'a mut Block, u64) {
        let index = place * self.count + thread;
        // SAFETY: as the caller promises.
        let block = unsafe { &mut *(self.held as *mut Block).add(index as usize) };
        (block, self.first_owner + index)
    }
}

impl Block {
    /// Checks the content of a held block and frees it; an empty one is left.
    ///
    /// # Safety
    ///
    /// The block must be the caller's alone and filled by its owner.
    pub(crate) unsafe fn check_and_free(&mut self, heap: &Heap, owner: u64, counts: &mut Counts) {
        let pointer = self.address as *mut u8;
        if pointer.is_null() {
            return;
        }
        // SAFETY: as the caller promises.
        unsafe {
            let intact = pattern::is_intact(pointer, self.bytes, owner);
            counts.add(Count::Corrupt, u64::from(!intact));
            heap.free(pointer);
        }
        counts.add(Count::Operations, 1);
        self.address = 0;
    }
}

/// Blocks that a thread of [`Churn`] holds at once.
pub const HELD: u64 = 4;

kernel! {
    /// Every thread holds up to four blocks, of which it replaces one a round.
    pub struct Churn = "scatterheap_kernel_churn";
    fn body(arguments: &RoundsArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.count {
            return;
        }
        let mut counts = Counts::default();
        let heap = &arguments.heap;
        for round in 0..arguments.rounds {
            // SAFETY: the host gave a heap, a table of `HELD` blocks a thread, and a tally.
            unsafe {
                let (held, owner) = arguments.held(thread, round % HELD);
                held.check_and_free(heap, owner, &mut counts);
                let bytes = arguments.sizes.of(thread, round);
                let block = heap.malloc(bytes);
                if counts.allocated(heap, block, bytes) {
                    pattern::fill(block, bytes, owner);
                    *held = Block { address: block as u64, bytes };
                }
            }
        }
        // SAFETY: as above.
        unsafe { counts.report(arguments.tally) };
    }
}
