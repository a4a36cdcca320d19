//! A cell: a tiny heap, and a journal of who was in it last.
//!
//! The journal has an entry for each granule of 16 bytes of the heap. A player notes there what it
//! leaves, and that it is the owner. All of that is relaxed and orders nothing: so when the heap's own
//! edges are there, coherence makes the next owner read the last owner's entry, and what it says must be
//! what plain loads find. Where an edge is missing, the entry and the content tell different stories.

use super::stamp::Stamp;
use super::tally::{LitmusCount, LitmusCounts};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::atomic::{DeviceAtomicU64, Ordering};

/// Bytes of a granule: blocks begin at multiples of it.
pub const GRANULE_BYTES: u64 = 16;

/// What the journal knows of a granule.
#[repr(C)]
pub struct Entry {
    /// The stamp that the last owner left; 0 at first.
    stamp: DeviceAtomicU64,
    /// 1 while a player owns it.
    owned: DeviceAtomicU64,
}

/// Cells in device memory: each is a heap's metadata, a journal and the heap's pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Cells {
    /// Address of the first; its heap's head is there.
    pub first: u64,
    /// Bytes from a cell to the next.
    pub bytes: u64,
    /// Offset of the journal in a cell.
    pub journal: u64,
    /// Of this many granules one is stamped and checked.
    pub step: u64,
}

impl Cells {
    /// The heap of a cell.
    ///
    /// # Safety
    ///
    /// `cell` must be below the number of cells, whose heads are written.
    #[must_use]
    pub unsafe fn heap<'a>(&self, cell: u64) -> &'a Heap {
        // SAFETY: as the caller promises.
        unsafe { Heap::at(self.first + cell * self.bytes) }
    }

    fn journal(&self, cell: u64) -> u64 {
        self.first + cell * self.bytes + self.journal
    }
}

/// A cell as a player uses it.
pub struct Cell {
    /// Its heap.
    pub heap: &'static Heap,
    journal: u64,
    step: u64,
    base: u64,
}

/// Who looks at what the last owners left in a block, and at which part.
pub struct Left {
    /// The launch that is played.
    pub launch: u64,
    /// Who looks.
    pub thread: u64,
    /// Bytes from the block's beginning that are not looked at, because they are no longer theirs.
    pub skip: u64,
}

impl Cell {
    /// A cell of several.
    ///
    /// # Safety
    ///
    /// As for [`Cells::heap`], for as long as the launch runs; the heap must be initialised.
    #[must_use]
    pub unsafe fn new(cells: &Cells, cell: u64) -> Self {
        // SAFETY: as the caller promises.
        let heap = unsafe { cells.heap(cell) };
        Self {
            heap,
            journal: cells.journal(cell),
            step: cells.step,
            base: heap.base(),
        }
    }

    /// Calls `act` with each granule of a block that is stamped, and its entry.
    ///
    /// # Safety
    ///
    /// The block must lie in the heap.
    #[inline(always)]
    unsafe fn for_each_granule(
        &self,
        block: *mut u8,
        bytes: u64,
        mut act: impl FnMut(*mut u64, &Entry),
    ) {
        let begin = (block as u64 - self.base) / GRANULE_BYTES;
        let end = begin + bytes / GRANULE_BYTES;
        let mut granule = begin.next_multiple_of(self.step);
        while granule < end {
            // SAFETY: the journal has an entry for each granule of the heap.
            let entry = unsafe { &*(self.journal as *const Entry).add(granule as usize) };
            act((self.base + granule * GRANULE_BYTES) as *mut u64, entry);
            granule += self.step;
        }
    }

    /// Makes the caller the owner of a block that it just got, and compares what it finds with what the last
    /// owners noted, there and, by the stamp, `elsewhere`. Gives the stamp that another thread of this launch
    /// left, if one did.
    ///
    /// # Safety
    ///
    /// The block must be the caller's, of `bytes` bytes.
    pub unsafe fn enter(
        &self,
        block: *mut u8,
        bytes: u64,
        left: &Left,
        elsewhere: impl Fn(Stamp) -> u64,
        counts: &mut LitmusCounts,
    ) -> u64 {
        let mut found = 0;
        let first = block as u64 + left.skip;
        // SAFETY: the block is the caller's.
        unsafe {
            self.for_each_granule(block, bytes, |content, entry| {
                // Relaxed: an owner who had left this before is ordered by the heap, or not at all.
                let owned = entry.owned.swap(1, Ordering::Relaxed);
                counts.add(LitmusCount::Shared, owned);
                let noted = entry.stamp.load(Ordering::Relaxed);
                let Some(stamp) = Stamp::of(noted).filter(|_| content as u64 >= first) else {
                    return;
                };
                let intact =
                    content.read() == stamp.word() && content.add(1).read() == stamp.companion();
                counts.add(LitmusCount::StaleBlock, u64::from(!intact));
                if stamp.launch() != left.launch {
                    return;
                }
                let elsewhere = elsewhere(stamp);
                counts.add(
                    LitmusCount::StaleElsewhere,
                    u64::from(elsewhere != stamp.word()),
                );
                if stamp.thread() != left.thread {
                    found = stamp.word();
                }
            });
        }
        found
    }

    /// Whether the first bytes of a block are stamped so.
    ///
    /// # Safety
    ///
    /// The block must be the caller's, of `bytes` bytes.
    pub unsafe fn is_stamped(&self, block: *mut u8, bytes: u64, stamp: Stamp) -> bool {
        let mut intact = true;
        // SAFETY: as the caller promises.
        unsafe {
            self.for_each_granule(block, bytes, |content, _| {
                intact &=
                    content.read() == stamp.word() && content.add(1).read() == stamp.companion();
            });
        }
        intact
    }

    /// Stamps a block, and notes that. If the player lies, one word is another.
    ///
    /// # Safety
    ///
    /// The block must be the caller's, of `bytes` bytes.
    pub unsafe fn stamp(&self, block: *mut u8, bytes: u64, stamp: Stamp, lie: bool) {
        // SAFETY: as the caller promises.
        unsafe {
            self.for_each_granule(block, bytes, |content, entry| {
                content.write(stamp.word());
                content.add(1).write(stamp.companion() ^ u64::from(lie));
                // Relaxed: it must not bring an order that the heap does not.
                entry.stamp.store(stamp.word(), Ordering::Relaxed);
            });
        }
    }

    /// Ends the ownership of a block that is freed next.
    ///
    /// # Safety
    ///
    /// The block must be the caller's, of `bytes` bytes.
    pub unsafe fn leave(&self, block: *mut u8, bytes: u64) {
        // SAFETY: as the caller promises.
        unsafe {
            // Relaxed: as in `enter`.
            self.for_each_granule(block, bytes, |_, entry| {
                entry.owned.store(0, Ordering::Relaxed);
            });
        }
    }
}
