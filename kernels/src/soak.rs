//! Blocks of many sizes that change hands on several heaps at once, for as long as one likes.
//!
//! Each heap has mailboxes, more than threads, so that what lies in them fills most of the heap. A thread
//! writes a block, puts it into any mailbox of its heap, and checks and frees what lay there: a block of
//! another thread, of another multiprocessor, of any age.

use crate::exchange::{LETTERHEAD, open};
use crate::pattern;
use crate::sizes::mix;
use crate::tally::Counts;
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::atomic::{DeviceAtomicU64, Ordering};
use simt::{kernel, thread};

/// Sizes are from 16 bytes to below this, any doubling as likely as another.
pub const MOST: u64 = LEAST << OCTAVES;
const LEAST: u64 = 16;
const OCTAVES: u64 = 9;
/// The mean size in bytes: in each octave one and a half times its least.
pub const MEAN: u64 = LEAST * 3 * ((1 << OCTAVES) - 1) / 2 / OCTAVES;

/// Arguments of [`Soak`] and [`Drain`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SoakArguments {
    /// Address of the addresses of the heaps' metadata.
    pub heaps: u64,
    /// Number of heaps. Blocks of the grid take turns with them.
    pub heap_count: u64,
    /// Address of the mailboxes of 8 bytes, heap after heap, all zero at first.
    pub mailboxes: u64,
    /// Mailboxes of a heap.
    pub mailbox_count: u64,
    /// Number of threads that work; the grid has as many or more.
    pub threads: u64,
    /// Rounds of each.
    pub rounds: u64,
    /// What blocks' owners are numbered from, any number; different in each launch.
    pub first_owner: u64,
    /// Address of the tally.
    pub tally: u64,
}

impl SoakArguments {
    /// # Safety
    ///
    /// The heaps must be as the arguments say.
    unsafe fn heap<'a>(&self, index: u64) -> &'a Heap {
        // SAFETY: as the caller promises.
        unsafe { Heap::at((self.heaps as *const u64).add(index as usize).read()) }
    }

    /// # Safety
    ///
    /// Both must be below their number, and the mailboxes as the arguments say.
    unsafe fn mailbox<'a>(&self, heap: u64, index: u64) -> &'a DeviceAtomicU64 {
        let index = heap * self.mailbox_count + index;
        // SAFETY: as the caller promises.
        unsafe { &*(self.mailboxes as *const DeviceAtomicU64).add(index as usize) }
    }
}

/// The size that an owner asks for.
fn size(draw: u64) -> u64 {
    let least = LEAST << (draw % OCTAVES);
    least + (draw >> 16) % least
}

kernel! {
    /// Every thread puts a block a round into a mailbox, and frees what lay there.
    pub struct Soak = "scatterheap_kernel_soak";
    fn body(arguments: &SoakArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.threads {
            return;
        }
        let mut counts = Counts::default();
        let which = u64::from(thread::block_index()) % arguments.heap_count;
        // SAFETY: the host gave heaps, mailboxes and a tally; a block is its taker's.
        unsafe {
            let heap = arguments.heap(which);
            for round in 0..arguments.rounds {
                let number = thread * arguments.rounds + round;
                let owner = arguments.first_owner.wrapping_add(number);
                let draw = mix(owner);
                let bytes = size(draw);
                let block = heap.malloc(bytes);
                if !counts.allocated(heap, block, bytes) {
                    continue;
                }
                block.cast::<u64>().write(owner);
                block.cast::<u64>().add(1).write(bytes);
                pattern::fill(block.add(LETTERHEAD as usize), bytes - LETTERHEAD, owner);
                let index = mix(draw) % arguments.mailbox_count;
                // AcqRel: hands the block's content over, and takes the other's.
                let found = arguments.mailbox(which, index).swap(block as u64, Ordering::AcqRel);
                open(heap, found, &mut counts);
            }
            counts.report(arguments.tally);
        }
    }
}

kernel! {
    /// All threads together check and free what is left in the mailboxes of all heaps.
    pub struct Drain = "scatterheap_kernel_drain";
    fn body(arguments: &SoakArguments) {
        let mut counts = Counts::default();
        let mut index = u64::from(thread::index_1d());
        // SAFETY: as in `Soak`.
        unsafe {
            while index < arguments.heap_count * arguments.mailbox_count {
                let which = index / arguments.mailbox_count;
                let mailbox = arguments.mailbox(which, index % arguments.mailbox_count);
                let found = mailbox.swap(0, Ordering::AcqRel);
                open(arguments.heap(which), found, &mut counts);
                index += u64::from(thread::grid_threads());
            }
            counts.report(arguments.tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_mean_and_the_bounds() {
        let count = 200_000;
        let sizes = (0..count).map(|owner| size(mix(owner)));
        let (least, most, sum) = sizes.fold((u64::MAX, 0, 0), |(least, most, sum), bytes| {
            (least.min(bytes), most.max(bytes), sum + bytes)
        });
        assert!((LETTERHEAD..20).contains(&least) && most < MOST && most > MOST - MOST / 16);
        assert!(
            (sum / count).abs_diff(MEAN) < MEAN / 20,
            "{} is not {MEAN}",
            sum / count
        );
    }
}
