//! A set of pages that any thread may add to and take from: a bitmap, two levels of summary, and
//! a count.
//!
//! The bits of the lowest level are the truth. Invariants:
//!
//! - The count is at least the number of set bits: it is raised before bits are set, and lowered
//!   only after what was taken can be found again elsewhere (in a stripe, say), or is in use. So
//!   `count == 0` proves that the set is empty *and* that nothing taken from it is in transit.
//! - The summaries are hints. A summary bit may be set over an empty word for ever, and be clear
//!   over a word with bits for a moment; so a search that follows them and finds nothing says
//!   nothing, where a count that is not zero is followed by a search of every word.

use crate::array::Array;
use simt::atomic::{DeviceAtomicU64, Ordering};

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

/// A set of pages, as it lies in memory: its words and summary are arrays elsewhere.
#[repr(C, align(64))]
pub struct PageSet {
    /// Members, and raised by [`EPOCH`] whenever memory that the set stands for became findable.
    state: DeviceAtomicU64,
    root: DeviceAtomicU64,
    summary: Array<DeviceAtomicU64>,
    words: Array<DeviceAtomicU64>,
    word_count: u32,
}

/// One epoch in the state of a set; its count is in the lower half.
const EPOCH: u64 = 1 << 32;

impl PageSet {
    /// A set of `word_count` words at `words` whose first `pages` pages are members.
    ///
    /// # Safety
    ///
    /// `words` must have `word_count` elements and `summary` one for each 64 of them; both must
    /// be initialised before the set is used.
    #[must_use]
    pub unsafe fn new(
        pages: u32,
        summary: Array<DeviceAtomicU64>,
        words: Array<DeviceAtomicU64>,
        word_count: u32,
    ) -> Self {
        Self {
            state: DeviceAtomicU64::new(u64::from(pages)),
            root: DeviceAtomicU64::new(low_bits(pages.div_ceil(WORD_PAGES).div_ceil(WORD_PAGES))),
            summary,
            words,
            word_count,
        }
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
        // SAFETY: the index is below the count that `new` was promised.
        unsafe { self.words.get(index) }
    }

    fn summary(&self, index: u32) -> &DeviceAtomicU64 {
        // SAFETY: `new` was promised a summary word for each 64 words.
        unsafe { self.summary.get(index) }
    }

    fn state(&self) -> u64 {
        // Acquire: whoever sees a lowered count or a new epoch also sees where the pages went.
        self.state.load(Ordering::Acquire)
    }

    /// Members, and what was taken and is in transit, at least.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the lower half")]
    pub fn count(&self) -> u32 {
        self.state() as u32
    }

    /// How often memory that the set stands for became findable, modulo 2^32.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half")]
    pub fn epoch(&self) -> u32 {
        (self.state() >> 32) as u32
    }

    /// Announces that `pages` members come, and raises the epoch: who counted without them must
    /// not take them for others that are in transit.
    pub fn announce(&self, pages: u32) {
        // Relaxed: what makes the pages findable, or hides them, comes next and is a release.
        self.state
            .fetch_add(EPOCH + u64::from(pages), Ordering::Relaxed);
    }

    /// Says that `pages` taken members have arrived elsewhere.
    pub fn settle(&self, pages: u32) {
        // Release: pairs with `state`.
        self.state.fetch_sub(u64::from(pages), Ordering::Release);
    }

    /// Says that memory became findable: members were added, or a stripe got a slab.
    pub fn raise_epoch(&self) {
        // Release: pairs with `state`.
        self.state.fetch_add(EPOCH, Ordering::Release);
    }

    /// Adds the announced members `mask` of word `index`.
    #[inline(always)]
    pub fn insert(&self, index: u32, mask: u64) {
        // Release: what was done to these pages before is seen by who takes them.
        if self.word(index).fetch_or(mask, Ordering::Release) == 0 {
            self.raise(index);
        }
    }

    /// Sets the summary bits over word `index`.
    #[inline(always)]
    fn raise(&self, index: u32) {
        let (word, bit) = (index / 64, 1 << (index % 64));
        // AcqRel here and in `lower`: of a raise and a lower, the later in the order of changes
        // to this word sees the other's change to the level below.
        if self.summary(word).fetch_or(bit, Ordering::AcqRel) == 0 {
            self.root.fetch_or(1 << word, Ordering::AcqRel);
        }
    }

    /// Clears the summary bits over word `index`, which was seen empty.
    #[inline(always)]
    fn lower(&self, index: u32) {
        let (word, bit) = (index / 64, 1 << (index % 64));
        let left = self.summary(word).fetch_and(!bit, Ordering::AcqRel) & !bit;
        if self.word(index).load(Ordering::Relaxed) != 0 {
            self.raise(index);
        } else if left == 0 {
            self.root.fetch_and(!(1 << word), Ordering::AcqRel);
            if self.summary(word).load(Ordering::Relaxed) != 0 {
                self.root.fetch_or(1 << word, Ordering::AcqRel);
            }
        }
    }

    /// Takes the member `page`; false if it is none. The taker owes a [`settle`](Self::settle).
    #[inline(always)]
    #[must_use]
    pub fn remove(&self, page: u32) -> bool {
        let (index, bit) = (page / WORD_PAGES, 1 << (page % WORD_PAGES));
        // Acquire: what was done to the page before it was inserted is seen.
        let before = self.word(index).fetch_and(!bit, Ordering::Acquire);
        if before == bit {
            self.lower(index);
        }
        before & bit != 0
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
            if before == mask {
                self.lower(index);
            }
            return true;
        }
        if before & mask != 0 {
            self.insert(index, before & mask);
            self.raise_epoch();
        }
        false
    }

    /// The first word at or after `from` that the summaries show to have members.
    #[must_use]
    #[inline(always)]
    pub fn next_word(&self, from: u32) -> Option<u32> {
        if from >= self.word_count {
            return None;
        }
        let first = from / 64;
        let here = self.summary(first).load(Ordering::Relaxed) & !low_bits(from % 64);
        if here != 0 {
            return Some(first * 64 + here.trailing_zeros());
        }
        let mut rest = self.root.load(Ordering::Relaxed) & !low_bits(first + 1);
        while rest != 0 {
            let index = rest.trailing_zeros();
            let summary = self.summary(index).load(Ordering::Relaxed);
            if summary != 0 {
                return Some(index * 64 + summary.trailing_zeros());
            }
            rest &= rest - 1;
        }
        None
    }

    /// The word before which the summaries show `skip` others with members, counted round and
    /// round; 0 if they show none. Searchers with different `skip` start apart, yet all near the
    /// front.
    #[must_use]
    #[inline(always)]
    pub fn nth_word(&self, skip: u32) -> u32 {
        let root = self.root.load(Ordering::Relaxed);
        let mut left = skip;
        loop {
            let mut rest = root;
            let round = left;
            while rest != 0 {
                let index = rest.trailing_zeros();
                let mut summary = self.summary(index).load(Ordering::Relaxed);
                if left < summary.count_ones() {
                    while left > 0 {
                        summary &= summary - 1;
                        left -= 1;
                    }
                    return index * 64 + summary.trailing_zeros();
                }
                left -= summary.count_ones();
                rest &= rest - 1;
            }
            let members = round - left;
            if members == 0 {
                return 0;
            }
            left %= members;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn with_set(pages: u32, test: impl FnOnce(&PageSet)) {
        let count = pages.div_ceil(64);
        let words: Vec<_> = (0..count).map(|_| DeviceAtomicU64::new(0)).collect();
        let summary: Vec<_> = (0..count.div_ceil(64))
            .map(|_| DeviceAtomicU64::new(0))
            .collect();
        // SAFETY: the arrays are as long as they must be, and outlive the set.
        test(&unsafe {
            PageSet::new(
                0,
                Array::new(summary.as_ptr() as u64),
                Array::new(words.as_ptr() as u64),
                count,
            )
        });
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
            }
            assert_eq!(set.next_word(0), None);
            assert_eq!(set.count(), 7, "what was taken has not arrived");
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
}
