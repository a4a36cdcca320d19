//! Drawing from a stripe, and what its crosser does when it ran out.
//!
//! The crosser offers the same slab again if enough of it was freed; or one that is at hand; when
//! pages are scarce, what another stripe has left; or what a search finds (see [`crate::obtain`]). Of a slab of fresh pages a burst gets what its launch still wants, if that is known. The others wait for a while, and then help
//! themselves elsewhere (see [`crate::scavenge`]). They wait less if they have waited before. Bursts do more than wait (see [`crate::burst`]).

use crate::heap::Core;
use crate::hints::{OldSlab, is_burst, warps_of_stripe};
use crate::malloc::Wish;
use crate::obtain::{Effort, Search};
use crate::slab::Slab;
use crate::stripe::{AT_ONCE, Stripe, which};
use crate::ticket::Ticket;
use simt::atomic::{Ordering, fence};
use simt::{thread, time, warp};

/// Looks at its stripe, which another refills, after which a group looks elsewhere: about a dozen milliseconds on a GPU. Who looks everywhere while all
/// others do takes as long as many refills, which it makes slower: where hardly any slot is free, a sixteenth of this patience is two to five times as slow.
const PATIENCE: u32 = if cfg!(shuttle) { 1000 } else { 16_000 };
/// Looks after which it may wait for another stripe instead.
/// (Under shuttle at once: else no schedule would come there.)
const FIRST_PATIENCE: u32 = if cfg!(shuttle) { 1 } else { PATIENCE / 64 };
/// Who comes again has waited before, and got less than its lanes want: it waits this part as long (binary logarithm).
const PATIENCE_LESS_LOG2: u32 = 4;
/// Nanoseconds between two looks.
const NAP: u32 = 100;
/// Free slots are spread over a slab if a word among the lowest of its bitmap has this many.
const SPREAD_BITS: u32 = 4;
/// Units span at most `2^MAX_DENSITY` slots: a word of the bitmap.
pub(crate) const MAX_DENSITY: u32 = 5;

/// A look at a stripe's slab, whose units are used up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Glance {
    /// Slots.
    pub(crate) slots: u32,
    /// Slots that are not in use.
    free: u32,
    /// A word of the bitmap an eighth above its lowest.
    taken: u32,
}

impl Glance {
    /// Whether blocks of the slab were freed while it was drawn from: a quarter of it.
    pub(crate) fn came_back(&self) -> bool {
        self.free > 0 && self.free >= self.slots / 4
    }

    /// The ticket by which the slab, that of `before`, can be drawn from once more, if enough of it was freed meanwhile;
    /// else an empty one.
    ///
    /// Three quarters are enough; a quarter is, if the free slots are spread. They are not where
    /// what was allocated last, the lowest slots, still lives: then units there would find none.
    #[inline(always)]
    fn ticket_again(&self, before: Ticket) -> Ticket {
        let lowest_slots = u32::MAX >> (32 - self.slots.clamp(1, 32));
        let lowest_free = (!self.taken & lowest_slots).count_ones();
        let spread = lowest_free >= SPREAD_BITS.min(self.slots / 4);
        let enough = spread || self.free >= self.slots - self.slots / 4;
        if !enough || !self.came_back() {
            return Ticket::empty(before.class());
        }
        let slab = ticket_slab(before);
        if spread {
            draw_all(slab, self.slots, self.free)
        } else {
            draw_row(slab, self.slots, self.free)
        }
    }
}

impl Core {
    /// The rest of a draw of `count` units from stripe `index` of the wish's class for a group that did not get all that it drew, from
    /// `drawn`, or [`Ticket::refilling`] if it drew nothing and is to look first: the word before, of which the units from
    /// `left - count` up are the group's. A word with no units left means: draw again; [`Ticket::EXHAUSTED`]: there are none.
    ///
    /// The other lanes of the warp wait for it. It waits only for who refills a stripe or rewinds its slab, who waits for no stripe,
    /// and not for ever.
    #[cold]
    #[inline(never)]
    pub(crate) fn draw_beyond(&self, wish: Wish, index: u32, count: u32, drawn: Ticket) -> Ticket {
        let class = wish.class();
        let mut stripe = self.stripe(class, index);
        let Some(wish) = wish.unless_stale(self.mark()) else {
            return self.turn_away(class, stripe, drawn);
        };
        let mut drawn = drawn;
        let less_log2 = if drawn == Ticket::refilling(class) {
            PATIENCE_LESS_LOG2
        } else {
            0
        };
        loop {
            let together = warp::active_mask();
            let crosses = drawn.left() >= 0;
            if crosses {
                drawn = self.cross(class, stripe, drawn, count);
            }
            // Crossers first: of lanes that diverged the one that waits may run for long before the one that others wait for.
            // Two warps with a crosser for each other's waiting lane would lose their patience.
            meet(together);
            if crosses && drawn.left() > 0 {
                return drawn;
            }
            if !crosses && is_burst(count) {
                let found = self.search_as_burst(stripe, class, count);
                if found.left() > 0 {
                    return found;
                }
            }
            if !crosses && !await_refill(stripe, FIRST_PATIENCE >> less_log2) {
                stripe = self.where_to_wait_on(class, stripe);
            }
            if crosses || !await_refill(stripe, PATIENCE >> less_log2) {
                return self.scavenge(wish, count);
            }
            drawn = stripe.draw(count);
            if drawn.left() >= count.cast_signed() {
                return drawn;
            }
            // Not before it draws: all who wait would pay for it.
            if self.waits_in_vain(class, drawn) {
                return self.scavenge(wish, count);
            }
        }
    }

    /// Whether a group that drew `drawn` from a stripe of a class would wait in vain for who refills it: the stripe has no slab, and there is none to be found but by a search of everything. Who waits then
    /// would make that search as the stripe's crosser, one after the other, and all would draw again after each; so each makes it at once.
    #[inline(always)]
    pub(crate) fn waits_in_vain(&self, class: u32, drawn: Ticket) -> bool {
        drawn.left() < 0 && !drawn.has_slab() && self.has_nothing_at_hand(class)
    }

    /// Whether no slab of a class is listed, and no page is free for one, as it seems.
    #[cold]
    #[inline(never)]
    fn has_nothing_at_hand(&self, class: u32) -> bool {
        let least = 1 << self.class_info(class).least_order;
        // Both at once.
        (self.listed(class).count() == 0) & (self.free_pages().count() < least)
    }

    /// The stripe that a group goes on to wait for which has waited for `stripe` in vain: that of its multiprocessor, unless pages are plentiful.
    ///
    /// Where stripes are refilled again and again some are slower than others, and would keep their blocks while the rest has nothing to do.
    /// But a multiprocessor that waits begins no other block: so more are served by the stripes that are faster.
    #[cold]
    #[inline(never)]
    fn where_to_wait_on<'a>(&'a self, class: u32, stripe: &'a Stripe) -> &'a Stripe {
        if self.are_pages_plentiful() {
            return stripe;
        }
        self.stripe(class, self.stripes_of(class).of(thread::sm_id()))
    }

    /// What a group gets whose leader came through a stale handle: nothing. As the crosser it still
    /// does its duty. Its lanes come to `malloc_again`, where those with a good handle go on.
    #[cold]
    #[inline(never)]
    fn turn_away(&self, class: u32, stripe: &Stripe, drawn: Ticket) -> Ticket {
        if drawn.left() >= 0 {
            let before = self.sound_or_empty(class, drawn);
            if before.left() > 0 {
                self.give_back_units(before, before.left().cast_unsigned());
            }
            self.refill(stripe, before, 0);
        }
        Ticket::empty(class)
    }

    /// What a group that drew `count` units from a stripe of a class as its crosser gets: what was
    /// left of the old slab, or else units of the new one, which it does not have to draw.
    #[inline(never)]
    pub(crate) fn cross(&self, class: u32, stripe: &Stripe, before: Ticket, count: u32) -> Ticket {
        let before = self.sound_or_empty(class, before);
        let refilled = self.refill(stripe, before, count);
        if before.left() > 0 { before } else { refilled }
    }

    /// The word of a stripe of a class whose crosser the caller is, or an empty one if no stripe holds such a word.
    fn sound_or_empty(&self, class: u32, before: Ticket) -> Ticket {
        if self.is_sound(class, before) {
            return before;
        }
        // Where it came from cannot be known: a slab is lost, the stripe is not.
        self.report_damage(class);
        Ticket::empty(class).following(before)
    }

    /// The crosser's duty: replaces the slab of the stripe, whose word was `before`. If nothing was left
    /// of it, keeps the `count` units of the new one that the crosser asked for. Gives the new word before they
    /// were drawn; an empty one if there is no slab to be had, as the stripe is then.
    ///
    /// A crosser without units must reserve some: else others may find the slab idle and reclaim
    /// it before the crosser comes again, and two could do that to each other for ever.
    ///
    /// The warps of the stripe's blocks wait for what comes before the new word, so that is as little as can be: all
    /// looks at once, and the old slab goes its way afterwards.
    #[inline(never)]
    fn refill(&self, stripe: &Stripe, before: Ticket, count: u32) -> Ticket {
        let reserved = if before.left() > 0 { 0 } else { count };
        let glance = self.glance(before);
        let mut hints = self.hints(before.class(), stripe.look());
        let again = glance.ticket_again(before);
        hints = hints.for_group_of(before, count);
        let has_outgrown = self.is_outgrown(before, glance, again, &hints);
        let old = OldSlab {
            came_back: glance.came_back(),
            may_stay: again.left() > 0,
        };
        hints = hints.of_stripe(has_outgrown, old);
        if old.may_stay && !hints.outgrown {
            return self.offer_again(stripe, before, again, reserved);
        }
        let mut at_hand = self.take_at_hand(before, &hints);
        if hints.outgrown && at_hand.slab().is_none() {
            if old.may_stay {
                return self.offer_again(stripe, before, again, reserved);
            }
            // As if it had not.
            hints.outgrown = false;
            at_hand = self.take_at_hand(before, &hints);
        }
        if let Some(slab) = at_hand.slab() {
            let mut ticket = self.ticket_for_obtained(at_hand, slab);
            if at_hand.is_of_pages() && !hints.is_heap_young() {
                ticket = self.what_a_launch_still_wants(ticket, glance, reserved);
            }
            let units = ticket.left().cast_unsigned();
            self.install(slab.page(), units);
            let keeps = self.keeps(slab, before, &hints);
            self.note_stripe(slab.page(), stripe, keeps, units);
            self.announce_leaving(before);
            if !before.has_slab() {
                self.gets_slab(before.class());
            }
            // This has a fence that releases, also for the use of the old slab.
            self.slab_state(slab.page())
                .publish_given(stripe, ticket.without(reserved).following(before));
            self.let_go(before);
            self.arrived(at_hand, slab, before);
            return ticket;
        }
        if hints.are_pages_scarce() && !hints.are_last_for_bursts() {
            let ticket = self.adopt(stripe, before, reserved);
            if ticket.left() > 0 {
                return ticket;
            }
        }
        self.refill_by_search(stripe, before, reserved, hints.wanted_by_burst())
    }

    /// Of the word `all`, by which all of a stripe's new slab can be drawn whose slots are all free, as much as a launch still wants if each of its warps wants as many slots as this burst of
    /// `count`, and it drew all that is in use of the old slab, that of `glance`. All, if that is more than the slab has, or less than the burst wants; if nothing is in use of the old slab; and for no burst.
    ///
    /// Where a launch is repeated that comes to the end of a slab in its middle, what it leaves of the next one would else be less than is wanted again, so one stripe or other would come to its end in each launch.
    /// If all that was offered is drawn, who frees the last block offers the whole slab ([`crate::rewind`]), as a rule, and that is in step with the launches.
    fn what_a_launch_still_wants(&self, all: Ticket, glance: Glance, count: u32) -> Ticket {
        let drawn = glance.slots.saturating_sub(glance.free);
        if drawn == 0 || !is_burst(count) {
            return all;
        }
        let wanted = count * warps_of_stripe(self.stripes_of(all.class()).count);
        let slots = self.slots(ticket_slab(all));
        let rest = Ticket::offered(wanted.saturating_sub(drawn), slots);
        if rest < count || rest >= all.units_left() {
            return all;
        }
        all.with_left(rest.cast_signed())
    }

    /// Whether a stripe of a class can hold a word with no units left or more: its slab is one of the
    /// class in the heap, with at least so many units.
    pub(crate) fn is_sound(&self, class: u32, ticket: Ticket) -> bool {
        if !ticket.has_slab() {
            return ticket.class() == class && ticket.left() == 0;
        }
        let (slots, density) = (self.plausible_slots(ticket_slab(ticket)), ticket.density());
        // Not `div_ceil`, which may panic.
        ticket.class() == class
            && (density <= MAX_DENSITY || ticket.is_rewinding())
            && slots > 0
            && ticket.left() <= (((slots - 1) >> density) + 1).cast_signed()
    }

    /// Empties a stripe of a class if its word is one that no stripe holds. True if it was.
    ///
    /// The slab that it had, if it had one, is lost. A word with fewer than no units is left alone:
    /// it may be damage too, but its crosser may also be at work.
    #[cold]
    #[inline(never)]
    pub(crate) fn mend(&self, class: u32, stripe: &Stripe) -> bool {
        let seen = stripe.look();
        if seen.left() < 0 || self.is_sound(class, seen) {
            return false;
        }
        self.report_damage(class);
        stripe.detach(class, seen)
    }

    /// Replaces the slab of a stripe by that of another of its class with all that is left of it:
    /// the word before `reserved` units of it were drawn, or an empty one if no other has any.
    #[inline(never)]
    fn adopt(&self, stripe: &Stripe, before: Ticket, reserved: u32) -> Ticket {
        let class = before.class();
        let stripes = self.stripes_of(class);
        let listed = self.listed(class);
        if listed.holders() <= u32::from(before.has_slab()) {
            return Ticket::empty(class);
        }
        // Of the stripe's own word nothing is left.
        for step in (0..stripes.count).step_by(AT_ONCE as usize) {
            let from = stripes.after(stripes.of(thread::block_number()), step);
            let words = self.look_at_stripes(class, from);
            let shown = which(words, |seen| seen.left() > 0);
            if shown == 0 {
                continue;
            }
            let other = self.stripe(class, stripes.after(from, shown.trailing_zeros()));
            let seen = other.look();
            if seen.left() <= 0 || !self.is_sound(class, seen) {
                continue;
            }
            // Who finds the other stripe empty must know that a slab is on its way.
            listed.announce(1);
            let ticket = if other.detach(class, seen) {
                self.let_go_in_sight(before);
                if before.has_slab() {
                    // The other's; else it counts for this one now.
                    self.lost_slab(class);
                }
                self.note_stripe(seen.page(), stripe, true, seen.left().cast_unsigned());
                self.slab_state(seen.page())
                    .publish_given(stripe, seen.without(reserved).following(before));
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

    /// Takes a stripe's slab away, if it had one, whose units are used up.
    fn let_go(&self, before: Ticket) {
        if before.has_slab() {
            self.uninstall(ticket_slab(before), 0);
        }
    }

    /// Counts a stripe of a class that has no slab and is about to get one.
    fn gets_slab(&self, class: u32) {
        self.listed(class).add_holder();
        // Relaxed: a hint for the size of slabs.
        self.globals()
            .shared
            .installed
            .fetch_add(1, Ordering::Relaxed);
    }

    /// The same for a stripe that had a slab until now.
    pub(crate) fn lost_slab(&self, class: u32) {
        self.listed(class).remove_holder();
        // Relaxed: a hint.
        self.globals()
            .shared
            .installed
            .fetch_sub(1, Ordering::Relaxed);
    }

    /// [`let_go`](Self::let_go) where the stripe's word still tells of the slab.
    fn let_go_in_sight(&self, before: Ticket) {
        self.announce_leaving(before);
        // Release, for the use of the slab.
        fence(Ordering::Release);
        self.let_go(before);
        self.free_pages().renounce(pages_of(before));
    }

    /// Says that the pages of a slab of which a stripe lets go may be on their way: it may drain before it can be found again,
    /// and who finds no page must not take that for the end. (Who looks for a slot of the class
    /// finds that the slab, or the stripe's new one, has not arrived yet.)
    fn announce_leaving(&self, before: Ticket) {
        if before.has_slab() {
            self.free_pages().announce(pages_of(before));
        }
    }

    /// [`refill`](Self::refill) where the slab is not at hand. A burst will soon want `wanted` slots, if these are not 0.
    #[inline(never)]
    fn refill_by_search(
        &self,
        stripe: &Stripe,
        before: Ticket,
        reserved: u32,
        wanted: u32,
    ) -> Ticket {
        let class = before.class();
        self.reclaim_now_and_then();
        self.let_go_in_sight(before);
        // Only now: who sees the stripe without the slab finds the slab where it went. That was announced before the fence by which it got there.
        stripe.publish(Ticket::refilling(class).following(before));
        if before.has_slab() {
            self.lost_slab(class);
        }
        let obtained = self.obtain(class, Effort::Little, wanted);
        if let Some(slab) = obtained.slab() {
            let ticket = self.ticket_for(slab);
            let units = ticket.left().cast_unsigned();
            self.install(slab.page(), units);
            self.note_stripe(slab.page(), stripe, true, units);
            self.gets_slab(class);
            self.slab_state(slab.page())
                .publish_given(stripe, ticket.without(reserved).following(before));
            self.arrived(obtained, slab, Ticket::empty(class));
            return ticket;
        }
        stripe.publish(Ticket::empty(class).following(before));
        Ticket::empty(class)
    }

    /// Says that an obtained slab can be drawn from by all, and that the slab which the stripe showed until then, that of
    /// `before`, has arrived too: it is listed, or full, or its pages are free.
    ///
    /// No epoch tells of the new slab if the stripe showed another: who saw that knew that it had not seen all.
    fn arrived(&self, obtained: Search, slab: Slab, before: Ticket) {
        let listed = self.listed(slab.class());
        if !before.has_slab() {
            listed.raise_epoch();
        }
        let left = pages_of(before);
        if obtained.is_of_pages() {
            self.free_pages().renounce(left + slab.pages());
            self.tidy_pages(slab.page(), slab.pages());
            self.look_ahead();
        } else {
            listed.renounce(1);
            self.free_pages().renounce(left);
        }
    }

    /// Looks at the slab of a stripe, if it has one.
    #[inline(always)]
    fn glance(&self, before: Ticket) -> Glance {
        if !before.has_slab() {
            return Glance::default();
        }
        let slots = self.slots(ticket_slab(before));
        // Not the lowest word: of the last units that were drawn some are not claimed yet.
        let word = self.slot_word(self.slot_word_index(before.page(), slots / 8));
        Glance {
            slots,
            free: slots.saturating_sub(self.used_hint(before.page())),
            // Relaxed: a guess.
            taken: word.load(Ordering::Relaxed),
        }
    }

    /// Offers the slab of a stripe once more: the word `again` before `reserved` units were drawn.
    ///
    /// Where blocks live shortly this is all that a refill is: one change beside the looks.
    fn offer_again(&self, stripe: &Stripe, before: Ticket, again: Ticket, reserved: u32) -> Ticket {
        let slab = self.slab_state(before.page());
        let units = again.left().cast_unsigned();
        slab.reserve(units);
        slab.keep();
        slab.note_offered(units);
        slab.publish_given(stripe, again.without(reserved).following(before));
        again
    }

    /// The ticket by which all that is free in an obtained slab can be drawn.
    fn ticket_for_obtained(&self, obtained: Search, slab: Slab) -> Ticket {
        if obtained.is_of_pages() {
            // Nothing is in use, which need not be read.
            let slots = self.slots(slab);
            return draw_all(slab, slots, slots);
        }
        self.ticket_for(slab)
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
            // It may be full, and in no set any more, which who sees the lowered count must see.
            self.listed(slab.class()).renounce(1);
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
}

/// Waits for the lanes of a mask. Out of line, for the compiler would make two ways of it: one for crosser and one for others.
#[inline(never)]
pub(crate) fn meet(lanes: u32) {
    warp::sync(lanes);
}

/// Waits until a stripe that another refills has units, or none but no crosser; false if that takes
/// too long. Few instructions and hardly a register: all warps of a multiprocessor may be here.
#[inline(always)]
pub(crate) fn await_refill(stripe: &Stripe, looks: u32) -> bool {
    for _ in 0..looks {
        if stripe.look().left() >= 0 {
            return true;
        }
        time::nanosleep(NAP);
    }
    false
}

/// The ticket by which the `free` of `slots` slots of a slab can be drawn one by one. Who finds some in use finds others
/// (see `Core::claim_elsewhere`).
fn draw_row(slab: Slab, slots: u32, free: u32) -> Ticket {
    let units = Ticket::offered(free, slots).cast_signed();
    Ticket::new(slab.class(), slab.page(), slab.order(), 0, units)
}

/// The ticket by which all that is free in a slab can be drawn, wherever it lies among its first `slots` slots. The fuller these are, the more
/// slots a unit spans, so that most units find one free.
pub(crate) fn draw_all(slab: Slab, slots: u32, free: u32) -> Ticket {
    if free >= slots - slots / 4 {
        return draw_row(slab, slots, free);
    }
    let mut density = 0;
    while (slots - slots / 4) >> density > free && density < MAX_DENSITY {
        density += 1;
    }
    let units = slots.div_ceil(1 << density).cast_signed();
    Ticket::new(slab.class(), slab.page(), slab.order(), density, units)
}

/// Pages of the slab of a ticket; 0 if it has none.
fn pages_of(ticket: Ticket) -> u32 {
    if ticket.has_slab() {
        ticket_slab(ticket).pages()
    } else {
        0
    }
}

/// The slab of a ticket that has one.
pub(crate) fn ticket_slab(ticket: Ticket) -> Slab {
    Slab::new(ticket.page(), ticket.class(), ticket.order())
}
