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
//! - Each wait ends: when pages come, when the host says that none will, or when the heap's patience is at its end; in a damaged heap, whose lease is never free, a second later.

use crate::heap::{Core, Heap};
use bytemuck::{Pod, Zeroable};
use simt::atomic::{Ordering, SystemAtomicU64};
use simt::time;

/// Nanoseconds between a waiting thread's first two looks; each nap is twice as long as the one
/// before.
const NAP: u32 = 1 << 10;
/// The longest nap.
const LONGEST_NAP: u32 = 1 << 17;

/// Nanoseconds after which a lease that is still taken is damage: who holds it waits for nobody.
const LEASE: u64 = 1_000_000_000;

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

/// Above the pages of an answer stands its limit: who wants the heap to have as many pages, or more,
/// gets none.
const LIMIT_SHIFT: u32 = 32;
/// No such limit is known.
const NO_LIMIT: u32 = u32::MAX;

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
        // Relaxed, as is all that is done to this word: a number alone. The host does nothing that relies on more than its value.
        self.request.0.load(Ordering::Relaxed) as u32
    }

    /// Asks for `pages` pages in all, unless as many were asked for before. For the holder of the lease.
    fn raise_request(&self, pages: u32) {
        if self.request() < pages {
            // Relaxed: as in `request`.
            self.request.0.store(u64::from(pages), Ordering::Relaxed);
        }
    }

    /// Forgets what was asked. For the holder of the lease, and for the host while no kernel uses the
    /// heap.
    pub fn clear_request(&self) {
        // Relaxed: as in `request`.
        self.request.0.store(0, Ordering::Relaxed);
    }

    /// Answers. Written by the host, once the memory is there.
    pub fn answer(&self, answer: Answer) {
        self.write(answer.pages, if answer.closed { 0 } else { NO_LIMIT });
    }

    /// Answers that `request` pages cannot be had, but `pages` have memory. Who wants fewer than
    /// `request` may ask for them. Written by the host.
    pub fn refuse(&self, pages: u32, request: u32) {
        self.write(pages, request);
    }

    fn write(&self, pages: u32, limit: u32) {
        // Release: the mapping, to the thread that admits the pages.
        let word = u64::from(pages) | u64::from(limit) << LIMIT_SHIFT;
        self.answer.0.store(word, Ordering::Release);
    }

    /// Pages that have memory, and the limit.
    #[allow(clippy::cast_possible_truncation, reason = "two halves")]
    fn read_answer(&self) -> (u32, u32) {
        // Acquire: pairs with `write`.
        let word = self.answer.0.load(Ordering::Acquire);
        (word as u32, (word >> LIMIT_SHIFT) as u32)
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

    /// Pages that have memory, whether they are admitted yet or not: all that any thread can have used. (Who has synchronised with one that used a page sees the answer by which it
    /// was admitted, or a later one; and pages are given up by nobody while kernels run.)
    pub(crate) fn pages_with_memory(&self) -> u32 {
        let all = self.layout().page_count;
        if self.is_growing() {
            self.mailbox().read_answer().0.min(all)
        } else {
            all
        }
    }

    /// Pages that can be used, as a hint.
    pub(crate) fn admitted_hint(&self) -> u32 {
        self.globals().shared.admitted_hint()
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
        let total = self.wish_beyond(seen, pages);
        if total <= seen {
            // It is as large as it may be.
            return false;
        }
        let mut must_ask = self.want(total);
        loop {
            if self.admitted() > seen {
                return true;
            }
            if !must_ask && self.is_refused(total) {
                return self.admitted() > seen;
            }
            match self.ask(total) {
                Outcome::Grown => return true,
                Outcome::Closed => return self.admitted() > seen,
                Outcome::Pending => must_ask = false,
                // Who has the lease may have read what is wanted before this thread raised it.
                Outcome::Busy => {}
            }
            let waited = time::now().wrapping_sub(start);
            let patience = self.growth().patience;
            if waited >= patience && !must_ask || waited >= patience.saturating_add(LEASE) {
                if must_ask {
                    // Relaxed: as in `want`. The next one has to ask.
                    self.globals().shared.wanted.store(0, Ordering::Relaxed);
                }
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
            let wanted = self.wish_beyond(admitted, 1);
            self.want(wanted);
            self.ask(wanted);
        }
    }

    /// Pages that the heap should have in all, to have `pages` more than `seen`.
    fn wish_beyond(&self, seen: u32, pages: u32) -> u32 {
        seen.saturating_add(pages).min(self.layout().page_count)
    }

    /// Wants the heap to have `wanted` pages. True if nobody wanted as many before.
    fn want(&self, wanted: u32) -> bool {
        // Relaxed: a number that only tells the host how much to map.
        let shared = &self.globals().shared;
        shared.wanted.fetch_max(wanted, Ordering::Relaxed) < wanted
    }

    /// Whether the host has refused a heap of `own` pages, and all that it has mapped is admitted, as far as that can be told without the lease. Millions of
    /// requests to an exhausted heap would wait for each other otherwise.
    fn is_refused(&self, own: u32) -> bool {
        // Relaxed: a glance that spares those who wait for pages to read the host's memory.
        if own < self.globals().shared.limit.load(Ordering::Relaxed) {
            return false;
        }
        let (pages, limit) = self.mailbox().read_answer();
        own >= limit && pages.min(self.layout().page_count) <= self.admitted()
    }

    /// The mailbox of a heap that grows.
    fn mailbox(&self) -> &Mailbox {
        // SAFETY: it lives as long as the heap.
        unsafe { &*(self.growth().mailbox as *const Mailbox) }
    }

    /// Tells the host what is wanted, and admits what it answers, unless another thread is at it.
    /// The caller wants the heap to have `own` pages.
    fn ask(&self, own: u32) -> Outcome {
        let shared = &self.globals().shared;
        // Relaxed: a glance that spares most of many waiting threads the atomic that follows.
        let is_taken = shared.lease.load(Ordering::Relaxed) != 0;
        // Acquire: what the holder before admitted is seen.
        if is_taken || shared.lease.swap(1, Ordering::Acquire) != 0 {
            return Outcome::Busy;
        }
        let mailbox = self.mailbox();
        let (pages, limit) = mailbox.read_answer();
        // Relaxed: a hint, see `is_refused`.
        shared.limit.store(limit, Ordering::Relaxed);
        self.post(mailbox, own, (pages, limit));
        let pages = pages.min(self.layout().page_count);
        // Relaxed: only the holder of the lease changes it.
        let admitted = shared.admitted.load(Ordering::Relaxed);
        let outcome = if pages > admitted {
            self.admit(admitted, pages);
            Outcome::Grown
        } else if own >= limit {
            Outcome::Closed
        } else {
            Outcome::Pending
        };
        // Release: pairs with the acquire of the next holder.
        shared.lease.store(0, Ordering::Release);
        outcome
    }

    /// Writes into the mailbox what is wanted; `own` is what the holder of the lease wants, who
    /// calls.
    ///
    /// What cannot be had must not stand in the way of what can: a request that was refused gives way
    /// to a smaller one, and does not come back before the host has answered that. Otherwise it stands, and the host tries again.
    fn post(&self, mailbox: &Mailbox, own: u32, (pages, limit): (u32, u32)) {
        let shared = &self.globals().shared;
        let standing = mailbox.request();
        // Relaxed, both: a number that only tells the host how much to map. One that the store
        // forgets is posted by who wanted it, who asks until it had the lease.
        let mut wanted = shared.wanted.load(Ordering::Relaxed).max(standing);
        let gives_way = wanted >= limit && own < limit && own > 0;
        if gives_way {
            wanted = own;
            shared.wanted.store(own, Ordering::Relaxed);
            mailbox.clear_request();
        }
        let raised = wanted.max(own);
        let is_unanswered = standing > pages && standing < limit;
        if raised < limit || !is_unanswered {
            mailbox.raise_request(raised);
        }
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
            let start = time::now();
            while core.ask(0) == Outcome::Busy && time::now().wrapping_sub(start) < LEASE {
                time::nanosleep(NAP);
            }
        }
    }

    /// Takes the pages from `first` on away from the heap if all of them are free, in slabs without
    /// a block, or not admitted yet; else nothing changes. Their memory can be unmapped after the
    /// launch.
    ///
    /// # Safety
    ///
    /// No other thread may use the heap meanwhile.
    #[must_use]
    pub unsafe fn retract(&self, first: u32) -> bool {
        let core = self.core();
        if !core.is_growing() {
            return false;
        }
        let admitted = core.admitted();
        // Once is enough where nobody else is; and an end of it is not sure in a damaged heap.
        core.reclaim_idle();
        if first < admitted && !core.take_exactly(first, admitted - first) {
            return false;
        }
        let shared = &core.globals().shared;
        // Relaxed: nobody else is here. What was wanted was answered, or is wanted no more.
        shared
            .admitted
            .store(first.min(admitted), Ordering::Relaxed);
        shared.wanted.store(0, Ordering::Relaxed);
        true
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::layout::MIN_CAPACITY;
    use crate::simulated::host_heap::HostHeap;
    use std::time::{Duration, Instant};

    /// Pages of the smallest heap, and those that it has at first.
    const ALL_PAGES: u32 = 16;
    const FIRST_PAGES: u32 = 8;

    /// The smallest heap and its mailbox, in which its host answered once.
    fn answered(pages: u32, closed: bool, patience: u64) -> (Box<Mailbox>, HostHeap) {
        let mailbox = Box::new(Mailbox::new(Answer { pages, closed }));
        let growth = Growth {
            mailbox: &raw const *mailbox as u64,
            patience,
            pages,
            low_water: 0,
        };
        let host = HostHeap::growing(MIN_CAPACITY, 1, growth);
        assert_eq!(host.heap().layout().page_count, ALL_PAGES);
        (mailbox, host)
    }

    /// Takes the lease.
    fn keep_lease(host: &HostHeap) {
        let lease = &host.heap().core().globals().shared.lease;
        lease.store(8, Ordering::Relaxed);
    }

    #[test]
    fn a_lease_that_is_never_free_keeps_nobody_for_ever() {
        let (_mailbox, host) = answered(FIRST_PAGES, false, 1_000_000);
        keep_lease(&host);
        assert!(host.heap().malloc(MIN_CAPACITY).is_null());
        host.heap().admit_mapped();
        assert_eq!(host.heap().core().admitted(), FIRST_PAGES);
    }

    #[test]
    fn who_gave_up_before_the_host_was_asked_leaves_that_to_the_next() {
        let (mailbox, host) = answered(FIRST_PAGES, true, 0);
        keep_lease(&host);
        assert!(host.heap().malloc(MIN_CAPACITY).is_null());
        assert_eq!(mailbox.request(), 0);
        let lease = &host.heap().core().globals().shared.lease;
        lease.store(0, Ordering::Relaxed);
        assert!(host.heap().malloc(MIN_CAPACITY).is_null());
        assert_eq!(mailbox.request(), ALL_PAGES);
    }

    #[test]
    fn a_refused_request_gives_way_also_if_what_was_wanted_is_forgotten() {
        let (mailbox, host) = answered(FIRST_PAGES, false, 0);
        let first = host.heap().malloc(MIN_CAPACITY / 2);
        assert!(host.heap().malloc(MIN_CAPACITY / 2 - 1).is_null());
        assert_eq!(mailbox.request(), ALL_PAGES);
        mailbox.refuse(FIRST_PAGES, ALL_PAGES);
        let wanted = &host.heap().core().globals().shared.wanted;
        wanted.store(0, Ordering::Relaxed);
        assert!(host.heap().malloc(1).is_null());
        assert_eq!(mailbox.request(), FIRST_PAGES + 1);
        // SAFETY: the block is this thread's.
        unsafe { host.heap().free(first) };
    }

    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn who_is_refused_what_was_wanted_before_needs_no_lease() {
        let (mailbox, host) = answered(FIRST_PAGES, true, MINUTE);
        assert!(host.heap().malloc(MIN_CAPACITY).is_null());
        assert_eq!(mailbox.request(), ALL_PAGES);
        keep_lease(&host);
        let start = Instant::now();
        assert!(host.heap().malloc(MIN_CAPACITY).is_null());
        assert!(host.heap().malloc(MIN_CAPACITY / 2 + 1).is_null());
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_heap_that_is_as_large_as_it_may_be_waits_for_nobody() {
        let (mailbox, host) = answered(ALL_PAGES, false, MINUTE);
        let all = host.heap().malloc(MIN_CAPACITY);
        let start = Instant::now();
        assert!(!all.is_null() && host.heap().malloc(1).is_null());
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(mailbox.request(), 0);
        // SAFETY: the block is this thread's.
        unsafe { host.heap().free(all) };
    }
}
