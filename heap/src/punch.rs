//! Punching holes: pages of a slab in which no block lives become free, although others of its blocks live.
//!
//! Slabs grow until they last for several launches, and one block keeps all pages of its slab. Where a few blocks outlive each of many bursts they keep a whole heap: by the simulation
//! 41 MiB of 16 GiB did. So who finds nothing anywhere else looks for slabs of which few slots are in use, takes them out of their class's set, and gives back their empty pages, as one gives back
//! the blocks of a file that has holes. What is left of such a slab, which is *punched*, is found by nobody: no more of it is handed out, and its last free gives back the rest of its pages.
//!
//! # Invariants
//!
//! - Nobody sets a bit in a punched slab. Its use was found to be as large as the number of its bits that are set, and whoever had drawn a unit and not claimed its bit yet would have been
//!   counted in the use alone (see `Core::await_quiet`).
//! - A page that holds words of the slab's bitmap is kept, whether a block lies in it or not: what is freed in a page that is kept finds its own word.
//! - A page of a punched slab is kept exactly while it has the slab's entry. No other slab has that while the first page is kept, as it is to the end: of that order and class it would begin
//!   there.
//! - Of the owner and of the last free exactly one gives back what was kept: the owner if nothing was in use any more when it marked the slab, and else whose free leaves
//!   the [mark](PUNCHED) alone in the slab's use.
//! - A punched slab looks full, to all who do not ask for the mark: so it is not on its way anywhere, and frees know nothing of punching but the last.

use crate::class;
use crate::entry::Entry;
use crate::heap::Core;
use crate::hints::log2;
use crate::page_set::WORD_PAGES;
use crate::refill::ticket_slab;
use crate::slab::{AWAY, INSTALLED, PUNCHED, Slab, SlabState, USE};
use crate::stripe::{AT_ONCE, Stripe, which};
use crate::ticket::Ticket;
use simt::atomic::{Ordering, fence};
use simt::time;

/// Smaller slabs are left alone.
/// (Under exploration slabs are tiny.)
pub(crate) const LEAST_ORDER: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 2 };
/// Slabs are looked through of which less than this part is in use: fewer slots than the largest power of two that is no more than it.
const FEW_SHARE: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 8 };
/// Looks at a slab until its lanes have claimed what they drew, and nanoseconds between two.
const LOOKS: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 8 };
const NAP: u32 = 500;
/// At least this part of the pages that may be holes are.
const LEAST_SHARE: u32 = 4;
/// Pages of a slab, from its first on, that may be holes. What is drawn first lies behind them.
const MOST_HOLES: u32 = 256;

/// Which pages of a slab are holes, counted from its first.
#[derive(Clone, Copy)]
struct Holes([u32; (MOST_HOLES / u32::BITS) as usize]);

impl Holes {
    const NONE: Self = Self([0; (MOST_HOLES / u32::BITS) as usize]);

    /// Those from `first` on and before `end`.
    fn between(first: u32, end: u32) -> Self {
        let mut holes = Self::NONE;
        for (index, word) in (0..).zip(&mut holes.0) {
            let begin = index * u32::BITS;
            let below = |page: u32| {
                let bits = page.saturating_sub(begin);
                1_u32.checked_shl(bits).map_or(u32::MAX, |next| next - 1)
            };
            *word = below(end) & !below(first);
        }
        holes
    }

    /// Pages from `first` to `last` are none.
    fn fill(&mut self, first: u32, last: u32) {
        for page in first..=last.min(MOST_HOLES) {
            if let Some(word) = self.0.get_mut((page / u32::BITS) as usize) {
                *word &= !(1 << (page % u32::BITS));
            }
        }
    }

    fn has(&self, page: u32) -> bool {
        let word = self.0.get((page / u32::BITS) as usize);
        word.is_some_and(|word| word >> (page % u32::BITS) & 1 != 0)
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether so many pages of a slab are holes that it is worth it to punch these.
    fn are_enough(&self, slab: Slab) -> bool {
        self.count() >= (slab.pages().min(MOST_HOLES) / LEAST_SHARE).max(1)
    }
}

/// What is known of a slab before it is looked through. If that is in vain it is noted, so that nobody looks again who knows no more.
#[derive(Clone, Copy)]
struct Sight {
    /// How often slots of it were given to somebody. Else blocks that came since might be counted for those that went, and the slab be taken for the one that was here before.
    given: u32,
    /// Units that its stripe may still draw, of which nobody counts how many were.
    left: u32,
    /// Slots in use.
    used: u32,
}

impl Sight {
    /// Of a number of units or slots, which are fewer.
    const LEFT: u64 = (1 << 24) - 1;

    fn new(state: &SlabState, left: u32, used: u32) -> Self {
        let given = state.given();
        Self { given, left, used }
    }

    /// The note of it: how often slots were given in the upper half, then the [power](Self::power), and units left in the lowest 24 bits.
    fn note(self) -> u64 {
        u64::from(self.given) << 32 | u64::from(self.power()) << 24 | u64::from(self.left)
    }

    /// One more than the logarithm of the slots in use.
    fn power(self) -> u32 {
        log2(self.used) + 1
    }

    /// Whether a look may show more than what was noted of the one before: slots were given since, or fewer are in use than the power of two at or below what was.
    fn may_show_more_than(self, noted: u64) -> bool {
        noted >> 32 != u64::from(self.given)
            || noted & Self::LEFT != u64::from(self.left)
            || u64::from(self.power()) < noted >> 24 & 0xff
            || noted >> 24 & 0xff == 0
    }
}

/// What became of the listed slabs of a class that were worth punching.
#[derive(Clone, Copy, Default)]
struct Punched {
    /// Pages became free, or a slab is another's or another slab by now.
    some: bool,
    /// One was left as it is, since lanes have units of it that are not claimed yet.
    is_disturbed: bool,
}

impl Core {
    /// Punches slabs of a class, one class after the other from any one on, until pages became free: whether some did, or another is about to free some.
    #[inline(never)]
    pub(crate) fn punch_slabs(&self, of_stripes: bool) -> bool {
        let classes = self.layout().class_count;
        let first = self.at_random(classes);
        [first..classes, 0..first].into_iter().any(|classes| {
            self.any_with_slabs(classes, |class| self.punch_slabs_of(class, of_stripes))
        })
    }

    /// The same with the slabs of a class. The listed ones are not looked at as long as none of them may have become worth it since that was in vain: there may be a hundred thousand, and millions of requests.
    ///
    /// Stripes are looked at afterwards, for one of them may have got a slab that was listed; and who lists one that a stripe had says so, and announces pages, so who finds nothing comes again.
    #[inline(never)]
    fn punch_slabs_of(&self, class: u32, of_stripes: bool) -> bool {
        let listed = self.listed(class);
        let thinned = listed.thinned_since();
        let mut punched = Punched::default();
        if thinned.is_some() && listed.count() > 0 {
            punched = self.punch_listed_slabs(class);
        }
        let mut found = punched.some;
        if (of_stripes || thinned.is_some()) && listed.holders() > 0 {
            found |= self.let_stripes_go(class);
        }
        match thinned {
            Some(thinned) if !found => {
                // Who has the units may wait for the caller, so it is not to come again for these; but who searches later is to look.
                if !punched.is_disturbed {
                    listed.note_in_vain(thinned);
                }
                // What was said meanwhile the caller is to look at.
                listed.thinned_since().is_some_and(|now| now != thinned)
            }
            _ => found,
        }
    }

    /// The same with the listed slabs of a class.
    #[inline(never)]
    fn punch_listed_slabs(&self, class: u32) -> Punched {
        let listed = self.listed(class);
        let mut punched = Punched::default();
        let mut from = 0;
        while let Some(index) = listed.next_word_itself(from) {
            time::give_turn();
            // A guess, which `remove` verifies.
            let mut word = listed.look(index);
            while word != 0 {
                let page = index * WORD_PAGES + word.trailing_zeros();
                if let Some(slab) = self.slab_of_class(class, page)
                    && self.is_worth_punching(slab, 0, self.used_hint(page))
                {
                    // Before it is taken out of the set: it would come back there, and all who search would come again for it.
                    if self.await_quiet(slab).1.are_enough(slab) {
                        punched.some |= self.punch_listed(slab);
                    } else {
                        punched.is_disturbed = true;
                    }
                }
                word &= word - 1;
            }
            from = index + 1;
        }
        punched
    }

    /// Takes slabs that are worth it away from the stripes of a class, so that they are listed. True if one is being rewound, of which that cannot be told.
    fn let_stripes_go(&self, class: u32) -> bool {
        let mut found = false;
        let stripes = self.stripes_of(class);
        let mut from = 0;
        while from < stripes.count {
            let seen = self.look_at_stripes(class, from);
            let is_rewound = |seen: Ticket| seen.order() >= LEAST_ORDER && seen.is_rewinding();
            found |= which(seen, |seen| is_rewound(seen) && self.is_sound(class, seen)) != 0;
            let mut large = which(seen, may_be_punched);
            while large != 0 {
                let index = stripes.after(from, large.trailing_zeros());
                self.let_stripe_go(class, self.stripe(class, index));
                large &= large - 1;
            }
            from += AT_ONCE;
        }
        found
    }

    /// The same with a stripe that was seen to have a slab.
    fn let_stripe_go(&self, class: u32, stripe: &Stripe) {
        let seen = stripe.look();
        if !seen.has_slab() || seen.left() < 0 || !self.is_sound(class, seen) {
            return;
        }
        let (left, used) = (seen.units_left(), self.used_hint(seen.page()));
        if self.is_sparse(seen, used)
            && self.is_worth_punching(ticket_slab(seen), left, used.saturating_sub(left))
        {
            self.take_slab_away(stripe, seen);
        }
    }

    /// Whether few slots seem to be in use of the slab that a stripe was seen to have, whose use was seen to be `used`. Of one that is being rewound that cannot be told: yes.
    #[inline(always)]
    pub(crate) fn is_sparse(&self, seen: Ticket, used: u32) -> bool {
        let used = used.saturating_sub(seen.units_left());
        may_be_punched(seen)
            && (seen.is_rewinding() || self.are_few_in_use(ticket_slab(seen), used))
    }

    /// Whether so many slots in use are few of a slab that is large enough to be punched.
    #[inline(always)]
    fn are_few_in_use(&self, slab: Slab, used: u32) -> bool {
        slab.order() >= LEAST_ORDER && are_few(u32::from(self.page_shift), slab, used)
    }

    /// What is known of a slab of which its stripe has so many units left and so many slots are in use, if these are few, it is large enough to be punched, and it was not looked through in vain already:
    /// then it is again once slots were given, or its use is below the next power of two.
    #[inline(always)]
    fn may_be_worth_punching(&self, slab: Slab, left: u32, used: u32) -> Option<Sight> {
        if !self.are_few_in_use(slab, used) {
            return None;
        }
        let state = self.slab_state(slab.page());
        let sight = Sight::new(state, left, used);
        sight.may_show_more_than(state.searched()).then_some(sight)
    }

    /// Says so to who searches, if a slab that is listed may have become worth punching by a change of its use: whenever that falls [below a power of two](falls_below_a_power), and when the slab is listed.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_if_thinned(&self, slab: Slab, used: u32) {
        if !self.is_plausible(slab) || !self.are_few_in_use(slab, used) {
            return;
        }
        // Acquire: what changed the use before, as who listed the slab did, is passed on; and if the slab was looked through in vain, it was no longer ago.
        fence(Ordering::Acquire);
        if self.may_be_worth_punching(slab, 0, used).is_some() {
            self.listed(slab.class()).note_thinned();
        }
    }

    /// Whether enough pages of a slab are empty, of which its stripe has so many units left and so many slots are in use.
    fn is_worth_punching(&self, slab: Slab, left: u32, used: u32) -> bool {
        let Some(sight) = self.may_be_worth_punching(slab, left, used) else {
            return false;
        };
        // What is old makes fewer holes: not for long, but who is content with it would not come again.
        let is_worth_it = self.look_through(slab, false).1.are_enough(slab)
            || self.look_through(slab, true).1.are_enough(slab);
        if !is_worth_it {
            self.slab_state(slab.page()).note_searched(sight.note());
        }
        is_worth_it
    }

    /// How many bits of a slab are set, and which of its pages have neither a block nor a word of the bitmap: as it was a moment ago, or by changes that change nothing. These see each bit cleared by
    /// whose free the use was lowered before it was read.
    fn look_through(&self, slab: Slab, changes: bool) -> (u32, Holes) {
        let (slots, shift) = (self.slots(slab), u32::from(self.page_shift));
        let bytes = class::slot_bytes(slab.class());
        // A page of 2^n bytes has 2^(n - 9) words.
        let of_words = (slots.div_ceil(u32::BITS) - 1) >> (shift - 9);
        let mut holes = Holes::between(of_words + 1, slab.pages().min(MOST_HOLES));
        let mut count = 0;
        for first in (0..slots).step_by(u32::BITS as usize) {
            let word = self.slot_word(self.slot_word_index(slab.page(), first));
            // Relaxed: the blocks' contents are acquired with the use that no longer counts them.
            let mut bits = if changes {
                word.fetch_or(0, Ordering::Relaxed)
            } else {
                word.load(Ordering::Relaxed)
            };
            count += bits.count_ones();
            while bits != 0 {
                // Slabs are at most 2 GiB. (In a damaged heap bits may be set where no slot is.)
                let begin = (first + bits.trailing_zeros()).wrapping_mul(bytes);
                holes.fill(begin >> shift, begin.wrapping_add(bytes - 1) >> shift);
                bits &= bits - 1;
            }
        }
        (count, holes)
    }

    /// Punches a slab that was seen in its class's set, and worth it. True if pages became free, or it is another's or another slab by now.
    fn punch_listed(&self, seen: Slab) -> bool {
        // Who finds neither the slab nor its pages must know that they are on their way.
        self.free_pages().announce(seen.pages());
        // Release, of the announcement: to who sees the slab gone, and has a fence after its search.
        fence(Ordering::Release);
        let moved = !self.listed(seen.class()).remove(seen.page()) || self.punch_taken(seen);
        self.free_pages().renounce(seen.pages());
        moved
    }

    /// The same with what the caller took out of the class's set where it saw the slab.
    fn punch_taken(&self, seen: Slab) -> bool {
        let listed = self.listed(seen.class());
        let Some(slab) = self.slab_of_class(seen.class(), seen.page()) else {
            // It was never listed: the bit is damage, and gone.
            self.report_damage(seen.class());
            listed.settle(1);
            return true;
        };
        // Relaxed: who frees the last block from now on finds the slab away, and leaves it to us. What all did is acquired with the use.
        self.usage(slab.page()).fetch_add(AWAY, Ordering::Relaxed);
        // Of another than was seen too few pages may be announced.
        let is_seen = slab == seen;
        let is_gone = is_seen && self.punch(slab);
        if is_gone {
            listed.settle(1);
        } else {
            self.relist(slab);
        }
        is_gone || !is_seen
    }

    /// Punches a slab that the caller owns, and that is away, unless that is not worth it any more: false then.
    fn punch(&self, slab: Slab) -> bool {
        let word = self.usage(slab.page());
        let (used, holes) = self.await_quiet(slab);
        if used == 0 {
            // Relaxed: nobody will find the slab again.
            word.fetch_sub(AWAY, Ordering::Relaxed);
            self.retire(slab);
            return true;
        }
        // It was when it was seen, before others drew from it perhaps. (They did, or free, so that nobody comes again for nothing.)
        if !self.are_few_in_use(slab, used) || !holes.are_enough(slab) {
            return false;
        }
        self.give_pages_back(slab, |page| holes.has(page));
        // Acquire: if we give back the rest, what all did to the blocks. The fence of `insert_run` releases which pages are not the slab's any more.
        let before = word.fetch_add(PUNCHED, Ordering::Acquire);
        if before & USE == 0 {
            self.retire_punched(slab);
        }
        true
    }

    /// The use of an owned slab, and its holes once nobody has a unit of it that is not claimed yet, and no free is half done; no holes if that takes too long. (Of a slab that the caller does not own it is a
    /// guess.)
    ///
    /// Of the bits that are set each is of a block that the use counts, or of a unit that it counted and that was claimed meanwhile. So if they are as many, no unit is left to be claimed. (The use
    /// must have been read before the bits: units of it that are claimed make up for blocks that are freed.)
    fn await_quiet(&self, slab: Slab) -> (u32, Holes) {
        let mut used = 0;
        for _ in 0..LOOKS {
            // Acquire: the bits are read after it, and what was done to blocks that it does not count any more comes before what is done to their pages.
            used = self.usage(slab.page()).fetch_add(0, Ordering::Acquire) & (INSTALLED | USE);
            let (count, holes) = self.look_through(slab, true);
            if count == used {
                return (used, holes);
            }
            time::nanosleep(NAP);
        }
        (used.max(1), Holes::NONE)
    }

    /// Gives back the pages that are left of a punched slab without use. The caller has acquired from all who lowered the use. (A heap that shrank since may have some of its holes no more.)
    #[cold]
    #[inline(never)]
    pub(crate) fn retire_punched(&self, slab: Slab) {
        // Relaxed: released with the pages.
        self.usage(slab.page())
            .fetch_sub(AWAY + PUNCHED, Ordering::Relaxed);
        let own = Entry::slab(slab.class(), slab.order()).marked(self.mark());
        self.give_pages_back(slab, |page| {
            // Relaxed: of who punched the slab, by the caller's fence; others write other entries.
            Entry(self.entry(slab.page() + page).load(Ordering::Relaxed)) == own
        });
    }

    /// Makes those pages of an owned slab free that `is_free` says of, counted from the first, one at least. The first comes last, when nothing is asked any more: once it
    /// is free all of them may be another slab's.
    fn give_pages_back(&self, slab: Slab, is_free: impl Fn(u32) -> bool) {
        let pages = self.free_pages();
        let mut end = slab.pages();
        while end > 0 {
            let mut first = end;
            while first > 0 && is_free(first - 1) {
                first -= 1;
                // Relaxed: released with the page.
                self.entry(slab.page() + first)
                    .store(Entry::BLANK.0, Ordering::Relaxed);
            }
            if first < end {
                pages.announce(end - first);
                pages.insert_run(slab.page() + first, end - first);
            }
            end = first.saturating_sub(1);
        }
        pages.raise_epoch();
    }
}

/// Whether a stripe that was seen has a slab that is large enough, and no crosser at work but to rewind it.
#[inline(always)]
pub(crate) fn may_be_punched(seen: Ticket) -> bool {
    seen.has_slab() && seen.order() >= LEAST_ORDER && (seen.left() >= 0 || seen.is_rewinding())
}

/// Whether so many slots are fewer than that share of a slab's, rounded down to a power of two: a slab of fifteen slots never has few in use.
#[inline(always)]
fn are_few(page_shift: u32, slab: Slab, used: u32) -> bool {
    // By bytes, without a division.
    let bytes = u64::from(slab.pages()) << page_shift;
    let power = 2_u64 << log2(used);
    power * u64::from(class::slot_bytes(slab.class())) * u64::from(FEW_SHARE) <= bytes
}

/// Whether the use of a slab that is listed falls below a power of two, by a change of the slab's word from `before` to `after`. (Of others the flag, the mark or the away count are in both.)
#[inline(always)]
pub(crate) fn falls_below_a_power(before: u32, after: u32) -> bool {
    before ^ after > before & after
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::layout;
    use crate::malloc::Wish;
    use crate::simulated::host_heap::HostHeap;

    /// Bytes of the blocks of the slab that is to be punched, and of a page.
    const BYTES: u32 = 64;
    const PAGE: u64 = 1 << 10;

    fn obtain(host: &HostHeap, bytes: u32) -> Option<u64> {
        let address = host.heap().malloc(bytes.into()) as u64;
        (address != 0).then_some(address)
    }

    fn free(host: &HostHeap, address: u64) {
        // SAFETY: the tests free what they obtained, once.
        unsafe { host.heap().free(address as *mut u8) };
    }

    /// A full heap of 1 MiB, a slab of eight pages or more in it, and the slab's blocks.
    fn full() -> (HostHeap, Slab, Vec<u64>) {
        let host = HostHeap::new(1 << 20, 1, 0);
        let (mut blocks, mut large) = (Vec::new(), None);
        while let Some(block) = obtain(&host, BYTES) {
            blocks.push(block);
            let seen = host.stripe(class::class_of(BYTES)).look();
            if seen.order() >= 3 && large.is_none() {
                large = Some(ticket_slab(seen));
            }
        }
        let slab = large.expect("slabs grow");
        let begin = host.heap().base() + (u64::from(slab.page()) << host.heap().page_shift);
        let end = begin + (u64::from(slab.pages()) << host.heap().page_shift);
        blocks.retain(|block| (begin..end).contains(block));
        blocks.sort_unstable();
        (host, slab, blocks)
    }

    /// The same, but nothing is in use of the slab but its first block, so it is listed.
    fn sparse() -> (HostHeap, Slab) {
        let (host, slab, blocks) = full();
        blocks[1..].iter().for_each(|&block| free(&host, block));
        (host, slab)
    }

    fn is_listed(host: &HostHeap, slab: Slab) -> bool {
        let word = host
            .heap()
            .core()
            .listed(slab.class())
            .look(slab.page() / WORD_PAGES);
        word >> (slab.page() % WORD_PAGES) & 1 != 0
    }

    #[test]
    fn a_slab_that_is_sparse_is_punched() {
        let (host, slab) = sparse();
        let core = host.heap().core();
        assert!(is_listed(&host, slab));
        assert!(core.is_worth_punching(slab, 0, core.used_hint(slab.page())));
        assert!(core.punch_listed(slab));
        assert!(!is_listed(&host, slab));
        // But for those with words of the bitmap.
        assert!(core.free_pages().count() >= slab.pages() / 2);
    }

    #[test]
    fn slabs_that_were_looked_at_in_vain_are_not_looked_at_again() {
        let (host, slab, blocks) = full();
        let core = host.heap().core();
        let listed = core.listed(slab.class());
        // Of each page something lives on.
        let lives = |block: &&u64| (**block - host.heap().base()).is_multiple_of(PAGE);
        let dies = |block: &&u64| !lives(block);
        blocks
            .iter()
            .filter(dies)
            .for_each(|&block| free(&host, block));
        assert!(is_listed(&host, slab) && listed.thinned_since().is_some());
        assert!(!core.punch_slabs(true));
        assert_eq!(listed.thinned_since(), None);
        assert!(!core.punch_slabs(true));
        blocks
            .iter()
            .filter(lives)
            .skip(1)
            .for_each(|&block| free(&host, block));
        assert!(listed.thinned_since().is_some());
        assert!(core.punch_slabs(true));
        assert!(!core.punch_slabs(true));
    }

    #[test]
    fn who_searches_is_told_of_each_slab_that_may_have_become_worth_it() {
        let mut random = 1_u64;
        let mut told = 0;
        for _ in 0..20 {
            let (host, slab, mut blocks) = full();
            let core = host.heap().core();
            let listed = core.listed(slab.class());
            while blocks.len() > 1 {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let number = usize::try_from(random >> 40).expect("24 bits");
                free(&host, blocks.swap_remove(number % blocks.len()));
                let used = core.used_hint(slab.page());
                assert_eq!(used as usize, blocks.len());
                let thinned = listed.thinned_since();
                let sight = core.may_be_worth_punching(slab, 0, used);
                assert!(thinned.is_some() || sight.is_none());
                if let Some(thinned) = thinned {
                    told += 1;
                    if let Some(sight) = sight
                        && number & 1 != 0
                    {
                        core.slab_state(slab.page()).note_searched(sight.note());
                    }
                    if number & 3 != 0 && core.may_be_worth_punching(slab, 0, used).is_none() {
                        listed.note_in_vain(thinned);
                    }
                }
            }
        }
        assert!(told > 100, "{told}");
    }

    #[test]
    fn a_slab_that_others_drew_from_since_it_was_seen_is_put_back() {
        let (host, slab) = sparse();
        let core = host.heap().core();
        // Blocks of the class below come from the slab, which stays listed.
        while core.used_hint(slab.page()) < core.slots(slab) / 2 {
            obtain(&host, BYTES - 16).expect("the slab has room");
        }
        assert!(!core.punch_listed(slab));
        assert!(is_listed(&host, slab));
        assert_eq!(core.free_pages().count(), 0);
    }

    #[test]
    fn a_larger_slab_than_was_seen_is_put_back() {
        let (host, slab) = sparse();
        let core = host.heap().core();
        let seen = Slab::new(slab.page(), slab.class(), slab.order() - 1);
        // The caller is to come again.
        assert!(core.punch_listed(seen));
        assert!(is_listed(&host, slab));
        assert_eq!(core.free_pages().count(), 0);
        assert!(core.punch_listed(slab));
    }

    /// Another slab where one was: all of it was drawn, and it is in no stripe. And its blocks.
    fn full_again(host: &HostHeap, slab: Slab) -> (Slab, Vec<u64>) {
        let core = host.heap().core();
        let next = Slab::new(slab.page(), class::class_of(2 * BYTES), slab.order());
        assert!(core.take_exactly(next.page(), next.pages()));
        core.found_slab(next);
        let slots = core.slots(next);
        assert!(!core.reserve(next, slots));
        for first in (0..slots).step_by(32) {
            let word = core.slot_word(core.slot_word_index(next.page(), first));
            word.store(u32::MAX, Ordering::Relaxed);
        }
        let begin = host.heap().base() + u64::from(next.page()) * PAGE;
        let block = |slot| begin + u64::from(slot * 2 * BYTES);
        (next, (0..slots).map(block).collect())
    }

    /// Whether pages of a slab are had, of which one block lives, if who listed the slab that was there before `rests` before it says so, until then.
    fn has_pages_while_a_lister_rests(rests: bool) -> bool {
        let (host, slab, blocks) = full();
        let core = host.heap().core();
        // Whose free lists the slab, all but the last change of that.
        free(&host, blocks[0]);
        if rests {
            core.usage(slab.page()).fetch_add(AWAY, Ordering::Relaxed);
        }
        blocks[1..].iter().for_each(|&block| free(&host, block));
        let (next, blocks) = full_again(&host, slab);
        blocks[1..].iter().for_each(|&block| free(&host, block));
        if rests {
            let before = core.usage(slab.page()).fetch_sub(AWAY, Ordering::Relaxed);
            core.note_if_thinned(slab, before & USE);
        }
        assert!(is_listed(&host, next) && core.may_be_worth_punching(next, 0, 1).is_some());
        obtain(&host, 1024).is_some()
    }

    #[test]
    fn a_slab_is_found_though_who_listed_the_one_before_rests() {
        assert!(has_pages_while_a_lister_rests(false));
        assert!(has_pages_while_a_lister_rests(true));
    }

    #[test]
    fn a_slab_is_found_though_who_looked_through_the_one_before_rests() {
        let (host, slab, blocks) = full();
        let core = host.heap().core();
        blocks[1..].iter().for_each(|&block| free(&host, block));
        // It is in vain, somehow, and who looks rests before it says so.
        let sight = core.may_be_worth_punching(slab, 0, 1).expect("few live");
        free(&host, blocks[0]);
        let (next, blocks) = full_again(&host, slab);
        core.slab_state(slab.page()).note_searched(sight.note());
        blocks[1..].iter().for_each(|&block| free(&host, block));
        assert!(is_listed(&host, next));
        assert!(obtain(&host, 1024).is_some());
    }

    #[test]
    fn a_slab_of_which_more_was_drawn_since_it_was_looked_through_is_looked_through_again() {
        let (host, slab, blocks) = full();
        // One block in each page that may be a hole lives.
        let page = |block: u64| (block - blocks[0]) / PAGE;
        let first_of = |page_of: u64| blocks.iter().find(|block| page(**block) == page_of);
        let pages = 1..u64::from(slab.pages());
        let kept: Vec<_> = pages.map(|page| *first_of(page).expect("one")).collect();
        let others = blocks.iter().filter(|block| !kept.contains(block));
        others.for_each(|&block| free(&host, block));
        assert_eq!(obtain(&host, 1024), None);
        // Some more, from the top of the listed slab, and then the others go.
        for _ in 0..2 * kept.len() {
            let block = obtain(&host, BYTES - 16).expect("the slab has room");
            assert_eq!(page(block), u64::from(slab.pages()) - 1);
        }
        kept[..kept.len() - 1]
            .iter()
            .for_each(|&block| free(&host, block));
        assert!(obtain(&host, 1024).is_some());
    }

    #[test]
    fn a_slab_is_punched_once_who_has_a_unit_of_it_has_claimed_that() {
        let (host, slab) = sparse();
        let core = host.heap().core();
        let ticket = core.scavenge(Wish::new(class::class_of(BYTES - 16), 16), 1);
        assert_eq!(ticket.page(), slab.page());
        // Who has it may wait for who asks.
        assert_eq!(obtain(&host, 1024), None);
        assert!(is_listed(&host, slab));
        let unit = ticket.units_left() - 1;
        let slot = unit << ticket.density();
        assert_eq!(
            core.claim_word(ticket, slot, 1, ticket.density())
                .count_ones(),
            1
        );
        assert!(obtain(&host, 1024).is_some());
    }

    #[test]
    fn a_slab_that_a_stripe_got_since_stripes_were_looked_at_is_found() {
        let (host, slab) = sparse();
        let core = host.heap().core();
        let classes = core.layout().class_count;
        let epoch = core.epochs_first(classes);
        let held = core.reclaim_idle();
        assert!(!held.was_idle && !held.is_sparse && held.is_listed);
        obtain(&host, BYTES).expect("of the slab");
        assert!(!is_listed(&host, slab));
        // Who wants pages is told of nothing else.
        assert_eq!(core.epochs_first(classes), epoch);
        assert!(core.punch_slabs(held.is_sparse));
    }

    #[test]
    fn few_slots_are_fewer_than_a_share_rounded_down_to_a_power_of_two() {
        for (page_shift, class) in
            (10..=20).flat_map(|shift| (0..96).map(move |class| (shift, class)))
        {
            for order in (0..=8).filter(|order| page_shift + order <= 26) {
                let slab = Slab::new(0, class, order);
                let slots = layout::slots(page_shift, class, order);
                let most = slots / FEW_SHARE;
                let power = most.checked_ilog2().map_or(0, |log2| 1 << log2);
                for used in (power.max(3) - 2..power + 3).chain([1, most]) {
                    let few = are_few(page_shift, slab, used);
                    let expected = used < power;
                    assert_eq!(few, expected, "{page_shift} {class} {order} {used}");
                }
            }
        }
    }
}
