//! Blocks that change hands: allocated by one thread, freed by another on another multiprocessor.
//!
//! Threads swap their blocks into mailboxes far away and take what lies there. A block says in
//! its first words who filled it and how large it is.

use crate::churn::RoundsArguments;
use crate::pattern;
use crate::sizes::mix;
use crate::tally::{Count, Counts};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::atomic::{DeviceAtomicU64, Ordering};
use simt::{kernel, thread};

/// Bytes of a block before its pattern: owner and size.
pub(crate) const LETTERHEAD: u64 = 16;

/// Arguments of [`Exchange`] and [`EmptyMailboxes`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ExchangeArguments {
    /// What each thread does. Sizes must be at least 16 bytes.
    pub rounds: RoundsArguments,
    /// Address of `count` mailboxes of 8 bytes, all zero at first.
    pub mailboxes: u64,
}

impl ExchangeArguments {
    /// # Safety
    ///
    /// `index` must be below the count of mailboxes.
    unsafe fn mailbox<'a>(&self, index: u64) -> &'a DeviceAtomicU64 {
        // SAFETY: as the caller promises.
        unsafe { &*(self.mailboxes as *const DeviceAtomicU64).add(index as usize) }
    }
}

/// Checks and frees a block from a mailbox.
///
/// # Safety
///
/// The block must have come from a mailbox with acquire.
pub(crate) unsafe fn open(heap: &Heap, block: u64, counts: &mut Counts) {
    if block == 0 {
        return;
    }
    let pointer = block as *mut u8;
    // SAFETY: its writer gave every block a letterhead and filled the rest.
    unsafe {
        let owner = pointer.cast::<u64>().read();
        let bytes = pointer.cast::<u64>().add(1).read();
        let plausible = bytes >= LETTERHEAD && bytes <= heap.usable_size(pointer);
        let intact = plausible
            && pattern::is_intact(pointer.add(LETTERHEAD as usize), bytes - LETTERHEAD, owner);
        counts.add(Count::Corrupt, u64::from(!intact));
        heap.free(pointer);
    }
    counts.add(Count::Operations, 1);
}

kernel! {
    /// Every thread writes a block a round, puts it into another's mailbox, and frees what it
    /// finds there.
    pub struct Exchange = "scatterheap_kernel_exchange";
    fn body(arguments: &ExchangeArguments) {
        let RoundsArguments { count, rounds, sizes, first_owner, .. } = arguments.rounds;
        let thread = u64::from(thread::index_1d());
        if thread >= count {
            return;
        }
        let mut counts = Counts::default();
        // SAFETY: the host gave a heap, mailboxes and a tally; a block is its taker's.
        unsafe {
            let heap = &arguments.rounds.heap;
            for round in 0..rounds {
                let bytes = sizes.of(thread, round);
                let block = heap.malloc(bytes);
                if !counts.allocated(heap, block, bytes) {
                    continue;
                }
                let owner = first_owner + thread * rounds + round;
                block.cast::<u64>().write(owner);
                block.cast::<u64>().add(1).write(bytes);
                pattern::fill(block.add(LETTERHEAD as usize), bytes - LETTERHEAD, owner);
                let mailbox = arguments.mailbox(mix(owner) % count);
                // AcqRel: hands the block's content over, and takes the other's.
                let found = mailbox.swap(block as u64, Ordering::AcqRel);
                open(heap, found, &mut counts);
            }
            counts.report(arguments.rounds.tally);
        }
    }
}

kernel! {
    /// Every thread frees what is left in its mailbox.
    pub struct EmptyMailboxes = "scatterheap_kernel_empty_mailboxes";
    fn body(arguments: &ExchangeArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.rounds.count {
            return;
        }
        let mut counts = Counts::default();
        // SAFETY: as in `Exchange`.
        unsafe {
            let found = arguments.mailbox(thread).swap(0, Ordering::AcqRel);
            open(&arguments.rounds.heap, found, &mut counts);
            counts.report(arguments.rounds.tally);
        }
    }
}
