//! Pages: aligned blocks for slabs, and runs for large requests.
//!
//! A block of a slab up to 64 pages lies in one word of the free set, so taking it is one atomic; what
//! it took of a block that was not all there it puts back. Larger blocks are whole words, and runs
//! may begin and end within one: these are claimed word by word in ascending order and given back
//! if one is not as it was seen. There is no lock.

use crate::heap::Core;
use crate::page_set::{PageSet, WORD_PAGES, for_each_word, low_bits};
use simt::{time, warp};

/// Words of free pages that are read at once.
const AT_ONCE: u32 = 8;
/// How often as many are read at most.
const ROUNDS: u32 = 8;
/// How often at most where many pages are free.
const ROUNDS_OF_MANY: u32 = 2;
/// In the rounds before this one a block is not taken where a larger one would be broken.
const ROUNDS_TO_SPARE: u32 = 2;

/// Binary logarithm of the pages of a word.
pub(crate) const WORD_ORDER: u32 = WORD_PAGES.ilog2();

/// How often a word's blocks are tried for, while others take theirs from the same word.
const TRIES: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 4 };

/// What a search found: a page, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found(u32);

impl Found {
    /// Nothing, and nothing that could have served was in transit.
    pub const NOTHING: Self = Self(u32::MAX);
    /// Nothing, but pages were on their way: search again.
    pub const UNSETTLED: Self = Self(u32::MAX - 1);

    /// The first page of what is now the caller's.
    pub fn page(self) -> Option<u32> {
        (self.0 < Self::UNSETTLED.0).then_some(self.0)
    }

    /// Nothing was found; `seen` free pages were, of those that the set counts.
    fn nothing(seen: u32, counted: u32) -> Self {
        if seen < counted {
            Self::UNSETTLED
        } else {
            Self::NOTHING
        }
    }
}

/// Bits of `word` at which an aligned block of `2^order` set bits begins, at most the whole word.
#[inline(always)]
fn block_starts(word: u64, order: u32) -> u64 {
    largest_blocks(word, order, order).map_or(0, |(starts, _)| starts)
}

/// Takes the first aligned block of `2^order` pages of one word.
///
/// # Errors
///
/// The word in which there was none.
#[inline(always)]
fn take_first(pages: &PageSet, index: u32, order: u32) -> Result<u32, u64> {
    if order > WORD_ORDER {
        return take_words(pages, index, order).ok_or(0);
    }
    loop {
        let word = pages.look(index);
        let starts = block_starts(word, order);
        if starts == 0 {
            return Err(word);
        }
        let start = starts.trailing_zeros();
        if pages.take(index, low_bits(1 << order) << start) {
            return Ok(index * WORD_PAGES + start);
        }
    }
}

/// Takes the aligned block of whole words with word `index`, if it is all free.
#[inline(never)]
fn take_words(pages: &PageSet, index: u32, order: u32) -> Option<u32> {
    let count = 1 << (order - WORD_ORDER);
    let first = index & !(count - 1);
    pages.take_words(first, count).then_some(first * WORD_PAGES)
}

/// The largest aligned blocks of set bits that a word has, of `2^least` to `2^most` bits: where they begin, and
/// their order.
#[inline(always)]
fn largest_blocks(word: u64, least: u32, most: u32) -> Option<(u64, u32)> {
    // Without a loop or a table: a refill waits for it.
    let of_1 = word & word >> 1 & 0x5555_5555_5555_5555;
    let of_2 = of_1 & of_1 >> 2 & 0x1111_1111_1111_1111;
    let of_3 = of_2 & of_2 >> 4 & 0x0101_0101_0101_0101;
    let of_4 = of_3 & of_3 >> 8 & 0x0001_0001_0001_0001;
    let of_5 = of_4 & of_4 >> 16 & 0x0000_0001_0000_0001;
    let of_6 = of_5 & of_5 >> 32 & 1;
    let mut best = None;
    let mut consider = |starts, order| {
        if starts != 0 && order >= least && order <= most {
            best = Some((starts, order));
        }
    };
    consider(word, 0);
    consider(of_1, 1);
    consider(of_2, 2);
    consider(of_3, 3);
    consider(of_4, 4);
    consider(of_5, 5);
    consider(of_6, 6);
    best
}

/// Takes the largest aligned block of whole words with a word, of `2^least` to `2^most` pages and of two words at least, if all of it is free.
#[inline(always)]
fn take_most_words(pages: &PageSet, index: u32, (least, most): (u32, u32)) -> Option<(u32, u32)> {
    let mut order = most;
    while order > WORD_ORDER && order >= least {
        if let Some(page) = take_words(pages, index, order) {
            return Some((page, order));
        }
        order -= 1;
    }
    None
}

/// Takes the largest of the aligned blocks of `2^least` to `2^most` pages that begin in a word, the first at or after
/// position `from` if it can. Of several words, the aligned ones with this, as many as are free.
#[inline(never)]
fn take_largest(
    pages: &PageSet,
    index: u32,
    (least, most): (u32, u32),
    from: u32,
) -> Option<(u32, u32)> {
    if most > WORD_ORDER
        && pages.look(index) == u64::MAX
        && let Some(block) = take_most_words(pages, index, (least, most))
    {
        return Some(block);
    }
    for _ in 0..TRIES {
        let word = pages.look(index);
        let (starts, order) = largest_blocks(word, least, most)?;
        let start = first_from(starts, from);
        if pages.take(index, low_bits(1 << order) << start) {
            return Some((index * WORD_PAGES + start, order));
        }
    }
    None
}

/// Which of some words of free pages has the largest aligned block of `2^least` to `2^most` pages, and of those that have one the smallest; and the block's
/// order, at least.
///
/// Few instructions, most of them in a loop: what a refill executes is seldom in the instruction caches.
#[inline(always)]
fn best_of(words: [u64; AT_ONCE as usize], (least, most): (u32, u32)) -> Option<(u32, u32)> {
    let (mut blocks, mut best) = (words, which_are_not_empty(words));
    let mut order = 0;
    // What the compiler does not know it does not unroll.
    let largest = warp::opaque(WORD_ORDER);
    while order < largest {
        blocks = blocks.map(|starts| starts & starts >> (1 << order) & every(2 << order));
        let larger = which_are_not_empty(blocks);
        if order < most {
            if larger == 0 {
                break;
            }
            best = larger;
        } else if best & !larger != 0 {
            // What these have is no larger.
            best &= !larger;
            break;
        }
        order += 1;
    }
    // Blocks of several words begin with whole ones.
    let will_do = best != 0 && order >= least.min(WORD_ORDER);
    will_do.then(|| (best.trailing_zeros(), order))
}

/// Whether a word whose largest block has `order` is better for a block of order `wished` than one where that is `found`.
#[inline(always)]
fn fits_better(order: u32, found: u32, wished: u32) -> bool {
    if found < wished {
        order > found
    } else {
        (wished..found).contains(&order)
    }
}

/// Bits of those of some words that are not zero.
#[inline(always)]
fn which_are_not_empty(words: [u64; AT_ONCE as usize]) -> u32 {
    let bits = (0..)
        .zip(words)
        .map(|(number, word)| u32::from(word != 0) << number);
    bits.fold(0, |all, bit| all | bit)
}

/// Every bit whose number is a multiple of `step`, a power of two from 2 to 64.
#[inline(always)]
fn every(step: u32) -> u64 {
    // Not a table, which would lie in memory.
    let mut bits = 1_u64;
    for distance in [32, 16, 8, 4, 2] {
        let shift = if distance >= step { distance } else { 0 };
        bits |= bits << shift;
    }
    bits
}

/// The first set bit of `starts` at or after `from`, round the word.
#[inline(always)]
pub(crate) fn first_from(starts: u64, from: u32) -> u32 {
    let from = from % WORD_PAGES;
    (starts.rotate_right(from).trailing_zeros() + from) % WORD_PAGES
}

impl Core {
    /// Takes an aligned block of `2^most` pages of the word of page `near`, or the largest of some words, but of `2^least` pages at least: of those each `step`
    /// pages further on, round the first `end` pages. Its first page and its order.
    ///
    /// For heaps with many free pages: it does not ask the summaries where these are. Who gets less than wished comes again, so a few words more are
    /// read for it, several at once. Blocks of several words are tried for at each place.
    #[inline(always)]
    pub(crate) fn take_block_at(
        &self,
        sizes: (u32, u32),
        (near, step, end): (u32, u32, u32),
    ) -> Option<(u32, u32)> {
        let pages = self.free_pages();
        let step = (step / WORD_PAGES).max(1);
        // No more words than there are, even if the number of pages is damaged.
        let end = end.div_ceil(WORD_PAGES).min(pages.word_count());
        let (_, most) = sizes;
        let first = near / WORD_PAGES;
        // Not `%`, which may panic.
        let place = |number: u32| (first + number * step).checked_rem(end).unwrap_or(0);
        let tries = if most > WORD_ORDER { AT_ONCE } else { 1 };
        for number in 0..tries {
            if let Some(block) = take_largest(&pages, place(number), (most, most), near) {
                return Some(block);
            }
        }
        let (mut best, mut found) = (None, 0);
        for round in 0..ROUNDS_OF_MANY {
            let place = |number: u32| place(round * AT_ONCE + number);
            let words = [0, 1, 2, 3, 4, 5, 6, 7].map(|number| pages.look(place(number)));
            if let Some((number, order)) = best_of(words, sizes)
                && (best.is_none() || order > found)
            {
                (best, found) = (Some(place(number)), order);
            }
            if best.is_some() && found >= most.min(WORD_ORDER) {
                break;
            }
        }
        take_largest(&pages, best?, sizes, near)
    }

    /// Takes the largest aligned block of `2^least` to `2^most` pages of some words that it reads: its first page and its order. Of several words that have one
    /// of that size, it takes that of the word whose largest block is the smallest, so that what is whole stays whole. The words are spread over all, from that of page `near` on.
    ///
    /// The caller is waited for, so it reads several words at once, and no summary before; and each round is content with a block half as large as the one before;
    /// `rounds_before` come first in which only as large a block as wished will do. (Another may take it before, and then it gets what that word has left.) What
    /// would break a larger block is looked on for: blocks for bursts would soon be gone, and later refills wait for those longer.
    #[inline(never)]
    pub(crate) fn take_best_block(
        &self,
        sizes: (u32, u32),
        near: u32,
        rounds_before: u32,
    ) -> Option<(u32, u32)> {
        let pages = self.free_pages();
        let count = pages.word_count();
        let wished = sizes.1.min(WORD_ORDER);
        let apart = (count / AT_ONCE).max(1);
        // Not `/`, which may panic.
        let step = apart
            .checked_div(rounds_before + ROUNDS)
            .unwrap_or(0)
            .max(1);
        let mut first = near / WORD_PAGES;
        let (mut best, mut found) = (None, 0);
        for round in 0..rounds_before + ROUNDS {
            let place = |number: u32| {
                let place = first + number * apart;
                place.min(place.wrapping_sub(count))
            };
            let words = [0, 1, 2, 3, 4, 5, 6, 7].map(|number| {
                let place = place(number);
                if place < count {
                    pages.look_unmasked(place)
                } else {
                    0
                }
            });
            // Most words have fewer pages than a better block, which is told by fewer instructions.
            let least_bits = match best {
                None => 1,
                Some(_) if found < wished => 2 << found,
                Some(_) => 1 << wished,
            };
            let most_bits = words.map(u64::count_ones).into_iter().fold(0, u32::max);
            if most_bits >= least_bits
                && let Some((number, order)) = best_of(words, sizes)
                && (best.is_none() || fits_better(order, found, wished))
            {
                (best, found) = (Some(place(number)), order);
            }
            let may_be_taken = found <= wished || round >= ROUNDS_TO_SPARE;
            if best.is_some()
                && found + round.saturating_sub(rounds_before) >= wished
                && may_be_taken
            {
                break;
            }
            // Between those that were read.
            first += step;
        }
        take_largest(&pages, best?, sizes, near)
    }

    /// Takes an aligned block of `2^most` pages, or fewer but at least `2^least`, from the first word that the summaries show to have one:
    /// its first page and its order. Callers with different `scatter`, in pages, begin at different words.
    #[inline(never)]
    pub(crate) fn take_block(&self, (least, most): (u32, u32), scatter: u32) -> Option<(u32, u32)> {
        let pages = self.free_pages();
        let start = pages.nth_word(scatter / WORD_PAGES);
        let (mut index, mut end) = (start, pages.word_count());
        loop {
            if let Some(block) = take_largest(&pages, index, (least, most), scatter) {
                return Some(block);
            }
            pages.tidy_if_shown(index);
            index = match pages.next_word(index + 1) {
                Some(next) if next < end => next,
                // Once more from the front, up to where the search began.
                _ if end > start => {
                    end = start;
                    pages.next_word(0).filter(|next| *next < end)?
                }
                _ => return None,
            };
        }
    }

    /// Takes an aligned block of `2^order` pages in one word, looking at every word.
    #[inline(never)]
    pub(crate) fn take_block_anywhere(&self, order: u32) -> Found {
        let pages = self.free_pages();
        let count = pages.count();
        if count < 1 << order {
            return Found::NOTHING;
        }
        let (mut seen, mut from) = (0, 0);
        while let Some((index, _)) = pages.next_word_itself(from) {
            time::give_turn();
            match take_first(&pages, index, order) {
                Ok(page) => return Found(page),
                Err(word) => seen += word.count_ones(),
            }
            from = index + 1;
        }
        Found::nothing(seen, count)
    }

    /// Takes a run of `length` pages whose first page has an address that is a multiple of
    /// `alignment` (a power of two, in bytes).
    #[inline(never)]
    pub(crate) fn take_run(&self, length: u32, alignment: u64, start: u32) -> Found {
        let pages = self.free_pages();
        let count = pages.count();
        if count < length {
            return Found::NOTHING;
        }
        let mut search = RunSearch::new(self, length, alignment);
        loop {
            let mut clashed = false;
            for from in [start, 0] {
                while let Some(first) = search.find(from, |from| pages.next_word_itself(from)) {
                    if claim_run(&pages, first, length) {
                        return Found(first);
                    }
                    clashed = true;
                    pages.raise_epoch();
                }
            }
            if !clashed {
                break;
            }
        }
        Found::nothing(search.seen, count)
    }

    /// Whether the heap, with all the pages that it may ever have, has `length` pages from an address on
    /// that is a multiple of `alignment` (a power of two, in bytes).
    pub(crate) fn has_place(&self, length: u32, alignment: u64) -> bool {
        let first = RunSearch::new(self, length, alignment).phase;
        first.saturating_add(length.into()) <= u64::from(self.layout().page_count)
    }

    /// Takes the `length` pages from `first` on, for good; false if one of them is not free.
    pub(crate) fn take_exactly(&self, first: u32, length: u32) -> bool {
        let taken = claim_run(&self.free_pages(), first, length);
        if taken {
            self.settle_pages(first, length);
        }
        taken
    }

    /// Says that pages that were taken are in use, or can be found elsewhere.
    pub(crate) fn settle_pages(&self, first: u32, length: u32) {
        self.free_pages().renounce(length);
        self.tidy_pages(first, length);
    }

    /// Tidies the summary over pages that were taken. Not where they are taken: by now others can draw from them.
    pub(crate) fn tidy_pages(&self, first: u32, length: u32) {
        let end = (first + length).div_ceil(WORD_PAGES);
        let mut index = first / WORD_PAGES;
        while index < end {
            self.free_pages().tidy(index, end);
            index = (index / 64 + 1) * 64;
        }
    }

    /// Gives back `length` pages from `first` on.
    #[inline(never)]
    pub(crate) fn give_run(&self, first: u32, length: u32) {
        let pages = self.free_pages();
        pages.announce(length);
        pages.insert_run(first, length);
        pages.raise_epoch();
    }
}

/// Takes all pages of a run, or none and false.
#[inline(always)]
fn claim_run(pages: &PageSet, first: u32, length: u32) -> bool {
    let mut claimed = 0;
    let mut failed = false;
    for_each_word(first, length, |index, mask| {
        failed = failed || !pages.take(index, mask);
        if !failed {
            claimed += mask.count_ones();
        }
    });
    if failed {
        // The count was never lowered, so these are still counted.
        pages.insert_run(first, claimed);
    }
    !failed
}

/// A search for a run of free pages.
struct RunSearch {
    length: u32,
    /// First pages must be `phase` modulo `step`, a power of two.
    step: u64,
    phase: u64,
    /// Free pages seen in the last search, as far as it went.
    seen: u32,
}

impl RunSearch {
    fn new(heap: &Core, length: u32, alignment: u64) -> Self {
        let step = (alignment >> heap.page_shift).max(1);
        // Pages from an aligned address on to the base.
        let behind = heap.base >> heap.page_shift & (step - 1);
        Self {
            length,
            step,
            phase: (step - behind) & (step - 1),
            seen: 0,
        }
    }

    /// First page at or after `page` where a run may begin, if there can be one.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "larger than any page is as good"
    )]
    fn align(&self, page: u32) -> u32 {
        let page = u64::from(page);
        let aligned = page + (self.phase.wrapping_sub(page) & (self.step - 1));
        aligned.min(u64::from(u32::MAX)) as u32
    }

    /// Finds free pages in words from `from` on; they may be gone when they are claimed. `next_word` gives the first word from another on in which pages are free, and which.
    #[inline(always)]
    fn find(&mut self, from: u32, next_word: impl Fn(u32) -> Option<(u32, u64)>) -> Option<u32> {
        self.seen = 0;
        // The run that ends before the next word begins here.
        let (mut begin, mut next) = (from * WORD_PAGES, from);
        while let Some((index, free)) = next_word(next) {
            self.seen += free.count_ones();
            let base = index * WORD_PAGES;
            if index != next {
                // No page is free between.
                begin = base;
            }
            next = index + 1;
            let first = self.align(begin);
            if (base + free.trailing_ones()).saturating_sub(first) >= self.length {
                return Some(first);
            }
            if free == u64::MAX {
                continue;
            }
            if let Some(first) = self.find_within(free, base) {
                return Some(first);
            }
            begin = base + WORD_PAGES - free.leading_ones();
        }
        None
    }

    /// The first run of free pages that lies wholly in a word whose first page is `base`.
    fn find_within(&self, free: u64, base: u32) -> Option<u32> {
        if self.length > WORD_PAGES {
            return None;
        }
        // Where so many free pages begin.
        let (mut starts, mut spanned) = (free, 1);
        while spanned < self.length {
            let more = spanned.min(self.length - spanned);
            starts &= starts >> more;
            spanned += more;
        }
        starts &= self.aligned_in_word(base);
        (starts != 0).then(|| base + starts.trailing_zeros())
    }

    /// Bits of those pages of a word where a run may begin, whose first page is `base`.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "less than the pages of a word"
    )]
    fn aligned_in_word(&self, base: u32) -> u64 {
        let before = self.phase.wrapping_sub(base.into()) & (self.step - 1);
        match self.step {
            1 => u64::MAX,
            2..WORD_STEP => every(self.step as u32) << before,
            _ if before < WORD_STEP => 1 << before,
            _ => 0,
        }
    }
}

/// Pages of a word, among which at most one is the first of a run whose first pages lie so far apart or farther.
const WORD_STEP: u64 = WORD_PAGES as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MAX_ORDER;
    #[cfg(not(any(loom, shuttle)))]
    use crate::page_set::tests::with_set;

    #[test]
    fn steps_of_powers_of_two() {
        for log2 in 1..=6 {
            let step = 1 << log2;
            let expected = (0..64)
                .step_by(step)
                .fold(0, |bits, bit| bits | 1_u64 << bit);
            assert_eq!(every(1 << log2), expected);
        }
    }

    #[test]
    fn the_word_with_the_smallest_block_that_will_do_is_the_best() {
        let words = [1, 0x30, 0xff00, 0x0ff0, u64::MAX, 0, 0xffff_0000, 7];
        let order_of = |word| largest_blocks(word, 0, WORD_ORDER).map(|(_, order)| order);
        for (least, most) in (0..=9).flat_map(|least| (least..=9).map(move |most| (least, most))) {
            // The larger as far as it is of use, then the smaller, then the first.
            let rank = |order: u32| (order.min(most), MAX_ORDER - order);
            let orders = (0..).zip(words.map(order_of));
            let orders: Vec<(u32, u32)> = orders
                .filter_map(|(number, order)| Some((number, order?)))
                .filter(|(_, order)| *order >= least.min(WORD_ORDER))
                .collect();
            let best = orders.iter().rev().max_by_key(|(_, order)| rank(*order));
            let found = best_of(words, (least, most));
            assert_eq!(
                found.map(|(number, _)| number),
                best.map(|(number, _)| *number),
                "{least} to {most}"
            );
            for ((_, at_least), (_, order)) in found.iter().zip(best) {
                assert!(at_least <= order && order.min(&most) <= at_least);
            }
        }
        assert_eq!(best_of([0; AT_ONCE as usize], (0, 9)), None);
    }

    #[test]
    fn the_largest_blocks_are_found() {
        let word = 0b1111_1111_0111_1110_u64;
        assert_eq!(largest_blocks(word, 0, 6), Some((1 << 8, 3)));
        assert_eq!(largest_blocks(word, 0, 2), Some((block_starts(word, 2), 2)));
        assert_eq!(largest_blocks(word, 4, 6), None);
        assert_eq!(largest_blocks(u64::MAX, 1, 6), Some((1, 6)));
        assert_eq!(largest_blocks(0, 0, 6), None);
        for order in 0..=6 {
            let starts = block_starts(u64::MAX, order);
            assert_eq!(largest_blocks(u64::MAX, 0, order), Some((starts, order)));
        }
        assert_eq!(first_from(0b1001, 1), 3);
        assert_eq!(first_from(0b1001, 4), 0);
    }

    #[cfg(not(any(loom, shuttle)))]
    #[test]
    fn of_several_words_as_many_are_taken_as_are_free() {
        const WORDS: u32 = 16;
        // The word that is not free, and what is found then for who wants all of 16 words from the first on.
        for (taken, least, found) in [
            (None, 0, Some(4)),
            (None, 9, Some(4)),
            (Some(8), 0, Some(3)),
            (Some(4), WORD_ORDER, Some(2)),
            (Some(2), WORD_ORDER, Some(1)),
            (Some(1), WORD_ORDER, Some(0)),
            (Some(4), 8, Some(2)),
            (Some(4), 9, None),
            (Some(0), WORD_ORDER, None),
        ] {
            with_set(WORDS * WORD_PAGES, |set| {
                let free = (0..WORDS).filter(|word| Some(*word) != taken);
                free.for_each(|word| set.insert(word, u64::MAX));
                let block = take_largest(set, 0, (least, WORD_ORDER + 4), 0);
                let expected = found.map(|words_log2| (0, WORD_ORDER + words_log2));
                assert_eq!(block, expected, "without {taken:?}, of {least} at least");
                let is_gone = |word: &u32| set.look(*word) == 0;
                let gone = found.map_or(0, |words_log2| 1 << words_log2);
                let others = u32::from(taken.is_some_and(|word| word >= gone));
                assert_eq!((0..WORDS).filter(is_gone).count(), (gone + others) as usize);
            });
        }
    }

    #[test]
    fn runs_are_found_as_page_by_page() {
        /// The first run, by a look at each page.
        fn first_run(words: &[u64], search: &RunSearch) -> Option<u32> {
            let end = u32::try_from(words.len()).expect("few") * WORD_PAGES;
            let is_free =
                |page: u32| words[(page / WORD_PAGES) as usize] >> (page % WORD_PAGES) & 1 != 0;
            (0..end).find(|first| {
                search.align(*first) == *first
                    && first + search.length <= end
                    && (*first..first + search.length).all(is_free)
            })
        }
        let whole = u64::MAX;
        let patterns = [
            0,
            1,
            1 << 63,
            whole,
            whole - 1,
            whole >> 1,
            0x0ff0,
            0x5555_5555_5555_5555,
            0xfff0_0000_0000_00ff,
            0xc000_0000_0000_0003,
        ];
        for numbers in 0..patterns.len().pow(3) {
            let chosen = [1, 10, 100].map(|power| patterns[numbers / power % 10]);
            let next_word = |from: u32| {
                (from..)
                    .zip(&chosen[from as usize..])
                    .find(|(_, word)| **word != 0)
            };
            let next_word = |from| next_word(from).map(|(index, word)| (index, *word));
            for length in [1, 2, 3, 7, 8, 12, 63, 64, 65, 100, 128, 192] {
                for (step, phase) in [(1, 0), (2, 0), (2, 1), (8, 5), (64, 3), (128, 70), (256, 0)]
                {
                    let mut search = RunSearch {
                        length,
                        step,
                        phase,
                        seen: 0,
                    };
                    let expected = first_run(&chosen, &search);
                    assert_eq!(
                        search.find(0, next_word),
                        expected,
                        "{chosen:x?} {length} {step} {phase}"
                    );
                }
            }
        }
    }

    #[test]
    fn blocks_are_aligned_and_free() {
        let word = 0b1111_1111_0111_1110_u64;
        assert_eq!(block_starts(word, 0), word);
        assert_eq!(block_starts(word, 1), 0b0101_0101_0001_0100);
        assert_eq!(block_starts(word, 2), 0b0001_0001_0000_0000);
        assert_eq!(block_starts(word, 3), 0b1_0000_0000);
        assert_eq!(block_starts(u64::MAX, 6), 1);
        assert_eq!(block_starts(u64::MAX - 1, 6), 0);
    }
}
