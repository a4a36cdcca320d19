//! What a full heap answers: requests of all sizes from all threads, none of which can be served.
//!
//! The heap is filled by [`Exhaust`](crate::exhaust::Exhaust), whose lists [`Thin`] walks to free every
//! other block.

use crate::exhaust::{ExhaustArguments, LINK};
use crate::pattern;
use crate::tally::{Count, Counts};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::{kernel, thread};

/// Steps of a doubling.
const STEPS: u64 = 8;

/// The sizes that are asked for: 16 bytes, and then eight of each doubling.
#[must_use]
pub const fn size(index: u64) -> u64 {
    (STEPS + index % STEPS) << (index / STEPS + 1)
}

/// How many sizes there are up to a capacity in bytes.
#[must_use]
pub const fn size_count(capacity: u64) -> u64 {
    let mut count = 0;
    while size(count) <= capacity {
        count += 1;
    }
    count
}

/// Arguments of [`Starve`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct StarveArguments {
    /// The heap.
    pub heap: Heap,
    /// Number of threads that ask; the grid has as many or more.
    pub threads: u64,
    /// Requests of each.
    pub rounds: u64,
    /// Number of sizes.
    pub sizes: u64,
    /// Address of the tally.
    pub tally: u64,
}

kernel! {
    /// Every thread asks for blocks of different sizes, and gives back what it gets.
    pub struct Starve = "scatterheap_kernel_starve";
    fn body(arguments: &StarveArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.threads {
            return;
        }
        let mut counts = Counts::default();
        let heap = &arguments.heap;
        // SAFETY: the host gave a heap and a tally.
        unsafe {
            for round in 0..arguments.rounds {
                let bytes = size((thread + round * arguments.sizes / arguments.rounds) % arguments.sizes);
                let block = heap.malloc(bytes);
                if counts.allocated(heap, block, bytes) {
                    heap.free(block);
                }
            }
            counts.report(arguments.tally);
        }
    }
}

kernel! {
    /// Every thread checks and frees every other block of its list.
    pub struct Thin = "scatterheap_kernel_thin";
    fn body(arguments: &ExhaustArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.rounds.count {
            return;
        }
        let mut counts = Counts::default();
        let owner = arguments.rounds.first_owner + thread;
        // SAFETY: the lists are as `Exhaust` left them.
        unsafe {
            let heap = &arguments.rounds.heap;
            let mut kept = (arguments.lists as *const u64).add(thread as usize).read();
            while kept != 0 {
                let link = kept as *mut u64;
                let next = link.read();
                if next == 0 {
                    break;
                }
                let block = next as *mut u8;
                let after = block.cast::<u64>().read();
                let bytes = block.cast::<u64>().add(1).read();
                let plausible = bytes >= LINK && bytes <= heap.usable_size(block);
                let intact = plausible
                    && pattern::is_intact(block.add(LINK as usize), bytes - LINK, owner);
                counts.add(Count::Corrupt, u64::from(!intact));
                if !plausible {
                    break;
                }
                heap.free(block);
                counts.add(Count::Operations, 1);
                link.write(after);
                kept = after;
            }
            counts.report(arguments.rounds.tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rise_to_the_capacity() {
        let count = size_count(1 << 20);
        assert_eq!((size(0), size(1), size(8)), (16, 18, 32));
        assert!((1..count).all(|index| size(index) > size(index - 1)));
        assert!(size(count - 1) <= 1 << 20 && size(count) > 1 << 20);
    }
}
