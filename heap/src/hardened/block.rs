//! The malloc family of a heap with modes.

use super::fill::{copy, fill, is_poison};
use super::frame::Framed;
use super::header::BYTES;
use super::{Hardening, POISON};
use crate::entry::Kind;
use crate::heap::{COUNT_BYTES, Core, Heap, Mark};
use crate::initialise::Share;
use crate::misuse::Misuse;
use core::ptr;

impl Core {
    /// `malloc`, `calloc` (`zero`) and `aligned_alloc` through a handle of `mark`.
    #[cold]
    #[inline(never)]
    pub(crate) fn hardened_malloc(
        &self,
        mark: Mark,
        bytes: u64,
        alignment: u64,
        site: u32,
        zero: bool,
    ) -> *mut u8 {
        if bytes == 0 {
            return ptr::null_mut();
        }
        if mark != self.mark() {
            self.report_misuse(Misuse::Stale, 0);
            return ptr::null_mut();
        }
        let modes = self.modes();
        let distance = if modes.is_framed() {
            alignment.max(BYTES)
        } else {
            0
        };
        let gross = bytes.saturating_add(distance).saturating_add(modes.tail());
        let slot = self.plain_or_drained(gross, alignment) as u64;
        if slot == 0 {
            return ptr::null_mut();
        }
        if self.flags & COUNT_BYTES != 0 {
            self.count_served(slot, bytes);
        }
        let user = slot + distance;
        if modes.is_framed() {
            self.furnish(slot, user, bytes, site);
        }
        if zero || modes.contains(Hardening::ZERO) {
            // SAFETY: the block has that many bytes and is this thread's alone.
            unsafe { fill(user, user + bytes, 0) };
            self.clear_beyond(slot, bytes);
        }
        user as *mut u8
    }

    /// Makes what a plain block has beyond the bytes asked for zero, if blocks are: `realloc` may add it, and nobody knows how many were asked for.
    fn clear_beyond(&self, slot: u64, bytes: u64) {
        let modes = self.modes();
        if modes.contains(Hardening::ZERO) && !modes.is_framed() {
            let end = slot + self.plain_usable_size(slot);
            // SAFETY: the block is the caller's, and of this heap.
            unsafe { fill((slot + bytes).min(end), end, 0) };
        }
    }

    /// Makes a slot or run that was handed out a framed block.
    fn furnish(&self, slot: u64, user: u64, bytes: u64, site: u32) {
        let (modes, room) = (self.modes(), self.plain_usable_size(slot));
        // SAFETY: the slot is the caller's, and of this heap.
        let intact = !modes.contains(Hardening::POISON)
            || unsafe { is_poison(slot + BYTES, slot + room, self.generation()) };
        let site = if modes.contains(Hardening::TAGS) {
            site
        } else {
            0
        };
        self.frame(slot, room, user, bytes, site);
        if !intact {
            self.report_misuse(Misuse::UseAfterFree, user);
        }
    }

    /// Counts a request that was served by the slot or run at `slot`.
    fn count_served(&self, slot: u64, bytes: u64) {
        let counters = match self.look_up(slot) {
            Some((_, entry)) if entry.kind() == Kind::Slab => self.counters(entry.class()),
            _ => self.run_counters(),
        };
        counters.count_served(bytes);
    }

    /// Gives a slot or run back.
    #[inline(never)]
    pub(super) fn give_back(&self, slot: u64) {
        // SAFETY: only the thread that turned its seal, or took it out of the quarantine, comes here
        // with it.
        unsafe { self.plain_free(slot) };
    }

    /// `free` through a handle of `mark`.
    #[cold]
    #[inline(never)]
    pub(crate) fn hardened_free(&self, address: u64, mark: Mark) {
        if !self.modes().is_framed() {
            if mark == self.mark() {
                // SAFETY: as the caller of `free` promises.
                unsafe { self.plain_free(address) };
            } else {
                self.refuse(mark, address);
            }
            return;
        }
        let block = match self.find(mark, address) {
            Ok(block) => block,
            Err(misuse) => return self.report_misuse(misuse, address),
        };
        if self.seal_freed(&block) {
            self.verify_frame(&block);
            self.bury(&block);
        } else {
            self.report_misuse(Misuse::DoubleFree, address);
        }
    }

    /// Does with a block that was freed what the modes say.
    fn bury(&self, block: &Framed) {
        let modes = self.modes();
        if modes.contains(Hardening::POISON) {
            // SAFETY: the block is the caller's, who turned its seal.
            unsafe { fill(block.slot + BYTES, block.end(), POISON) };
        }
        if modes.contains(Hardening::QUARANTINE) {
            self.quarantine(block.slot);
        } else {
            self.give_back(block.slot);
        }
    }

    /// `usable_size` through a handle of `mark`: of a framed block the bytes asked for.
    #[cold]
    #[inline(never)]
    pub(crate) fn hardened_usable_size(&self, mark: Mark, address: u64) -> u64 {
        if self.modes().is_framed() {
            let block = self.find(mark, address);
            return block.map_or(0, |block| block.bytes(self.modes()));
        }
        if mark == self.mark() {
            self.plain_usable_size(address)
        } else {
            0
        }
    }

    /// `realloc` of a block through a handle of `mark`.
    #[cold]
    #[inline(never)]
    pub(crate) fn hardened_realloc(&self, address: u64, bytes: u64, mark: Mark) -> *mut u8 {
        if bytes == 0 {
            self.hardened_free(address, mark);
            return ptr::null_mut();
        }
        if !self.modes().is_framed() {
            return self.resize_plain(mark, address, bytes);
        }
        match self.find(mark, address) {
            Ok(block) => self.resize_framed(&block, bytes),
            Err(misuse) => {
                self.report_misuse(misuse, address);
                ptr::null_mut()
            }
        }
    }

    fn resize_plain(&self, mark: Mark, address: u64, bytes: u64) -> *mut u8 {
        let usable = self.hardened_usable_size(mark, address);
        if usable == 0 {
            self.refuse(mark, address);
            return ptr::null_mut();
        }
        let stay = || {
            self.clear_beyond(address, bytes);
            address as *mut u8
        };
        if bytes <= usable && usable - bytes <= usable / 2 {
            return stay();
        }
        let new = self.hardened_malloc(mark, bytes, 1, 0, false);
        if new.is_null() {
            return if bytes <= usable { stay() } else { new };
        }
        // SAFETY: both have that many bytes; the old block dies here, as the caller promises.
        unsafe {
            copy(address, new as u64, bytes.min(usable));
            self.plain_free(address);
        }
        new
    }

    fn resize_framed(&self, block: &Framed, bytes: u64) -> *mut u8 {
        let modes = self.modes();
        // Before anything of it is written over.
        self.verify_frame(block);
        let (most, old) = (block.most(modes), block.bytes(modes));
        let site = if block.damaged {
            0
        } else {
            block.header.site()
        };
        let stay = || {
            self.frame(block.slot, block.room, block.user, bytes, site);
            if modes.contains(Hardening::ZERO) && bytes > old {
                // SAFETY: the slot has room for as many bytes.
                unsafe { fill(block.user + old, block.user + bytes, 0) };
            }
            block.user as *mut u8
        };
        if bytes <= most && most - bytes <= most / 2 {
            return stay();
        }
        let new = self.hardened_malloc(self.mark(), bytes, 1, site, false);
        if new.is_null() {
            return if bytes <= most { stay() } else { new };
        }
        if !self.seal_freed(block) {
            // Another freed it meanwhile.
            self.report_misuse(Misuse::DoubleFree, block.user);
            self.hardened_free(new as u64, self.mark());
            return ptr::null_mut();
        }
        // SAFETY: both have that many bytes, and the old block is this thread's, who turned its seal.
        unsafe { copy(block.user, new as u64, old.min(bytes)) };
        self.bury(block);
        new
    }
}

impl Heap {
    /// Fills one thread's share of `count` pages from page `first` on with poison, as a heap with
    /// [`POISON`](Hardening::POISON) needs it of pages that it has not handed out yet.
    ///
    /// # Safety
    ///
    /// Nobody may use the pages meanwhile.
    pub unsafe fn poison_pages(&self, share: Share, first: u32, count: u32) {
        let begin = self.page_address(first);
        let end = begin + (u64::from(count) << self.page_shift);
        let mut at = begin + BYTES * u64::from(share.index);
        while at < end {
            // SAFETY: as the caller promises.
            unsafe { fill(at, at + BYTES, POISON) };
            at += BYTES * u64::from(share.count);
        }
    }
}
