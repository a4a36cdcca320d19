//! Doubts: whether a slab was on its way to its class's set while all places were searched in vain.
//!
//! Whose free is the first of a full slab lists it, and may be interrupted before. What others free in the slab meanwhile is found by
//! nobody. They would have to list the slab too, or to wait; instead each *raises a doubt*, a count, and goes on. Who is about to give
//! NULL looks at the slabs themselves if a doubt was raised since somebody did that and found all of them in their places. So
//! the price is paid where memory has run out, once after each time that such frees have met.
//!
//! Invariant: a free that found its slab away, not full and in no stripe has raised a doubt before it returns. (A slab that a stripe
//! has is found by the stripe, or is counted as on its way there.)

use crate::entry::{Entry, Kind};
use crate::heap::Core;
use crate::page_set::WORD_PAGES;
use crate::slab::{INSTALLED, PUNCHED, USE, times_away};
use simt::atomic::{DeviceAtomicU64, Ordering, fence};
use simt::{thread, time};

/// Counts that the multiprocessors share: the doubts of all would collide in one.
const SHARES: usize = if cfg!(any(loom, shuttle)) { 2 } else { 32 };
/// Pages that are looked at at once: one wait for the memory.
const AT_ONCE: u32 = 4;

/// How many doubts were raised, and how many of them were dispelled.
#[repr(C, align(128))]
pub struct Doubts {
    dispelled: DeviceAtomicU64,
    raised: [Share; SHARES],
}

/// A count, alone on its sector of 32 bytes.
#[repr(C, align(32))]
struct Share {
    count: DeviceAtomicU64,
}

impl Doubts {
    /// No doubts.
    #[must_use]
    pub fn none() -> Self {
        Self {
            dispelled: DeviceAtomicU64::new(0),
            raised: core::array::from_fn(|_| Share {
                count: DeviceAtomicU64::new(0),
            }),
        }
    }

    /// Raises a doubt, in the share of multiprocessor `sm_id`.
    pub fn raise(&self, sm_id: u32) {
        // Release: pairs with the fence of `raised`. Who counts the doubt sees what raised it.
        self.raised[sm_id as usize % SHARES]
            .count
            .fetch_add(1, Ordering::Release);
    }

    /// How many doubts were raised, if not all of them were dispelled. What raised them is seen by who is told.
    #[must_use]
    pub fn raised(&self) -> Option<u64> {
        // Acquire: the counts that are read are at least those that were dispelled, each of them. Else two might differ and
        // have the same sum.
        let dispelled = self.dispelled.load(Ordering::Acquire);
        // Relaxed: the caller knows of the doubts that matter to it; of others the fence follows.
        let counts = (self.raised.iter()).map(|share| share.count.load(Ordering::Relaxed));
        let raised = counts.fold(0, u64::wrapping_add);
        if raised == dispelled {
            return None;
        }
        fence(Ordering::Acquire);
        Some(raised)
    }

    /// Dispels so many doubts as were raised before the caller looked at all slabs, and found them where they are to be found.
    pub fn dispel(&self, raised: u64) {
        // Acquire: the caller has seen what brought the slabs there. Release: so has who then finds no doubts.
        fence(Ordering::AcqRel);
        self.dispelled.store(raised, Ordering::Relaxed);
    }
}

/// What a page tells of a slab that begins at it.
#[derive(Clone, Copy)]
struct Seen {
    word: u32,
    entry: Entry,
}

impl Seen {
    /// What the pages tell that do not exist.
    const NOTHING: Self = Self {
        word: 0,
        entry: Entry::BLANK,
    };
}

impl Core {
    /// Says that a slot is free in a slab that was away.
    pub(crate) fn raise_doubt(&self) {
        self.globals().doubts.raise(thread::sm_id());
    }

    /// Whether a slab of a class, or of a larger one, is on its way to its class's set. If none of any class is, the doubts are
    /// dispelled of which `raised` were raised before.
    pub(crate) fn are_slabs_on_their_way(&self, class: u32, raised: u64) -> bool {
        let (mut on_their_way, mut usable) = (0, 0);
        // Also of pages that another thread is about to admit: they may be in use already.
        let end = self.pages_with_memory();
        let mut first = 0;
        while first < end {
            time::give_turn();
            let seen = self.look_at_pages(first, end);
            for (page, seen) in (first..).zip(seen) {
                if self.is_on_its_way(page, seen) {
                    on_their_way += 1;
                    // Without use it becomes pages, which serve any class.
                    usable += u32::from(seen.entry.class() >= class || seen.word & USE == 0);
                }
            }
            first = self.end_at(first, seen[0]).max(first + AT_ONCE);
        }
        if on_their_way == 0 {
            self.globals().doubts.dispel(raised);
        }
        usable != 0
    }

    /// What several pages from one on tell, and nothing for those from `end` on.
    #[inline(always)]
    fn look_at_pages(&self, first: u32, end: u32) -> [Seen; AT_ONCE as usize] {
        let look = |ahead| {
            let page = first + ahead;
            if page < end {
                // Relaxed: there was a fence in `Doubts::raised`, and one comes in `dispel` or after the caller's search.
                Seen {
                    word: self.usage(page).load(Ordering::Relaxed),
                    entry: Entry(self.entry(page).load(Ordering::Relaxed)),
                }
            } else {
                Seen::NOTHING
            }
        };
        [look(0), look(1), look(2), look(3)]
    }

    /// The page behind the slab that a page is of; or behind the page where it is of none, or of one that is punched, between whose pages others may lie.
    fn end_at(&self, page: u32, seen: Seen) -> u32 {
        let (head, pages) = (seen.entry.head(page), 1 << seen.entry.order());
        let is_slab = seen.entry.kind() == Kind::Slab && head + pages <= self.layout().page_count;
        if !is_slab {
            return page + 1;
        }
        let word = if head == page {
            seen.word
        } else {
            // Relaxed: as in `look_at_pages`. What is being punched, and not marked yet, is on its way itself: what lies between its pages does not matter.
            self.usage(head).load(Ordering::Relaxed)
        };
        if word & PUNCHED == 0 {
            head + pages
        } else {
            page + 1
        }
    }

    /// Whether a slab that begins at a page is not yet where it is to be found, or was not a moment ago.
    fn is_on_its_way(&self, page: u32, seen: Seen) -> bool {
        let (entry, times) = (seen.entry, times_away(seen.word));
        let is_slab = entry.kind() == Kind::Slab && entry.class() < self.layout().class_count;
        if times == 0 || !is_slab {
            return false;
        }
        // A full slab in no stripe is away once, and rests.
        let is_full = seen.word & USE >= entry.slots(u32::from(self.page_shift));
        if times == 1 && seen.word & INSTALLED == 0 && is_full {
            return false;
        }
        // In its set it is found. Who put it there announced it before, see `Core::list`.
        let word = self.listed(entry.class()).look(page / WORD_PAGES);
        word >> (page % WORD_PAGES) & 1 == 0
    }
}
