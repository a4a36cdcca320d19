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

mod holes;
mod sight;

use crate::class;
use crate::entry::Entry;
use crate::heap::Core;
use crate::hints::log2;
use crate::page_set::WORD_PAGES;
use crate::refill::ticket_slab;
use crate::slab::{AWAY, INSTALLED, PUNCHED, Slab, USE};
use crate::stripe::{AT_ONCE, Stripe, which};
use crate::ticket::Ticket;
use holes::{Holes, MOST_HOLES};
use sight::Sight;
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
        // A guess, which `remove` verifies.
        while let Some((index, mut word)) = listed.next_word_itself(from) {
            time::give_turn();
            while word != 0 {
                let page = index * WORD_PAGES + word.trailing_zeros();
                if let Some(slab) = self.listed_slab_worth_punching(class, page) {
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

    /// The slab that begins at a page that was seen in a class's set, if it is worth punching.
    #[inline(always)]
    fn listed_slab_worth_punching(&self, class: u32, page: u32) -> Option<Slab> {
        // A damaged set may have pages that the heap has not.
        if page >= self.layout().page_count {
            return None;
        }
        // A guess, by which most are passed over, and nothing is waited for.
        self.slab_with_few_in_use(class, page)?;
        // Before the slab and its use are read: who raises that counts it afterwards.
        let given = self.slab_state(page).given();
        let (slab, used) = self.slab_with_few_in_use(class, page)?;
        self.is_worth_punching(slab, given, 0, used).then_some(slab)
    }

    /// The slab of a class that begins at a page and is in no stripe, and its use, if that is little. (How much of one in a stripe is in use its use alone does not tell: some of that may still be drawn.)
    #[inline(always)]
    fn slab_with_few_in_use(&self, class: u32, page: u32) -> Option<(Slab, u32)> {
        let slab = self.slab_of_class(class, page)?;
        // Relaxed: a guess, or after the count of what was given. The flag makes it more than few.
        let used = self.usage(page).load(Ordering::Relaxed) & (INSTALLED | USE);
        self.are_few_in_use(slab, used).then_some((slab, used))
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
        let first = stripe.look();
        if !first.has_slab() || !self.is_sound(class, first) {
            return;
        }
        // Before what is left, and the use: as above.
        let given = self.slab_state(first.page()).given();
        let seen = stripe.look();
        if seen.left() < 0 || !seen.is_of_slab_of(first) {
            return;
        }
        let (left, used) = (seen.units_left(), self.used_hint(seen.page()));
        if self.is_sparse(seen, used)
            && self.is_worth_punching(ticket_slab(seen), given, left, used.saturating_sub(left))
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

    /// What is known of a slab of which slots may have been given so often, its stripe has so many units left, and so many slots are in use, if these are few, it is large enough to be punched, and it was not
    /// looked through in vain already: then it is again once slots may have been given, its stripe was drawn from, or its use is below the next lower power of two.
    #[inline(always)]
    fn may_be_worth_punching(&self, slab: Slab, given: u32, left: u32, used: u32) -> Option<Sight> {
        if !self.are_few_in_use(slab, used) {
            return None;
        }
        let sight = Sight { given, left, used };
        let noted = self.slab_state(slab.page()).searched();
        sight.may_show_more_than(noted).then_some(sight)
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
        let given = self.slab_state(slab.page()).given();
        if self.may_be_worth_punching(slab, given, 0, used).is_some() {
            self.listed(slab.class()).note_thinned();
        }
    }

    /// Whether enough pages of a slab are empty, of which slots may have been given so often, its stripe has so many units left, and so many slots are in use.
    fn is_worth_punching(&self, slab: Slab, given: u32, left: u32, used: u32) -> bool {
        let Some(sight) = self.may_be_worth_punching(slab, given, left, used) else {
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
        // It was when it was seen, before others drew from it perhaps. (They did, or free: it was quiet when it was seen. So nobody comes again for nothing.)
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
mod tests;
