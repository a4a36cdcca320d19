//! Freed blocks wait in a ring until as many others were freed, so that a pointer to them is known
//! to be one to a freed block for longer.
//!
//! The ring is an array of addresses in the device's memory. A thread that frees a block takes the
//! next place, round and round, and gives back what it found there. Before NULL is given, whatever is in
//! the ring is given back, and searched for again. Who finds the ring empty must know whether
//! another has just taken something out of it and is about to give it back: so each of those is
//! counted when it begins and when it is done. Who then has to wait only looks at the counts, as said in [`crate::nap`]: the other may be a lane
//! of its own warp.

use super::Hardening;
use crate::heap::{Core, Heap};
use crate::initialise::Share;
use crate::nap::nap;
use simt::atomic::{DeviceAtomicU64, Ordering};
use simt::time;

/// Nanoseconds between the first two looks while blocks are on their way out of the ring.
const NAP: u32 = 200;
/// Looks after which who waits for blocks on their way searches again: never, since each that arrives is counted. (Under exploration at once: a look is
/// not worth a schedule.)
const LOOKS: u32 = if cfg!(any(loom, shuttle)) {
    1
} else {
    u32::MAX
};

impl Heap {
    /// Gives back one thread's share of what is in the quarantine.
    pub fn drain_quarantine(&self, share: Share) {
        self.core().drain_quarantine(share);
    }
}

impl Core {
    fn place(&self, index: u64) -> &DeviceAtomicU64 {
        #[allow(clippy::cast_possible_truncation, reason = "places are fewer")]
        let place = (index & (self.quarantine_places() - 1)) as u32;
        // SAFETY: the ring has that many places, a power of two, and lives as long as the heap.
        unsafe { self.quarantine_ring().get(place) }
    }

    /// Puts a block that the caller freed into the ring, and gives back what has been there longest.
    pub(super) fn quarantine(&self, slot: u64) {
        // Relaxed: any place will do.
        let index = self.globals().quarantined.fetch_add(1, Ordering::Relaxed);
        self.replace(index, slot);
    }

    /// Puts a block, or nothing, into a place, and gives back what was there.
    fn replace(&self, index: u64, slot: u64) {
        let globals = self.globals();
        // Relaxed: who finds the place empty acquires what the exchange below releases.
        globals.drains_begun.fetch_add(1, Ordering::Relaxed);
        // AcqRel: what was done to a block comes before it is given back by another.
        let old = self.place(index).swap(slot, Ordering::AcqRel);
        if old != 0 {
            self.give_back(old);
        }
        // Release: who reads this finds what was given back, and knows that it was begun: it does not count it in the
        // place of another that is on its way.
        globals.drains_done.fetch_add(1, Ordering::Release);
    }

    /// Takes what is in a place out, and gives it back.
    fn drain(&self, index: u64) {
        // Acquire: who took out what this does not see any more had counted that it begins.
        if self.place(index).load(Ordering::Acquire) != 0 {
            self.replace(index, 0);
        }
    }

    fn drain_quarantine(&self, share: Share) {
        let mut index = u64::from(share.index);
        while index < self.quarantine_places() {
            time::give_turn();
            self.drain(index);
            index += u64::from(share.count);
        }
    }

    /// A slot or run of at least `bytes` bytes, for which the ring is drained if need be.
    pub(super) fn plain_or_drained(&self, bytes: u64, alignment: u64) -> *mut u8 {
        let drains = self.modes().contains(Hardening::QUARANTINE) && bytes <= self.capacity;
        let mut vain = 0;
        loop {
            let done = self.drains_done();
            let block = self.malloc_plain(self.mark(), bytes, alignment.max(16));
            if !block.is_null() || !drains {
                return block;
            }
            self.drain_quarantine(Share { index: 0, count: 1 });
            // Relaxed: whose exchange emptied a place, its begin is seen since `drain` looked there.
            let begun = self.globals().drains_begun.load(Ordering::Relaxed);
            if begun == done {
                return block;
            }
            if !self.await_drains(begun, &mut vain) {
                // The counts are damaged.
                self.report_damage(self.layout().class_count);
                return block;
            }
        }
    }

    /// How many exchanges are done: what these gave back is found by a search that follows.
    pub(crate) fn drains_done(&self) -> u64 {
        // Acquire: pairs with `replace`.
        self.globals().drains_done.load(Ordering::Acquire)
    }

    /// Waits until as many exchanges are done as had begun; false if the caller, who has looked `vain` times in vain, must
    /// conclude that it would wait for ever. Who has begun one waits for nobody but mates that give something back too.
    fn await_drains(&self, begun: u64, vain: &mut u32) -> bool {
        for look in 0..LOOKS {
            // Also if it need not wait: of damaged counts there may be more done than begun.
            *vain += 1;
            if self.gives_up(self.layout().class_count, *vain) {
                return false;
            }
            // Relaxed: who goes on searches, and reads it once more.
            let done = self.globals().drains_done.load(Ordering::Relaxed);
            if begun.wrapping_sub(done).cast_signed() <= 0 {
                break;
            }
            nap(NAP, look);
        }
        true
    }
}
