//! Misuse on purpose, among good calls: every thread holds blocks that it verifies, and passes
//! each kind of bad pointer once.
//!
//! Good and bad calls come in another order in every thread of a warp. Pointers to slots that are not
//! handed out are of the smallest class, of which no thread allocates here, and pointers into pages
//! that are in no use are passed in a launch that only frees: else they could be someone's block by
//! the time that they are passed.

use crate::blocks::Block;
use crate::churn::RoundsArguments;
use crate::pattern;
use crate::tally::{Count, Counts};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use heap::misuse::Misuse;
use simt::{kernel, thread};

/// Blocks that a thread holds: with the same number of frees ten good calls for each bad one of
/// a kind.
pub const HELD: u64 = 5;

/// Kinds of bad pointers, one for each block that a thread holds.
pub const KINDS: [Misuse; HELD as usize] = [
    Misuse::Foreign,
    Misuse::Interior,
    Misuse::NotAllocated,
    Misuse::Retired,
    Misuse::Stale,
];

/// Addresses on the device, of which each thread takes one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Addresses {
    /// Where they are: `count` of 8 bytes.
    pub array: u64,
    /// How many there are.
    pub count: u64,
}

impl Addresses {
    /// The address for a thread.
    ///
    /// # Safety
    ///
    /// The array must be as the fields say, and not empty.
    unsafe fn of(self, thread: u64) -> u64 {
        // SAFETY: as the caller promises.
        unsafe { *(self.array as *const u64).add((thread % self.count) as usize) }
    }
}

/// Arguments of the kernels of this module.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct MisuseArguments {
    /// The heap, its tally and its table of [`HELD`] blocks for each thread.
    pub rounds: RoundsArguments,
    /// The same heap by a handle from before its last reset.
    pub stale: Heap,
    /// Addresses that are not the heap's.
    pub foreign: Addresses,
    /// Slots of 16 bytes that are not handed out, in pages that stay what they are.
    pub free_slots: Addresses,
    /// Blocks of 16 bytes that stay.
    pub anchors: Addresses,
    /// Addresses in pages that are in no slab and no run. If there are none, no thread passes a pointer of that kind.
    pub retired: Addresses,
}

impl MisuseArguments {
    /// Passes a pointer of a kind, to `free` or to `realloc`, beside a block that the thread holds.
    ///
    /// # Safety
    ///
    /// The arguments must be as they say, and `block` the thread's or 0.
    unsafe fn misuse(&self, kind: Misuse, thread: u64, block: u64, counts: &mut Counts) {
        let heap = &self.rounds.heap;
        // SAFETY: as the caller promises.
        unsafe {
            let block = if block == 0 {
                self.anchors.of(thread)
            } else {
                block
            };
            let (heap, address) = match kind {
                Misuse::Foreign => (heap, self.foreign.of(thread)),
                Misuse::Interior => (heap, block + 1 + thread % 15),
                Misuse::NotAllocated => (heap, self.free_slots.of(thread)),
                Misuse::Retired => (heap, self.retired.of(thread)),
                _ => (&self.stale, block),
            };
            if thread & 1 == 0 {
                heap.free(address as *mut u8);
            } else {
                let given = heap.realloc(address as *mut u8, 100);
                // Whatever it is, nobody asked for it.
                counts.add(Count::OutOfBounds, u64::from(!given.is_null()));
            }
        }
    }

    /// Passes a pointer of the kind that a thread's step `step` is for, if it is this launch's turn:
    /// half of the threads do it while all allocate, the others while all free.
    ///
    /// # Safety
    ///
    /// As for [`misuse`](Self::misuse).
    unsafe fn step(&self, frees: bool, step: u64, thread: u64, block: u64, counts: &mut Counts) {
        let kind = KINDS[((step + thread) % HELD) as usize];
        let late = thread >> 1 & 1 == 1 || kind == Misuse::Retired;
        let is_there = kind != Misuse::Retired || self.retired.count > 0;
        if late == frees && is_there {
            // SAFETY: as the caller promises.
            unsafe { self.misuse(kind, thread, block, counts) };
        }
    }
}

kernel! {
    /// Every thread allocates and fills its blocks.
    pub struct MisuseAmongMallocs = "scatterheap_kernel_misuse_among_mallocs";
    fn body(arguments: &MisuseArguments) {
        let thread = u64::from(thread::index_1d());
        let rounds = &arguments.rounds;
        if thread >= rounds.count {
            return;
        }
        let mut counts = Counts::default();
        let heap = &rounds.heap;
        for step in 0..HELD {
            // SAFETY: the host gave arguments as they say.
            unsafe {
                let (held, owner) = rounds.held(thread, step);
                let bytes = rounds.sizes.of(thread, step);
                let block = heap.malloc(bytes);
                *held = Block { address: block as u64, bytes };
                if counts.allocated(heap, block, bytes) {
                    pattern::fill(block, bytes, owner);
                }
                arguments.step(false, step, thread, block as u64, &mut counts);
            }
        }
        // SAFETY: as above.
        unsafe { counts.report(rounds.tally) };
    }
}

kernel! {
    /// Every thread checks and frees its blocks.
    pub struct MisuseAmongFrees = "scatterheap_kernel_misuse_among_frees";
    fn body(arguments: &MisuseArguments) {
        let thread = u64::from(thread::index_1d());
        let rounds = &arguments.rounds;
        if thread >= rounds.count {
            return;
        }
        let mut counts = Counts::default();
        for step in 0..HELD {
            // SAFETY: the host gave arguments as they say; the blocks are this thread's.
            unsafe {
                let (held, owner) = rounds.held(thread, (step + thread) % HELD);
                arguments.step(true, step, thread, held.address, &mut counts);
                held.check_and_free(&rounds.heap, owner, &mut counts);
            }
        }
        // SAFETY: as above.
        unsafe { counts.report(rounds.tally) };
    }
}
