//! Pointers that `free` and `realloc` refuse, and handles that have had their day: told apart by
//! kind, counted, and the first addresses of each kind kept.
//!
//! Nothing here costs a good call anything. What tells the kinds apart is read only when the fast
//! path has found that something is wrong; then nothing has changed yet, and nothing does.
//!
//! # What is promised
//!
//! A call whose pointer is of one kind for as long as the call takes is counted once, as that kind,
//! and changes nothing else. Where others change what the pointer is meanwhile:
//!
//! - Two free the same block, be they lanes of one warp, and its slab is given up: one of them frees it, the other is refused,
//!   as [`NotAllocated`](Misuse::NotAllocated) or [`Retired`](Misuse::Retired), or as what the pointer is if its pages are used for something
//!   else by then.
//! - And the slot is handed out again, to anyone who asks for its class: as above, or the second
//!   call frees the new block. A pointer does not tell which of several successive blocks it was
//!   given for; a quarantine makes it unlikely that the slot is handed out by then.
//! - And the slab's pages become a slab of *another* class, of which the same bit is handed out, all
//!   of it between the second call's look at the page and its atomic on the bitmap: then the new block is
//!   freed by the accounts of the old slab, which `check` finds later. Nothing short of a second look at the
//!   page in every good `free` would see it. A hardened heap refuses the second call before it
//!   comes to the bitmap.
//!
//! The first two are explored in `heap/tests/protocols.rs` (`double_free_…`).

use crate::class;
use crate::entry::{Entry, Kind};
use crate::hardened::Hardening;
use crate::heap::{Core, Mark};
use crate::page_set::WORD_PAGES;
use simt::atomic::Ordering;
use simt::thread;

/// How the allocator was misused.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "inspect", derive(serde::Serialize))]
#[cfg_attr(feature = "inspect", serde(rename_all = "kebab-case"))]
pub enum Misuse {
    /// The pointer is not into this heap's pages: it is another heap's, or no heap's.
    Foreign = 0,
    /// The pointer is into a slab or a run, where no block begins: inside a block, misaligned,
    /// inside a free slot, or in what is left over behind a slab's last slot.
    Interior = 1,
    /// The pointer is to a slot of a slab, and the slot is not handed out: freed before, or never
    /// handed out. Which of both is not known. If the slot was handed out again since it was freed,
    /// the pointer is a good one to a block of someone else, and is not refused.
    NotAllocated = 2,
    /// The pointer is into pages that are in no slab and in no run: what was there was given up
    /// when its last block was freed, or nothing ever was. If a new slab or run is there by now,
    /// it is one of the kinds above, or a good pointer to a block of someone else.
    Retired = 3,
    /// The heap was used through a handle from before its last `reset`. Every `free` and `realloc`
    /// of a pointer into the heap's pages is noticed. `malloc` and its like are noticed, counted
    /// without an address and answered with NULL whenever they do more than to take units that
    /// their stripe has at hand: the first of each class and stripe after the reset, all runs, and
    /// whatever refills. Otherwise they give a good block, which only a new handle can free. A
    /// pointer from before the reset in a call through a new handle is not of this kind, because
    /// pointers do not tell their age. Handles know the number of resets modulo 256.
    Stale = 4,
    /// Hardened heaps: what lies before the bytes asked for was written to; told when the block was freed
    /// or resized, which it was.
    Underrun = 5,
    /// With [`Hardening::RED_ZONES`]: what lies behind the bytes asked for was written to; told when
    /// the block was freed or resized, which it was.
    Overrun = 6,
    /// With [`Hardening::POISON`]: memory was written to after it was freed, or before it was handed
    /// out. Told when it was handed out, as the block at the address, which it was.
    UseAfterFree = 7,
    /// Hardened heaps: a block that was freed before, as its header tells. Once its slot was handed out
    /// again, or its pages were given up, the header does not tell any more.
    DoubleFree = 8,
    /// Hardened heaps: a slot that is not handed out, and has no header of a freed block. Here this and
    /// [`DoubleFree`](Self::DoubleFree) take the place of [`NotAllocated`](Self::NotAllocated).
    NeverAllocated = 9,
}

/// Number of [`Misuse`] kinds.
pub const MISUSES: usize = 10;

/// Addresses that are kept of each kind: the first.
pub const KEPT_ADDRESSES: usize = 8;

impl Misuse {
    /// All kinds.
    pub const ALL: [Self; MISUSES] = [
        Self::Foreign,
        Self::Interior,
        Self::NotAllocated,
        Self::Retired,
        Self::Stale,
        Self::Underrun,
        Self::Overrun,
        Self::UseAfterFree,
        Self::DoubleFree,
        Self::NeverAllocated,
    ];

    /// The name of the kind, such as `not-allocated`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Interior => "interior",
            Self::NotAllocated => "not-allocated",
            Self::Retired => "retired",
            Self::Stale => "stale",
            Self::Underrun => "underrun",
            Self::Overrun => "overrun",
            Self::UseAfterFree => "use-after-free",
            Self::DoubleFree => "double-free",
            Self::NeverAllocated => "never-allocated",
        }
    }
}

impl Core {
    /// Counts one misuse; 0 is no address. Ends the kernel if the heap is to.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_misuse(&self, misuse: Misuse, address: u64) {
        if misuse != Misuse::Foreign && self.is_entry_damaged(address) {
            return self.report_damage(self.layout().class_count);
        }
        let globals = self.globals();
        let kind = misuse as usize;
        // Relaxed, both: diagnostics, read when the device is idle.
        let before = globals.misuses[kind].fetch_add(1, Ordering::Relaxed);
        if before < KEPT_ADDRESSES as u64 {
            #[allow(clippy::cast_possible_truncation, reason = "just compared")]
            globals.misused[kind][before as usize].store(address, Ordering::Relaxed);
        }
        if Hardening::of_flags(self.flags).contains(Hardening::TRAP) {
            thread::trap();
        }
    }

    /// Counts a pointer, passed through a handle of `mark`, that is no block.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse(&self, mark: Mark, address: u64) {
        self.report_misuse(self.misuse_of(mark, address), address);
    }

    /// The rest of a free of the slots `bits` of a word of the bitmap, of which only `taken` were handed out: counts the others, before it gives
    /// back what keeps the slab. The slot at
    /// `address`, in the slab of `entry` that begins at page `head`, has the bit `bit` of the same word. (The addresses are those of the slots.
    /// Lanes whose entries were not the same, because one is damaged or the slab changed, may have passed others.)
    #[cold]
    #[inline(never)]
    pub(crate) fn free_some(
        &self,
        head: u32,
        entry: Entry,
        taken: u32,
        bits: u32,
        bit: u32,
        address: u64,
    ) {
        // Where the entry is damaged, nobody knows where the others are.
        let step = if self.is_entry_damaged(address) {
            0
        } else {
            u64::from(class::slot_bytes(entry.class()))
        };
        let first = address.wrapping_sub(u64::from(bit.trailing_zeros()) * step);
        let mut refused = bits & !taken;
        while refused != 0 {
            let number = u64::from(refused.trailing_zeros());
            self.refuse(self.mark(), first.wrapping_add(number * step));
            refused &= refused - 1;
        }
        if taken != 0 {
            self.release_slots(head, entry, taken.count_ones());
        }
    }

    /// `free` where the fast path found no slot.
    #[cold]
    #[inline(never)]
    pub(crate) fn free_rarer(&self, mark: Mark, address: u64) {
        if self.flags == 0 {
            self.free_no_slot(mark, address);
        } else if address != 0 {
            self.hardened_free(address, mark);
        }
    }

    /// Frees a run, without regard to modes, or says why a pointer at which no slot begins is no block. NULL is nothing to free.
    #[cold]
    #[inline(never)]
    pub(crate) fn free_no_slot(&self, mark: Mark, address: u64) {
        match self.look_up(address) {
            Some((page, entry)) if mark == self.mark() && entry.kind() == Kind::Run => {
                self.free_run(page, entry, address);
            }
            None if address == 0 => {}
            _ => self.refuse(mark, address),
        }
    }

    fn misuse_of(&self, mark: Mark, address: u64) -> Misuse {
        let Some((page, entry)) = self.look_up(address) else {
            return Misuse::Foreign;
        };
        if mark != self.mark() {
            return Misuse::Stale;
        }
        match entry.kind() {
            Kind::Slab => self.misuse_in_slab(page, entry, address),
            Kind::Run if self.page_address(page) != address => Misuse::Interior,
            Kind::Blank if self.run_of(page).is_some() => Misuse::Interior,
            // A run that begins here was not there when the caller looked.
            Kind::Run | Kind::Blank => Misuse::Retired,
        }
    }

    fn misuse_in_slab(&self, page: u32, entry: Entry, address: u64) -> Misuse {
        let slot = entry.slot_at(self.offset_in_slab(entry.head(page), address));
        match slot {
            Some(slot) if slot < entry.slots(u32::from(self.page_shift)) => Misuse::NotAllocated,
            _ => Misuse::Interior,
        }
    }

    /// First page and length of the run that a page is one of, if it is. Takes as long as the run has
    /// pages before.
    pub(crate) fn run_of(&self, page: u32) -> Option<(u32, u32)> {
        let free = self.free_pages();
        let mut head = page;
        loop {
            // Relaxed, both: of a run that is there for the whole time, neither changes; if it is
            // not, either answer was right at some moment.
            let word = free.word(head / WORD_PAGES).load(Ordering::Relaxed);
            if word >> (head % WORD_PAGES) & 1 != 0 {
                return None;
            }
            let entry = Entry(self.entry(head).load(Ordering::Relaxed));
            match entry.kind() {
                Kind::Run if page - head < entry.run_pages() => {
                    return Some((head, entry.run_pages()));
                }
                Kind::Run | Kind::Slab => return None,
                Kind::Blank if head == 0 => return None,
                Kind::Blank => head -= 1,
            }
        }
    }
}
