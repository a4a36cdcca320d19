//! Growth: pages that the host adds while the heap lives, even while kernels allocate from it.
//!
//! A heap is laid out for the most that it may ever have, in a range of reserved addresses. Its
//! first pages have memory, and are *admitted*: free, or in use. When no memory is found, or
//! little is left, the device writes how many pages it wants into a *mailbox* in host memory; the
//! host maps memory behind the pages that follow, and answers there how many have memory now. The
//! first thread that reads the answer admits the new pages to the free set. Blocks never move.
//!
//! Invariants:
//!
//! - Admitted pages are the first of the heap, and all of them have memory. Only the holder of the
//!   *lease* reads the mailbox and raises their number; only [`Heap::retract`] lowers it, while no
//!   kernel uses the heap.
//! - Nobody waits for the holder: who does not get the lease does something else, or naps.
//! - Each wait ends: when pages come, when the host says that none will, or when the heap's patience is at its end.

use crate::heap::{Core, Heap};
use bytemuck::{Pod, Zeroable};
use simt::atomic::{Ordering, SystemAtomicU64};
use simt::time;

/// Nanoseconds between a waiting thread's first two looks; each nap is twice as long as the one
/// before.
const NAP: u32 = 1 << 10;
/// The longest nap.
const LONGEST_NAP: u32 = 1 << 17;

/// How a heap grows: constant, a part of its head.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Growth {
    /// Address of the heap's [`Mailbox`], as the device sees it; 0 if the heap never grows.
    pub mailbox: u64,
    /// Nanoseconds that a request waits for the host at most.
    pub patience: u64,
    /// Pages that have memory when the heap is made or reset.
    pub pages: u32,
    /// More is asked for ahead of need when less than this part of the pages is free: 4 is a
    /// quarter, 0 is never.
    pub low_water: u32,
}

impl Growth {
    /// A heap that has all of its `pages` pages for ever.
    #[must_use]
    pub fn none(pages: u32) -> Self {
        Self {
            mailbox: 0,
            patience: 0,
            pages,
            low_water: 0,
        }
    }
}

/// Where a heap and its host write to each other: in host memory that the device can reach.
#[repr(C)]
pub struct Mailbox {
    request: Line,
    answer: Line,
}

/// A word that one side writes, alone on its cache line.
#[repr(C, align(128))]
struct Line(SystemAtomicU64);

/// What the host answers: how many pages have memory, and whether more may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Pages that have memory.
    pub pages: u32,
    /// Whether no more will come: nobody should wait.
    pub closed: bool,
}

/// Flag beside the pages of an answer.
const CLOSED: u64 = 1 << 32;

impl Mailbox {
    /// A mailbox with an answer and no request.
    #[must_use]
    pub fn new(answer: Answer) -> Self {
        let mailbox = Self {
            request: Line(SystemAtomicU64::new(0)),
            answer: Line(SystemAtomicU64::new(0)),
        };
        mailbox.answer(answer);
        mailbox
    }

    /// Pages that the device wants the heap to have in all. Read by the host.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the device writes page counts"
    )]
    pub fn request(&self) -> u32 {
        self.request.0.load() as u32
    }

    /// Asks for `pages` pages in all, unless as many were asked for before. For the holder of the lease.
    fn raise_request(&self, pages: u32) {
        // Only a number: the host does nothing that relies on more than its value.
        if self.request() < pages {
            self.request.0.store(u64::from(pages));
        }
    }

    /// Forgets what was asked. For the host, while no kernel uses the heap.
    pub fn clear_request(&self) {
        self.request.0.store(0);
    }

    /// Answers. Written by the host, once the memory is there.
    pub fn answer(&self, answer: Answer) {
        let flag = if answer.closed { CLOSED } else { 0 };
        // Releases the mapping to the thread that admits the pages.
        self.answer.0.store(u64::from(answer.pages) | flag);
    }

    #[allow(clippy::cast_possible_truncation, reason = "the lower half")]
    fn read_answer(&self) -> Answer {
        let word = self.answer.0.load();
        Answer {
            pages: word as u32,
            closed: word & CLOSED != 0,
        }
    }
}

/// What asking the host came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Pages were admitted.
    Grown,
    /// No more will come.
    Closed,
    /// The host has not answered yet.
    Pending,
    /// Another thread is asking.
    Busy,
}

impl Core {
    /// Whether the heap can ever grow.
    pub(crate) fn is_growing(&self) -> bool {
        self.growth().mailbox != 0
    }

    /// Pages of the heap that have memory and can be used.
    pub(crate) fn admitted(&self) -> u32 {
        // Acquire: pairs with `admit`, so that a search that follows finds the pages.
        self.globals().shared.admitted.load(Ordering::Acquire)
    }

    /// Pages that can be used, as a hint.
    pub(crate) fn admitted_hint(&self) -> u32 {
        // Relaxed: a hint.
        self.globals().shared.admitted.load(Ordering::Relaxed)
    }

    /// Whether a search that found no place for `pages` pages should be repeated: because the heap
    /// grew since the search before, of which `searched` tells among how many pages it was.
    pub(crate) fn may_search_again(&self, searched: &mut Option<u32>, pages: u32) -> bool {
        if !self.is_growing() {
            return false;
        }
        // How many pages there were before the first search is not known: the second one counts.
        let again = searched.is_none_or(|seen| self.await_growth(seen, pages));
        *searched = Some(self.admitted());
        again
    }

    /// Asks for more memory after a search among `seen` admitted pages found no place for `pages`
    /// pages, and waits for it. True if there are more pages than `seen` now: search again.
    #[cold]
    #[inline(never)]
    pub(crate) fn await_growth(&self, seen: u32, pages: u32) -> bool {
        let start = time::now();
        let mut nap = NAP;
        let mut must_ask = self.want(seen, pages);
        loop {
            if self.admitted() > seen {
                return true;
            }
            match self.ask() {
                Outcome::Grown => return true,
                Outcome::Closed => return self.admitted() > seen,
                Outcome::Pending => must_ask = false,
                // Who has the lease may have read what is wanted before this thread raised it.
                Outcome::Busy => {}
            }
            let waited = time::now().wrapping_sub(start);
            if waited >= self.growth().patience && !must_ask {
                return self.admitted() > seen;
            }
            time::nanosleep(nap);
            nap = LONGEST_NAP.min(2 * nap);
        }
    }

    /// Asks for more memory if little is left, and admits what has come. Never waits.
    pub(crate) fn look_ahead(&self) {
        let share = self.growth().low_water;
        if share == 0 {
            return;
        }
        let (admitted, free) = (self.admitted(), self.free_pages().count());
        if free < admitted / share && admitted < self.layout().page_count {
            self.want(admitted, 1);
            self.ask();
        }
    }

    /// Wants `pages` pages more than `seen`. True if nobody wanted as many before.
    fn want(&self, seen: u32, pages: u32) -> bool {
        let wanted = seen.saturating_add(pages).min(self.layout().page_count);
        // Relaxed: a number that only tells the host how much to map.
        let shared = &self.globals().shared;
        shared.wanted.fetch_max(wanted, Ordering::Relaxed) < wanted
    }

    /// Tells the host what is wanted, and admits what it answers, unless another thread is at it.
    fn ask(&self) -> Outcome {
        let shared = &self.globals().shared;
        // Relaxed: a glance that spares most of many waiting threads the atomic that follows.
        let is_taken = shared.lease.load(Ordering::Relaxed) != 0;
        // Acquire: what the holder before admitted is seen.
        if is_taken || shared.lease.swap(1, Ordering::Acquire) != 0 {
            return Outcome::Busy;
        }
        // SAFETY: the mailbox of a heap that grows lives as long as the heap.
        let mailbox = unsafe { &*(self.growth().mailbox as *const Mailbox) };
        // Relaxed: only a number, see `want`.
        mailbox.raise_request(shared.wanted.load(Ordering::Relaxed));
        let answer = mailbox.read_answer();
        let pages = answer.pages.min(self.layout().page_count);
        // Relaxed: only the holder of the lease changes it.
        let admitted = shared.admitted.load(Ordering::Relaxed);
        let outcome = if pages > admitted {
            self.admit(admitted, pages);
            Outcome::Grown
        } else if answer.closed {
            Outcome::Closed
        } else {
            Outcome::Pending
        };
        // Release: pairs with the acquire of the next holder.
        shared.lease.store(0, Ordering::Release);
        outcome
    }

    /// Makes pages `from..to`, which have memory now, free pages.
    fn admit(&self, from: u32, to: u32) {
        self.give_run(from, to - from);
        // Relaxed: it comes after the fence of `give_run`, and so releases what came before that: who
        // acquires the number sees the pages counted, and searches until they are found.
        self.globals().shared.admitted.store(to, Ordering::Relaxed);
    }
}

impl Heap {
    /// Admits the pages that the host has mapped. For a kernel of one thread, before kernels that
    /// should find them; they would find them themselves, but only when they need them.
    pub fn admit_mapped(&self) {
        let core = self.core();
        if core.is_growing() {
            while core.ask() == Outcome::Busy {
                time::nanosleep(NAP);
            }
        }
    }

    /// Takes the pages from `first` on away from the heap if all of them are free, or in slabs
    /// without a block; else nothing changes. Their memory can be unmapped after the launch.
    ///
    /// # Safety
    ///
    /// No other thread may use the heap meanwhile.
    #[must_use]
    pub unsafe fn retract(&self, first: u32) -> bool {
        let core = self.core();
        let admitted = core.admitted();
        if !core.is_growing() || first >= admitted {
            return false;
        }
        while core.reclaim_idle() {}
        if !core.take_exactly(first, admitted - first) {
            return false;
        }
        let shared = &core.globals().shared;
        // Relaxed: nobody else is here. What was wanted was answered, or is wanted no more.
        shared.admitted.store(first, Ordering::Relaxed);
        shared.wanted.store(0, Ordering::Relaxed);
        true
    }
}
