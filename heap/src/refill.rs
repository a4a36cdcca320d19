//! Finding a slab for a stripe that ran out.
//!
//! The crosser of a stripe lets go of the old slab, finds another, and publishes it; the others
//! try again for a while, and then help themselves elsewhere (see [`crate::scavenge`]).

use crate::cold;
use crate::heap::{Core, Heap, own_stripe};
use crate::layout::ClassInfo;
use crate::malloc::Wish;
use crate::page_set::WORD_PAGES;
use crate::pages::Found;
use crate::slab::Slab;
use crate::stripe::Stripe;
use crate::ticket::Ticket;
use simt::atomic::Ordering;

/// Odd, and 2^32 over the golden ratio: multiples of it lie far apart modulo 2^32.
const SPREAD: u32 = 0x9e37_79b9;
/// Listed slabs that are looked at before fresh pages are preferred.
const PROBES: u32 = 8;
/// Pages are scarce if less than this part of them is free.
const SCARCE_SHARE: u32 = 8;
/// Every so many refills a stripe's slabs double: then what a stripe has not used yet of its slab is
/// a small part of what it has used.
const REFILLS_TO_GROW: u32 = 4;
/// A stripe's slabs grow until all stripes of its class could get this many.
const SLABS_OF_CLASS: u32 = 2;
/// Attempts after which a group looks elsewhere than at its stripe, which another refills.
pub(crate) const PATIENCE: u32 = 100;
/// Free slots are spread over a slab if the lowest word of its bitmap has this many.
const SPREAD_BITS: u32 = 4;
/// Units span at most `2^MAX_DENSITY` slots: a word of the bitmap.
const MAX_DENSITY: u32 = 5;

/// What a search for a slab gave: a slab that the caller owns and where it came from, or why
/// there is none. One word, so that it travels in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Search(u32);

impl Search {
    /// Flag beside a slab: it was made of free pages; otherwise it comes from its class's set.
    const FROM_PAGES: u32 = 1 << Slab::BITS;
    /// No slab, no page.
    pub const EXHAUSTED: Self = Self(u32::MAX);
    /// No slab; pages are free, but not side by side.
    pub const FRAGMENTED: Self = Self(u32::MAX - 1);
    /// No slab, but something was on its way.
    pub const UNSETTLED: Self = Self(u32::MAX - 2);

    fn listed(slab: Slab) -> Self {
        Self(slab.0)
    }

    fn of_pages(slab: Slab) -> Self {
        Self(slab.0 | Self::FROM_PAGES)
    }

    /// The slab.
    pub fn slab(self) -> Option<Slab> {
        (self.0 < Self::FROM_PAGES << 1).then_some(Slab(self.0 & (Self::FROM_PAGES - 1)))
    }

    fn is_of_pages(self) -> bool {
        self.0 & Self::FROM_PAGES != 0
    }
}

/// What a refill looks at before it does anything: guesses, that what it then does verifies.
#[derive(Clone, Copy)]
struct Hints {
    info: ClassInfo,
    /// Free pages.
    free: u32,
    /// Listed slabs of the class.
    listed: u32,
    /// Stripes that have a slab.
    installed: u32,
}

impl Heap {
    /// Draws `count` units from a stripe of the wish's class for a group of lanes: the word before, of
    /// which the units from `left - count` up are the group's. A word with no units left means:
    /// draw again, as attempt `attempt + 1`; [`Ticket::EXHAUSTED`]: there are none.
    ///
    /// It never waits: the other lanes of the warp wait for it.
    #[inline(always)]
    pub(crate) fn draw(&self, wish: Wish, count: u32, attempt: u32) -> Ticket {
        let class = wish.class();
        let index = own_stripe() & self.stripe_mask(class);
        let mut before = Ticket(0);
        if attempt == 0 {
            before = self.stripe(class, index).draw(count);
            if before.left() >= count.cast_signed() {
                return before;
            }
        }
        cold::draw(self, wish, index, count, before, attempt)
    }
}

impl Core {
    /// The rest of [`draw`](Heap::draw) for a group that did not get all that it drew (attempt 0,
    /// `drawn` is what it drew from), or comes again.
    #[cold]
    #[inline(never)]
    pub(crate) fn draw_beyond(
        &self,
        wish: Wish,
        index: u32,
        count: u32,
        drawn: Ticket,
        attempt: u32,
    ) -> Ticket {
        let class = wish.class();
        let stripe = self.stripe(class, index);
        let mut before = drawn;
        if attempt != 0 {
            before = stripe.look();
            if before.left() >= 0 {
                before = stripe.draw(count);
                if before.left() >= count.cast_signed() {
                    return before;
                }
            }
        }
        if before.left() >= 0 {
            let drawn = self.cross(stripe, before, count);
            if drawn.left() > 0 {
                return drawn;
            }
        } else if attempt < PATIENCE {
            return Ticket::empty(class);
        }
        self.scavenge(wish, count)
    }

    /// What a group that drew `count` units from a stripe as its crosser gets: what was left of
    /// the old slab, or else units of the new one, which it does not have to draw.
    pub(crate) fn cross(&self, stripe: &Stripe, before: Ticket, count: u32) -> Ticket {
        if before.left() > 0 {
            self.refill(stripe, before, 0);
            return before;
        }
        self.refill(stripe, before, count)
    }

    /// The crosser's duty: replaces the slab of the stripe, whose word was `before`, and keeps
    /// `reserved` units of the new one. Gives the new word before they were drawn; an empty one if
    /// there is no slab to be had, as the stripe is then.
    ///
    /// A crosser without units must reserve some: else others may find the slab idle and reclaim
    /// it before the crosser comes again, and two could do that to each other for ever.
    #[inline(never)]
    fn refill(&self, stripe: &Stripe, before: Ticket, reserved: u32) -> Ticket {
        let state = before.has_slab().then(|| self.glance(ticket_slab(before)));
        let hints = self.hints(before.class());
        if let Some(state) = state {
            let ticket = self.recycle(ticket_slab(before), state);
            if ticket.left() > 0 {
                stripe.publish(ticket.without(reserved).following(before));
                return ticket;
            }
        }
        let at_hand = self.take_at_hand(before, hints);
        if let Some(slab) = at_hand.slab() {
            let ticket = self.ticket_for(slab);
            self.install(slab.page(), ticket.left().cast_unsigned());
            self.let_go(before);
            stripe.publish(ticket.without(reserved).following(before));
            self.arrived(at_hand, slab);
            return ticket;
        }
        if self.is_scarce(hints.free) {
            let ticket = self.adopt(stripe, before, reserved);
            if ticket.left() > 0 {
                return ticket;
            }
        }
        self.refill_by_search(stripe, before, reserved)
    }

    /// Reads all hints for a slab of a class at once.
    #[inline(always)]
    fn hints(&self, class: u32) -> Hints {
        let free = self.free_pages().count();
        let listed = self.listed(class).count();
        // Relaxed: a hint.
        let installed = self.globals().installed.0.load(Ordering::Relaxed);
        Hints {
            info: self.class_info(class),
            free,
            listed,
            installed,
        }
    }

    /// Whether so few pages are free that what other stripes have left should be used up first.
    fn is_scarce(&self, free: u32) -> bool {
        free < self.layout().page_count / SCARCE_SHARE
    }

    /// Replaces the slab of a stripe by that of another of its class with all that is left of it:
    /// the word before `reserved` units of it were drawn, or an empty one if no other has any.
    #[inline(never)]
    fn adopt(&self, stripe: &Stripe, before: Ticket, reserved: u32) -> Ticket {
        let class = before.class();
        let mask = self.stripe_mask(class);
        let listed = self.listed(class);
        for step in 1..=mask {
            let other = self.stripe(class, own_stripe().wrapping_add(step) & mask);
            let seen = other.look();
            if seen.left() <= 0 {
                continue;
            }
            // Who finds the other stripe empty must know that a slab is on its way.
            listed.announce(1);
            let ticket = if other.detach(seen) {
                self.let_go(before);
                // Relaxed: a hint.
                self.globals().installed.0.fetch_sub(1, Ordering::Relaxed);
                stripe.publish(seen.without(reserved).following(before));
                listed.raise_epoch();
                seen
            } else {
                Ticket::empty(class)
            };
            listed.renounce(1);
            if ticket.left() > 0 {
                return ticket;
            }
        }
        Ticket::empty(class)
    }

    /// Takes a stripe's slab away, whose units are used up.
    fn let_go(&self, before: Ticket) {
        if before.has_slab() {
            self.uninstall(ticket_slab(before), 0);
        } else {
            // Relaxed: a hint for the size of slabs.
            self.globals().installed.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// [`refill`](Self::refill) where the slab is not at hand.
    #[inline(never)]
    fn refill_by_search(&self, stripe: &Stripe, before: Ticket, reserved: u32) -> Ticket {
        let class = before.class();
        self.let_go(before);
        // Only now: who sees the stripe without the slab finds the slab where it went.
        stripe.publish(Ticket::refilling(class).following(before));
        let obtained = self.obtain(class);
        if let Some(slab) = obtained.slab() {
            let ticket = self.ticket_for(slab);
            self.install(slab.page(), ticket.left().cast_unsigned());
            stripe.publish(ticket.without(reserved).following(before));
            self.arrived(obtained, slab);
            return ticket;
        }
        // Relaxed: a hint.
        self.globals().installed.0.fetch_sub(1, Ordering::Relaxed);
        stripe.publish(Ticket::empty(class).following(before));
        Ticket::empty(class)
    }

    /// Says that an obtained slab can be drawn from by all.
    fn arrived(&self, obtained: Search, slab: Slab) {
        self.listed(slab.class()).raise_epoch();
        self.settle(obtained, slab);
    }

    /// A slab that is found by the few accesses that a search of everything begins with, while the
    /// stripe keeps its old one: one of the class's listed slabs with room, or, if none is listed and
    /// pages are not scarce, free pages.
    fn take_at_hand(&self, before: Ticket, hints: Hints) -> Search {
        let class = before.class();
        if hints.listed != 0 {
            return self
                .take_listed(class, PROBES)
                .map_or(Search::UNSETTLED, Search::listed);
        }
        let order = self.wished_order(before, hints);
        if self.is_scarce(hints.free) || hints.free < 1 << order {
            return Search::UNSETTLED;
        }
        match self.take_block_near(order, scatter(class, order, hints)) {
            Some(page) => self.make_slab(page, class, order),
            None => Search::UNSETTLED,
        }
    }

    /// Reads what [`recycle`](Self::recycle) decides by: slots free, and the lowest word of the
    /// bitmap.
    #[inline(always)]
    fn glance(&self, slab: Slab) -> (u32, u32) {
        // Relaxed: a guess.
        let lowest = self.slot_word(self.slot_word_index(slab.page(), 0));
        (self.slots_free(slab), lowest.load(Ordering::Relaxed))
    }

    /// The ticket by which the slab of a stripe can be drawn from once more, if enough of it was
    /// freed meanwhile; else an empty one. Only the stripe's crosser may ask.
    ///
    /// Where blocks live shortly this is all that a refill is: one change beside the looks.
    /// Three quarters are enough; a quarter is, if the free slots are spread. They are not where
    /// what was allocated last, the lowest slots, still lives: then units there would find none.
    fn recycle(&self, slab: Slab, (free, taken): (u32, u32)) -> Ticket {
        let slots = self.slots(slab);
        let lowest_slots = u32::MAX >> (32 - slots.min(32));
        let spread = (!taken & lowest_slots).count_ones() >= SPREAD_BITS.min(slots / 4);
        if free < slots / 4 || free == 0 || (free < slots - slots / 4 && !spread) {
            return Ticket::empty(slab.class());
        }
        let ticket = draw_all(slab, slots, free);
        self.reserve(slab, ticket.left().cast_unsigned());
        ticket
    }

    /// The ticket by which all that is free in an owned slab can be drawn.
    pub(crate) fn ticket_for(&self, slab: Slab) -> Ticket {
        draw_all(slab, self.slots(slab), self.slots_free(slab))
    }

    /// Says that an obtained slab can be found again, or is in use.
    pub(crate) fn settle(&self, obtained: Search, slab: Slab) {
        if obtained.is_of_pages() {
            self.settle_pages(slab.page(), slab.pages());
        } else {
            self.listed(slab.class())
                .settle(slab.page() / WORD_PAGES, 1);
        }
    }

    /// Lists an obtained slab.
    pub(crate) fn list_obtained(&self, obtained: Search, slab: Slab) {
        if obtained.is_of_pages() {
            self.list(slab);
            self.settle(obtained, slab);
        } else {
            self.relist(slab);
        }
    }

    /// Finds a slab of a class with slots free, for the caller to own: a listed one with room,
    /// or else fresh pages, or else any listed one.
    #[inline(never)]
    pub(crate) fn obtain(&self, class: u32) -> Search {
        let listed = self.listed(class);
        if listed.count() > 0
            && let Some(slab) = self.take_listed(class, PROBES)
        {
            return Search::listed(slab);
        }
        let pages = self.take_pages(class);
        if pages.slab().is_some() || listed.count() == 0 {
            return pages;
        }
        self.take_listed(class, u32::MAX)
            .map_or(Search::UNSETTLED, Search::listed)
    }

    /// Takes a listed slab with room, looking at `probes` of them; any, if all may be looked at.
    #[inline(never)]
    fn take_listed(&self, class: u32, probes: u32) -> Option<Slab> {
        let listed = self.listed(class);
        let room = self.eighths_wanted();
        // Where others do not begin, nor this stripe the last time: the product spreads.
        let place = own_stripe()
            .wrapping_add(listed.epoch_hint())
            .wrapping_mul(SPREAD);
        let start = share_of(place, listed.word_count());
        let mut left = probes;
        let (mut from, mut end) = (start, listed.word_count());
        loop {
            let Some(index) = listed.next_word(from).filter(|index| *index < end) else {
                // Once more from the front, up to where the search began.
                if start == 0 || end == start {
                    return None;
                }
                (from, end) = (0, start);
                continue;
            };
            // Relaxed: a guess, which `remove` verifies.
            let mut word = listed.word(index).load(Ordering::Relaxed);
            while word != 0 {
                if left == 0 {
                    return None;
                }
                left -= 1;
                let page = index * WORD_PAGES + word.trailing_zeros();
                let wanted = probes == u32::MAX || self.looks_roomy(class, page, room);
                if wanted && listed.remove(page) {
                    return Some(self.owned_slab(page));
                }
                word &= word - 1;
            }
            from = index + 1;
        }
    }

    /// How many eighths of a listed slab must be free to be preferred to fresh pages: most if there
    /// are plenty, and the fewer pages are left, the fewer. Slabs that nobody refills from drain and
    /// become pages again.
    fn eighths_wanted(&self) -> u32 {
        // Relaxed: a hint.
        let free = self.free_pages().count();
        (free / (self.layout().page_count / 8).max(1)).clamp(1, 6)
    }

    /// Makes a slab of free pages: as large as is good now, and smaller if there is none.
    fn take_pages(&self, class: u32) -> Search {
        let count = self.free_pages().count();
        let hints = self.hints(class);
        let least = hints.info.least_order;
        if count >= 1 << least {
            let mut order = self.wished_order(Ticket::empty(class), hints) + 1;
            while order > least {
                order -= 1;
                if let Some(page) = self.take_block(order, scatter(class, order, hints)) {
                    return self.make_slab(page, class, order);
                }
            }
        }
        let found = self.take_block_anywhere(least);
        match found.page() {
            Some(page) => self.make_slab(page, class, least),
            None if found == Found::UNSETTLED => Search::UNSETTLED,
            None if count >= 1 << least => Search::FRAGMENTED,
            None => Search::EXHAUSTED,
        }
    }

    /// Order that a new slab for a stripe should have: the usual one at first, and more for a stripe
    /// that has used up [`REFILLS_TO_GROW`], as long as all stripes of the class can get
    /// [`SLABS_OF_CLASS`] of the free pages. So what is wanted much is refilled seldom, and what
    /// is wanted little takes little.
    fn wished_order(&self, before: Ticket, hints: Hints) -> u32 {
        let info = hints.info;
        if !before.has_slab() {
            return info.usual_order;
        }
        let slabs = SLABS_OF_CLASS * (self.stripe_mask(before.class()) + 1);
        let affordable = log2(hints.free).saturating_sub(log2(slabs));
        let grows = before.generation() % REFILLS_TO_GROW == REFILLS_TO_GROW - 1;
        let order = (before.order() + u32::from(grows)).min(affordable);
        // Not `clamp`, which may panic.
        order.max(info.usual_order).min(info.largest_order)
    }

    fn make_slab(&self, page: u32, class: u32, order: u32) -> Search {
        let slab = Slab::new(page, class, order);
        self.found_slab(slab);
        Search::of_pages(slab)
    }
}

/// Where in the free pages to begin to look: the searchers of all stripes spread over as many
/// pages as they need in all, from the front on.
fn scatter(class: u32, order: u32, hints: Hints) -> u32 {
    let pages = hints.installed << order;
    let place = own_stripe().wrapping_mul(SPREAD) ^ class.wrapping_mul(0x85eb_ca6b);
    share_of(place, pages)
}

/// `place / 2^32 * length`: the upper half of the product.
fn share_of(place: u32, length: u32) -> u32 {
    ((u64::from(place) * u64::from(length)) >> 32) as u32
}

/// Binary logarithm, rounded down; 0 of 0.
#[allow(clippy::manual_ilog2, reason = "ilog2 would bring a panic")]
fn log2(number: u32) -> u32 {
    31 - (number | 1).leading_zeros()
}

/// The ticket by which all that is free in a slab can be drawn. The fuller the slab, the more
/// slots a unit spans, so that most units find one free.
fn draw_all(slab: Slab, slots: u32, free: u32) -> Ticket {
    let mut density = 0;
    while (slots - slots / 4) >> density > free && density < MAX_DENSITY {
        density += 1;
    }
    let units = slots.div_ceil(1 << density).cast_signed();
    Ticket::new(slab.class(), slab.page(), slab.order(), density, units)
}

/// The slab of a ticket that has one.
pub(crate) fn ticket_slab(ticket: Ticket) -> Slab {
    Slab::new(ticket.page(), ticket.class(), ticket.order())
}
