//! Units without a slot: what a request does that drew such units, and found nothing, again and again.
//!
//! A unit says only where to look for a slot. Slabs of two sorts have units without one, that who comes first would draw one after the other: thousands, at the end of
//! a slab, or before it comes to its free slots.
//!
//! - All of a slab was offered while something lived that stays ([`crate::rewind`]): the last units have no slot. The slab is taken away from its stripe. What is free nevertheless is found in the
//!   listed slab: where hardly anything is, a unit of it spans several slots, and each word of its bitmap is looked at.
//! - Units span several slots, so that each has a free one if these lie anywhere, but they lie together. Who got such a slab next would begin with the same units. So who draws some in vain looks
//!   for the highest free slot. If less is in use below it the slab is offered anew from there on, in units that span fewer slots, as it is [rewound](crate::rewind). Else the stripe goes on with the unit of that slot, and the slab gets back those above, as if the caller had drawn them.

use crate::hardened::Hardening;
use crate::heap::Core;
use crate::refill::{draw_all, ticket_slab};
use crate::stripe::Stripe;
use crate::ticket::Ticket;

/// So many units without a slot are worth a change of the stripe's word.
const LEAST_SKIPPED: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 32 };
/// Words of a bitmap that are looked at before the stripe goes on below them.
const WORDS: u32 = if cfg!(any(loom, shuttle)) { 4 } else { 256 };

impl Core {
    /// Has the stripe that has the slab of which the caller's group drew `drawn` in vain leave units without a slot, if it has some left. Which stripe it is, is a hint: whose is lost goes on
    /// to draw.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_vain_units(&self, drawn: Ticket) {
        let slab = ticket_slab(drawn);
        if !self.is_plausible(slab) {
            return;
        }
        let place = self.slab_state(slab.page()).keeper().not_occupied().place();
        if place >= self.stripe_places() {
            return;
        }
        let stripe = self.stripe_of_place(place);
        let seen = stripe.look();
        if seen.left() <= 0 || !seen.is_of_slab_of(drawn) || !self.is_sound(seen.class(), seen) {
            return;
        }
        if seen.density() == 0 {
            self.take_slab_away(stripe, seen);
        } else {
            self.leave_spread_units(stripe, seen);
        }
    }

    /// Has a stripe, if its word is still `seen`, of a slab of which units span several slots, go on with the first unit from the top that has a free one, or below those of [`WORDS`] words.
    fn leave_spread_units(&self, stripe: &Stripe, seen: Ticket) {
        // Slots that may still be drawn.
        let end = (seen.units_left() << seen.density()).min(self.slots(ticket_slab(seen)));
        let slot = self.last_free_before(seen.page(), end);
        let left = match slot {
            Ok(slot) => (slot >> seen.density()) + 1,
            Err(first) => first >> seen.density(),
        };
        let skipped = seen.units_left() - left;
        if skipped < LEAST_SKIPPED
            || slot.is_ok_and(|slot| self.offer_below(stripe, seen, slot + 1))
        {
            return;
        }
        if stripe.skip(seen, left) {
            self.give_back_units(seen, skipped);
        }
    }

    /// The last free slot before slot `end` of the slab that begins at a page.
    ///
    /// # Errors
    ///
    /// If none of those in the last [`WORDS`] words of its bitmap before it is free: the first of these slots.
    fn last_free_before(&self, page: u32, end: u32) -> Result<u32, u32> {
        let mut words = end.div_ceil(u32::BITS);
        let least = words.saturating_sub(WORDS);
        while words > least {
            // All at once.
            let free = [0, 1, 2, 3]
                .map(|below| self.last_free_of_word(page, end, words.saturating_sub(below)));
            if let Some(slot) = free.into_iter().flatten().next() {
                return Ok(slot);
            }
            words = words.saturating_sub(4);
        }
        Err(words * u32::BITS)
    }

    /// Offers the slab of a stripe anew whose word is `seen`, if its units can span fewer slots because all that is free lies before slot `end`, 1 or more; false if not. Nothing is done if others change the word.
    fn offer_below(&self, stripe: &Stripe, seen: Ticket, end: u32) -> bool {
        let slab = ticket_slab(seen);
        let (slots, state) = (self.slots(slab), self.slab_state(slab.page()));
        let offer = || {
            let unused = slots.saturating_sub(state.used_hint());
            draw_all(slab, end, (unused + seen.units_left()).min(end))
        };
        // As for who rewinds a slab.
        let has_quarantine = Hardening::of_flags(self.flags).contains(Hardening::QUARANTINE);
        if has_quarantine || offer().density() >= seen.density() {
            return false;
        }
        if stripe.take(seen).is_ok() {
            let again = offer();
            state.reserve((again.left() - seen.left()).cast_unsigned());
            state.note_offered(again.units_left());
            stripe.publish(again.following(seen));
        }
        true
    }
}
