//! A set of pages that any thread may add to and take from: a bitmap, a summary of it, and a count.
//!
//! The bits of the lowest level are the truth. Invariants:
//!
//! - The count is at least the number of set bits: it is raised before bits are set, and lowered
//!   only after what was taken can be found again elsewhere (in a stripe, say), or is in use. So
//!   `count == 0` proves that the set is empty *and* that nothing taken from it is in transit.
//! - The holders, stripes that have a slab of the class whose slabs the set lists, are never counted too low: one more is counted before a stripe
//!   without a slab gets one, and one less after it has none. So who reads 0 need not look at the stripes.
//! - The summary is a hint. A bit of it may be set over an empty word, and be clear over a word with
//!   members for a moment; so a search that follows it and finds nothing says nothing, where a count
//!   that is not zero is followed by a search of every word.

use crate::array::Array;
use bytemuck::{Pod, Zeroable};
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering, fence};
use simt::warp;

/// Pages in one word of the bitmap.
pub const WORD_PAGES: u32 = 64;

/// The lowest `count` bits, 0 to 64 or more.
#[inline(always)]
#[must_use]
pub const fn low_bits(count: u32) -> u64 {
    if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    }
}

/// The position of the set bit of `word` above `index` others; it has more than so many.
#[inline(always)]
fn nth_bit(word: u64, index: u32) -> u32 {
    let (mut position, mut left) = (0, index);
    for width in [32, 16, 8, 4, 2, 1] {
        let below = (word >> position & low_bits(width)).count_ones();
        if left >= below {
            left -= below;
            position += width;
        }
    }
    position
}

/// What a set counts: its members, and above them how often memory that the set stands for became
/// findable; and how many stripes have such memory. Alone on a cache line.
#[repr(C, align(128))]
pub struct SetState {
    word: DeviceAtomicU64,
    /// Of a class's set, stripes that have a slab of the class.
    pub(crate) holders: DeviceAtomicU32,
    /// Of a class's set, how often one of its slabs may have become worth [punching](crate::punch).
    thinned: DeviceAtomicU32,
    /// As `thinned` was before all of its slabs were looked at in vain.
    thinned_in_vain: DeviceAtomicU32,
}

impl SetState {
    /// The state of a set whose members are `pages` pages.
    #[must_use]
    pub fn of(pages: u32) -> Self {
        Self {
            word: DeviceAtomicU64::new(u64::from(pages)),
            holders: DeviceAtomicU32::new(0),
            thinned: DeviceAtomicU32::new(0),
            thinned_in_vain: DeviceAtomicU32::new(0),
        }
    }
}

/// Summary words that a search reads at once.
const AT_ONCE: u32 = 4;

/// One epoch in the state of a set; its count is in the lower half.
const EPOCH: u64 = 1 << 32;

/// The arrays of all sets of a heap, each set's part after that of the one before.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Sets {
    /// One for each set.
    pub states: Array<SetState>,
    /// A bit for each word.
    pub summaries: Array<DeviceAtomicU64>,
    /// A bit for each page.
    pub words: Array<DeviceAtomicU64>,
    /// Words of each set.
    pub word_count: u32,
    /// Summary words of each set.
    pub summary_count: u32,
}

impl Sets {
    /// A set.
    ///
    /// # Safety
    ///
    /// The arrays must be initialised, have room for the set, and live as long as it is used; and what it is asked later must be of its words and pages, which nobody
    /// verifies.
    #[must_use]
    pub unsafe fn set(&self, index: u32) -> PageSet {
        PageSet {
            state: self.states.from(index),
            summary: self.summaries.from(index * self.summary_count),
            words: self.words.from(index * self.word_count),
            word_count: self.word_count,
            page_count: self.word_count * WORD_PAGES,
        }
    }
}

/// A set of pages: where it lies. Copies are the same set.
#[derive(Clone, Copy)]
pub struct PageSet {
    state: Array<SetState>,
    summary: Array<DeviceAtomicU64>,
    words: Array<DeviceAtomicU64>,
    word_count: u32,
    page_count: u32,
}

impl PageSet {
    /// The same set, whose pages are those below `page_count`.
    #[must_use]
    pub fn of_pages(self, page_count: u32) -> Self {
        Self { page_count, ..self }
    }

    /// Number of words.
    #[must_use]
    pub fn word_count(&self) -> u32 {
        self.word_count
    }

    /// The word `index`.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, index: u32) -> &DeviceAtomicU64 {
        debug_assert!(index < self.word_count);
        // SAFETY: the index is below the count that `Sets::set` was promised.
        unsafe { self.words.get(index) }
    }

    /// The members in word `index` at the moment: a guess. Bits beyond the last page, where only a
    /// stray write can have put them, are none.
    #[inline(always)]
    #[must_use]
    pub fn look(&self, index: u32) -> u64 {
        // Relaxed: what is done on it is verified by a change of the word.
        self.word(index).load(Ordering::Relaxed)
            & low_bits(self.page_count.saturating_sub(index * WORD_PAGES))
    }

    /// [`look`](Self::look) with bits beyond the last page too, where a stray write has put them: fewer instructions, for who looks again before it takes anything.
    #[inline(always)]
    #[must_use]
    pub fn look_unmasked(&self, index: u32) -> u64 {
        // Relaxed: as `look`.
        self.word(index).load(Ordering::Relaxed)
    }

    fn summary(&self, index: u32) -> &DeviceAtomicU64 {
        // SAFETY: `Sets::set` was promised a summary word for each 64 words.
        unsafe { self.summary.get(index) }
    }

    fn counts(&self) -> &SetState {
        // SAFETY: `Sets::set` was promised that the set has a state.
        unsafe { self.state.get(0) }
    }

    fn state(&self) -> &DeviceAtomicU64 {
        &self.counts().word
    }

    /// Stripes that have a slab, at least.
    #[must_use]
    pub fn holders(&self) -> u32 {
        // Relaxed: as `count`.
        self.counts().holders.load(Ordering::Relaxed)
    }

    /// Says that a stripe without a slab is about to get one.
    pub fn add_holder(&self) {
        // Relaxed: publishing the stripe, and raising the epoch, release it.
        self.counts().holders.fetch_add(1, Ordering::Relaxed);
    }

    /// Says that a stripe has no slab any more.
    pub fn remove_holder(&self) {
        // Release: who sees the lowered count and has a fence afterwards sees where the slab went, as who sees the stripe.
        self.counts().holders.fetch_sub(1, Ordering::Release);
    }

    /// Says that one of the set's slabs may have become worth punching: so few of its slots are in use now.
    pub fn note_thinned(&self) {
        // Release: who sees it sees the slab, and its use.
        self.counts().thinned.fetch_add(1, Ordering::Release);
    }

    /// How often that was said, if it was since all slabs were looked at in vain.
    #[must_use]
    pub fn thinned_since(&self) -> Option<u32> {
        let counts = self.counts();
        // Acquire: the slabs are looked at afterwards.
        let thinned = counts.thinned.load(Ordering::Acquire);
        // Relaxed: who looked in vain looked after that was said, or before it was said by who is not back yet.
        (counts.thinned_in_vain.load(Ordering::Relaxed) != thinned).then_some(thinned)
    }

    /// Says that all of the set's slabs were looked at in vain, after `thinned` was [read](Self::thinned_since).
    pub fn note_in_vain(&self, thinned: u32) {
        // Relaxed: as it is read. (An older number leads to another look.)
        let in_vain = &self.counts().thinned_in_vain;
        in_vain.store(thinned, Ordering::Relaxed);
    }

    /// Members, and what was taken and is in transit, at least.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the lower half")]
    pub fn count(&self) -> u32 {
        // Relaxed: who decides on NULL has a fence after its search and then reads the epochs.
        self.state().load(Ordering::Relaxed) as u32
    }

    /// The count and the epoch, as [`count`](Self::count) and [`epoch`](Self::epoch) give them.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "two halves")]
    pub fn count_and_epoch(&self) -> (u32, u32) {
        // Relaxed: as they.
        let state = self.state().load(Ordering::Relaxed);
        (state as u32, (state >> 32) as u32)
    }

    /// How often memory that the set stands for became findable, modulo 2^32. What it announced is seen by who acquires, or has a fence that does so afterwards.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half")]
    pub fn epoch(&self, ordering: Ordering) -> u32 {
        (self.state().load(ordering) >> 32) as u32
    }

    /// Announces that `pages` members come, and raises the epoch: who counted without them must
    /// not take them for others that are in transit.
    pub fn announce(&self, pages: u32) {
        // Relaxed: what makes the pages findable, or hides them, comes next and is a release.
        self.state()
            .fetch_add(EPOCH + u64::from(pages), Ordering::Relaxed);
    }

    /// Says that `pages` members that were taken have arrived elsewhere.
    pub fn settle(&self, pages: u32) {
        // Relaxed: it continues the release by which this thread raised this set's epoch, or there
        // was a fence, or the pages are in use and not to be found.
        self.state().fetch_sub(u64::from(pages), Ordering::Relaxed);
    }

    /// Clears the summary bits over those of the words from `index` on that are empty, up to `end` or the last word under the same
    /// word of the summary.
    pub fn tidy(&self, index: u32, end: u32) {
        let empty = self.empty_words(index, end, u64::MAX);
        if empty != 0 {
            self.lower(index, end, empty);
        }
    }

    /// [`tidy`](Self::tidy) of one word, by who searches, as many may at the same time: unless the summary does not show it any more.
    pub fn tidy_if_shown(&self, index: u32) {
        // Relaxed: a hint.
        if self.summary(index / 64).load(Ordering::Relaxed) >> (index % 64) & 1 != 0 {
            // Of one word: a loop over one would be much more code. Relaxed: a hint.
            if self.word(index).load(Ordering::Relaxed) == 0 {
                self.lower(index, index + 1, 1 << (index % 64));
            }
        }
    }

    /// Which of the words under a word of the summary, from `index` to `end`, are empty, of those in `among`.
    #[inline(always)]
    fn empty_words(&self, index: u32, end: u32, among: u64) -> u64 {
        let (mut empty, mut index) = (0, index);
        let end = end.min((index / 64 + 1) * 64);
        while index < end {
            // Relaxed: a hint, or after an acquire of the summary.
            if among >> (index % 64) & 1 != 0 && self.word(index).load(Ordering::Relaxed) == 0 {
                empty |= 1 << (index % 64);
            }
            // Turns that the compiler cannot count it does not unroll.
            index = warp::opaque(index + 1);
        }
        empty
    }

    /// Takes back the announcement of `pages` members, or says that as many that were taken have arrived elsewhere.
    pub fn renounce(&self, pages: u32) {
        // Release: who sees the lowered count and has a fence afterwards sees where the pages went.
        self.state().fetch_sub(u64::from(pages), Ordering::Release);
    }

    /// Says that memory became findable: members were added, or a stripe got a slab.
    pub fn raise_epoch(&self) {
        // Release: pairs with `Core::epochs_first`.
        self.state().fetch_add(EPOCH, Ordering::Release);
    }

    /// [`raise_epoch`](Self::raise_epoch) by who had a fence that releases since then.
    pub fn raise_epoch_after_fence(&self) {
        // Relaxed, after the fence: as in `raise_epoch`.
        self.state().fetch_add(EPOCH, Ordering::Relaxed);
    }

    /// Adds the announced members `mask` of word `index`.
    #[inline(always)]
    pub fn insert(&self, index: u32, mask: u64) {
        // Release: what was done to these pages before is seen by who takes them.
        if self.word(index).fetch_or(mask, Ordering::Release) == 0 {
            self.raise(index);
        }
    }

    /// Adds the announced pages from `first` on, `length` of them.
    pub fn insert_run(&self, first: u32, length: u32) {
        // Release, for all words at once: as in `insert`.
        fence(Ordering::Release);
        let mut raised = 0;
        for_each_word(first, length, |index, mask| {
            if self.word(index).fetch_or(mask, Ordering::Relaxed) == 0 {
                raised |= 1 << (index % 64);
            }
            // A summary word's last word, or the run's.
            let is_last = (index + 1) * WORD_PAGES >= first + length;
            if raised != 0 && (is_last || index % 64 == 63) {
                self.raise_all(index / 64, raised);
                raised = 0;
            }
        });
    }

    /// Sets the summary bit over word `index`.
    #[inline(always)]
    fn raise(&self, index: u32) {
        self.raise_all(index / 64, 1 << (index % 64));
    }

    /// Sets bits of a summary word.
    #[inline(always)]
    pub(crate) fn raise_all(&self, index: u32, bits: u64) {
        // Release here, acquire in `lower`: a lower that comes after a raise sees the insert before
        // it, and raises again.
        self.summary(index).fetch_or(bits, Ordering::Release);
    }

    /// Clears the summary bits `empty` over words from `index` to `end`, which were seen empty.
    #[inline(always)]
    fn lower(&self, index: u32, end: u32, empty: u64) {
        self.summary(index / 64)
            .fetch_and(!empty, Ordering::Acquire);
        let filled = empty & !self.empty_words(index, end, empty);
        if filled != 0 {
            self.raise_all(index / 64, filled);
        }
    }

    /// Takes the member `page`; false if it is none. The taker owes a [`settle`](Self::settle).
    #[inline(always)]
    #[must_use]
    pub fn remove(&self, page: u32) -> bool {
        self.clear(page) >> (page % WORD_PAGES) & 1 != 0
    }

    /// [`remove`](Self::remove) by who searches, as many may at the same time: changes of a word come one after the other, so it looks first. Whether it took the page, for which
    /// it owes a [`settle`](Self::settle); and the other bits of its word, as they were seen last.
    #[inline(always)]
    #[must_use]
    pub fn remove_if_shown(&self, page: u32) -> (bool, u64) {
        let bit = 1 << (page % WORD_PAGES);
        let mut word = self.look(page / WORD_PAGES);
        if word & bit != 0 {
            word = self.clear(page);
        }
        (word & bit != 0, word & !bit)
    }

    /// Clears the bit of a page: the word before.
    #[inline(always)]
    fn clear(&self, page: u32) -> u64 {
        let (index, bit) = (page / WORD_PAGES, 1 << (page % WORD_PAGES));
        // Acquire: what was done to the page before it was inserted is seen.
        self.word(index).fetch_and(!bit, Ordering::Acquire)
    }

    /// Takes all of `mask` from word `index`, or nothing and false. The taker owes a
    /// [`settle`](Self::settle).
    ///
    /// One atomic, however many threads take from the word at once: a part that was there is put
    /// back, and is still counted while it is gone.
    #[inline(always)]
    #[must_use]
    pub fn take(&self, index: u32, mask: u64) -> bool {
        // Acquire: as in `remove`.
        let before = self.word(index).fetch_and(!mask, Ordering::Acquire);
        if before & mask == mask {
            return true;
        }
        if before & mask != 0 {
            self.insert(index, before & mask);
            self.raise_epoch();
        }
        false
    }

    /// Takes all of `count` words from `first` on, 2, 4, 8 and so on, or nothing and false. The taker owes a
    /// [`settle`](Self::settle).
    ///
    /// Up to four at once, and not one after the other, as [`take`](Self::take) would: a refill waits for it. What was there is put back if one is not whole any more.
    #[must_use]
    pub fn take_words(&self, first: u32, count: u32) -> bool {
        let end = first + count;
        // Bits beyond the last page are none.
        if end * WORD_PAGES > self.page_count || !self.are_whole(first, count) {
            return false;
        }
        let mut index = first;
        while index < end && self.claim_words(index, count) {
            index += count.min(4);
        }
        // Acquire, for all words: as in `take`.
        fence(Ordering::Acquire);
        if index == end {
            return true;
        }
        for index in first..index {
            self.insert(index, u64::MAX);
        }
        self.raise_epoch();
        false
    }

    /// Whether all pages of so many words from `first` on seem to be members.
    #[inline(always)]
    fn are_whole(&self, first: u32, count: u32) -> bool {
        // Relaxed: a guess, which the claim verifies.
        let look = |index| self.word(index).load(Ordering::Relaxed);
        if count == 2 {
            return look(first) & look(first + 1) == u64::MAX;
        }
        (first..first + count).step_by(4).all(|index| {
            look(index) & look(index + 1) & look(index + 2) & look(index + 3) == u64::MAX
        })
    }

    /// Takes the first four of `count` words from `index` on, or both, if all of their pages are members; else what was taken is put back. The caller has a fence that acquires.
    #[inline(always)]
    fn claim_words(&self, index: u32, count: u32) -> bool {
        // Relaxed: the fence follows. None waits for what was there before it.
        let claim = |index| self.word(index).fetch_and(0, Ordering::Relaxed);
        let (a, b) = (claim(index), claim(index + 1));
        let (c, d) = if count == 2 {
            (u64::MAX, u64::MAX)
        } else {
            (claim(index + 2), claim(index + 3))
        };
        let is_whole = a & b & c & d == u64::MAX;
        if !is_whole {
            self.put_back(index, a, b);
            if count > 2 {
                self.put_back(index + 2, c, d);
            }
        }
        is_whole
    }

    /// Puts members of two words back that the caller took.
    #[cold]
    #[inline(never)]
    fn put_back(&self, index: u32, members: u64, of_next: u64) {
        for (index, members) in [(index, members), (index + 1, of_next)] {
            if members != 0 {
                self.insert(index, members);
            }
        }
    }

    /// Summary words from `index` on, as many as are read at once, and zeros beyond the last: one
    /// wait for the memory instead of one for each. Bits beyond the last word, which only damage sets, are read as 0.
    #[inline(always)]
    fn summaries(&self, index: u32) -> [u64; AT_ONCE as usize] {
        let count = self.word_count.div_ceil(64);
        let read = |index| {
            if index < count {
                // Relaxed: a hint.
                self.summary(index).load(Ordering::Relaxed) & low_bits(self.word_count - index * 64)
            } else {
                0
            }
        };
        [
            read(index),
            read(index + 1),
            read(index + 2),
            read(index + 3),
        ]
    }

    /// The first word at or after `from` that the summary shows to have members.
    #[must_use]
    #[inline(always)]
    pub fn next_word(&self, from: u32) -> Option<u32> {
        let (first, shown) = self.next_shown(from)?;
        Some(first + shown.trailing_zeros())
    }

    /// The first of the words at or after `from` that the summary shows to have members, and all others under the same word of the summary: the number of the first word under that, and a bit for each
    /// that is shown.
    #[must_use]
    #[inline(always)]
    pub fn next_shown(&self, from: u32) -> Option<(u32, u64)> {
        let mut begin = from / 64;
        let mut skipped = low_bits(from % 64);
        while begin * 64 < self.word_count {
            for (index, summary) in (begin..).zip(self.summaries(begin)) {
                let here = summary & !skipped;
                if here != 0 {
                    return Some((index * 64, here));
                }
                skipped = 0;
            }
            begin += AT_ONCE;
        }
        None
    }

    /// The first word at or after `from` that has members, with these, and not by the summary, which may hide some for a moment.
    #[must_use]
    pub fn next_word_itself(&self, from: u32) -> Option<(u32, u64)> {
        let look = |index| {
            if index < self.word_count {
                self.look(index)
            } else {
                0
            }
        };
        let mut first = from;
        while first < self.word_count {
            // At once, for most are empty.
            let words = [
                look(first),
                look(first + 1),
                look(first + 2),
                look(first + 3),
            ];
            for (index, word) in (first..).zip(words) {
                if word != 0 {
                    return Some((index, word));
                }
            }
            first += AT_ONCE;
        }
        None
    }

    /// The word before which the summary shows `skip` others with members, counted round and
    /// round; 0 if it shows none. Searchers with different `skip` start apart, yet all near the
    /// front.
    #[must_use]
    #[inline(always)]
    pub fn nth_word(&self, skip: u32) -> u32 {
        let mut left = skip;
        loop {
            let round = left;
            let mut begin = 0;
            while begin * 64 < self.word_count {
                for (index, summary) in (begin..).zip(self.summaries(begin)) {
                    if left < summary.count_ones() {
                        return index * 64 + nth_bit(summary, left);
                    }
                    left -= summary.count_ones();
                }
                begin += AT_ONCE;
            }
            let members = round - left;
            if members == 0 {
                return 0;
            }
            left %= members;
        }
    }
}

/// Calls `act` with each word that a run touches and the run's bits in it, in ascending order.
pub(crate) fn for_each_word(first: u32, length: u32, mut act: impl FnMut(u32, u64)) {
    let (mut page, end) = (first, first + length);
    while page < end {
        let offset = page % WORD_PAGES;
        let here = (WORD_PAGES - offset).min(end - page);
        act(page / WORD_PAGES, low_bits(here) << offset);
        page += here;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod tests {
    use super::*;

    /// Calls `test` with an empty set of `pages` pages.
    pub(crate) fn with_set(pages: u32, test: impl FnOnce(&PageSet)) {
        let word_count = pages.div_ceil(64);
        let zeros = |count| -> Vec<_> { (0..count).map(|_| DeviceAtomicU64::new(0)).collect() };
        let words = zeros(word_count);
        let summary = zeros(word_count.div_ceil(64));
        let state = SetState::of(0);
        let sets = Sets {
            states: Array::new(&raw const state as u64),
            summaries: Array::new(summary.as_ptr() as u64),
            words: Array::new(words.as_ptr() as u64),
            word_count,
            summary_count: word_count.div_ceil(64),
        };
        // SAFETY: the arrays are as long as they must be, and outlive the set.
        test(&unsafe { sets.set(0) }.of_pages(pages));
    }

    #[test]
    fn bits_are_found_by_their_rank() {
        for word in [1, u64::MAX, 0x8000_0000_0000_0001, 0x00f0_0a01_8000_0110] {
            let positions: Vec<_> = (0..64).filter(|bit| word >> bit & 1 != 0).collect();
            for (rank, position) in (0..).zip(positions) {
                assert_eq!(nth_bit(word, rank), position, "{word:#x}");
            }
        }
    }

    #[test]
    fn finds_what_was_inserted_in_order() {
        with_set(100_000, |set| {
            let pages = [3, 64, 65, 4095, 4096, 70_000, 99_999];
            for page in pages {
                set.announce(1);
                set.insert(page / 64, 1 << (page % 64));
            }
            let mut found = Vec::new();
            let mut from = 0;
            while let Some(word) = set.next_word(from) {
                found.push(word);
                from = word + 1;
            }
            assert_eq!(found, [0, 1, 63, 64, 1093, 1562]);
            for page in pages {
                assert!(set.remove(page) && !set.remove(page));
                set.tidy(page / 64, page / 64 + 1);
            }
            assert_eq!(set.next_word(0), None);
            assert_eq!(set.count(), 7, "what was taken has not arrived");
        });
    }

    #[test]
    fn who_searches_learns_what_else_is_there() {
        with_set(128, |set| {
            set.announce(2);
            set.insert(1, 0b101);
            assert_eq!(set.remove_if_shown(65), (false, 0b101));
            assert_eq!(set.remove_if_shown(66), (true, 0b001));
            assert_eq!(set.remove_if_shown(66), (false, 0b001));
            assert_eq!(set.remove_if_shown(64), (true, 0));
            assert_eq!(set.look(1), 0);
        });
    }

    #[test]
    fn takes_all_of_a_mask_or_nothing() {
        with_set(64, |set| {
            set.announce(8);
            set.insert(0, 0b1111_0000_1111);
            assert!(!set.take(0, 0b11_1000));
            assert_eq!(set.word(0).load(Ordering::Relaxed), 0b1111_0000_1111);
            assert!(set.take(0, 0b11));
            assert_eq!(set.word(0).load(Ordering::Relaxed), 0b1111_0000_1100);
        });
    }

    /// Pages that are taken at once: the first, and how many.
    type Piece = (u32, u32);

    /// A few pages of a word, or 2, 4, 8 or 16 words.
    fn piece(set: &PageSet, chosen: u32) -> Piece {
        let index = chosen % set.word_count();
        let kind = chosen / 256 % 8;
        if kind < 4 {
            let count = 2 << kind;
            (index / count * count * WORD_PAGES, count * WORD_PAGES)
        } else {
            (index * WORD_PAGES + chosen / 2048 % 4, kind - 3)
        }
    }

    fn take_piece(set: &PageSet, (first, length): Piece) -> bool {
        let index = first / WORD_PAGES;
        if length < WORD_PAGES {
            set.take(index, low_bits(length) << (first % WORD_PAGES))
        } else {
            set.take_words(index, length / WORD_PAGES)
        }
    }

    /// Takes pieces that nobody else has, each until after the next; how often one of a page or so, 2, 4, 8 and 16 words.
    fn take_pieces(set: &PageSet, owned: &[DeviceAtomicU64], seed: u64) -> [u32; 5] {
        let (mut taken, mut random, mut held) = ([0; 5], seed, (0, 0));
        let put_back = |(first, length): Piece| {
            // Relaxed: each word's changes have an order, and nothing else depends on them.
            for_each_word(first, length, |index, mask| {
                owned[index as usize].fetch_and(!mask, Ordering::Relaxed);
            });
            set.insert_run(first, length);
        };
        for _ in 0..2_000_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let piece = piece(set, (random >> 40) as u32);
            if take_piece(set, piece) {
                assert!(piece.0 + piece.1 <= set.page_count, "beyond the last page");
                for_each_word(piece.0, piece.1, |index, mask| {
                    let others = owned[index as usize].fetch_or(mask, Ordering::Relaxed);
                    assert_eq!(others & mask, 0, "taken twice in word {index}");
                });
                taken[(piece.1 / WORD_PAGES).max(1).ilog2() as usize] += 1;
                put_back(std::mem::replace(&mut held, piece));
            }
        }
        put_back(held);
        taken
    }

    #[test]
    fn words_are_taken_by_one_of_many_threads_and_none_is_lost() {
        // The last word is partial, though a stray write has set bits beyond the last page.
        const PAGES: u32 = 47 * WORD_PAGES + 7;
        with_set(PAGES, |set| {
            set.announce(PAGES);
            set.insert_run(0, PAGES);
            set.word(47).store(u64::MAX, Ordering::Relaxed);
            let owned: Vec<_> = (0..48).map(|_| DeviceAtomicU64::new(0)).collect();
            let taken = std::thread::scope(|scope| {
                let start = |seed| {
                    scope.spawn({
                        let owned = &owned;
                        move || take_pieces(set, owned, seed)
                    })
                };
                let threads: Vec<_> = (1..5).map(start).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().expect("no page twice"))
                    .collect::<Vec<_>>()
            });
            for kind in 0..5 {
                assert!(
                    taken.iter().any(|of_thread| of_thread[kind] > 0),
                    "{taken:?}"
                );
            }
            let lost: Vec<_> = (0..48)
                .filter(|&index| set.word(index).load(Ordering::Relaxed) != u64::MAX)
                .collect();
            assert_eq!((lost, set.count()), (vec![], PAGES));
        });
    }

    #[test]
    fn searchers_start_apart_and_wrap() {
        with_set(64 * 200, |set| {
            for word in [5, 70, 199] {
                set.announce(1);
                set.insert(word, 1);
            }
            let starts: Vec<_> = (0..7).map(|skip| set.nth_word(skip)).collect();
            assert_eq!(starts, [5, 70, 199, 5, 70, 199, 5]);
        });
    }

    #[test]
    fn what_is_beyond_the_last_page_is_not_found() {
        with_set(70, |set| {
            set.word(1).store(u64::MAX, Ordering::Relaxed);
            assert_eq!(set.look(1), 0b11_1111);
            set.raise_all(0, 0b1000);
            assert_eq!(set.nth_word(0), 0, "there are two words");
            assert_eq!(set.next_word(0), None, "there are two words");
        });
    }

    #[test]
    fn a_run_touches_each_word_once() {
        let mut touched = Vec::new();
        for_each_word(60, 70, |index, mask| touched.push((index, mask)));
        assert_eq!(touched, [(0, 0xf << 60), (1, u64::MAX), (2, 3)]);
    }
}
