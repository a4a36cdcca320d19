//! Units without a slot: what a request does that drew such units, and found nothing, a few times.
//!
//! A unit says only where to look for a slot, and it may have none: at the end of a slab of which all was offered while something lived that stays ([`crate::rewind`]); in rows of a listed slab of which
//! most is free, where what is not lies in the words that who lacks a slot looks at ([`crate::places`]); and where units span several slots so that most have a free one wherever these lie, but they lie
//! together, in words that who lacks a slot does not look at. Whoever comes first would draw all of these, thousands, one after the other. To take the slab away from its stripe is no way out: who gets it next begins with the same units.
//!
//! So who drew some in vain offers the slab anew, from the highest free slot on that may still be drawn, in units as what lies below it asks for. The next to draw has that slot, unless another got it. If there is none
//! the stripe has no units left, and the next to draw refills it.
//!
//! The stripe's word is taken for it as who rewinds takes it, before more than a few words are looked at: who draws meanwhile waits instead of drawing in vain too, and the stripe shows the slab all the
//! while, so who searches does not miss it. Nothing waits between the two changes of the word. Not in heaps with a quarantine, where nobody rewinds: there units are drawn one after the other.

use crate::hardened::Hardening;
use crate::heap::Core;
use crate::refill::{draw_all, meet, ticket_slab};
use crate::ticket::Ticket;
use simt::warp;

/// Words of a bitmap that are looked at at once: as a rule there is a free slot in one of them, and nothing to be done.
const NEAR: u32 = 4;
/// Words that are looked at while others wait. If no slot is free in these the stripe goes on below them.
const MOST: u32 = if cfg!(any(loom, shuttle)) { NEAR } else { 256 };
/// So many units without a slot are worth a change of the stripe's word.
const LEAST_LEFT_OUT: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 32 };

impl Core {
    /// Has the stripe that has the slab of which the caller's group drew `drawn` in vain leave units without a slot, if it has some left. Which stripe that is, is a hint: where it is wrong, or others change the
    /// word, nothing is done. Lanes that come together go on together: who waits for the stripe then does not keep who took its word from running.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_vain_units(&self, drawn: Ticket) {
        let together = warp::active_mask();
        self.leave_vain_units_alone(drawn);
        meet(together);
    }

    #[inline(always)]
    fn leave_vain_units_alone(&self, drawn: Ticket) {
        let slab = ticket_slab(drawn);
        if !self.is_plausible(slab) {
            return;
        }
        let state = self.slab_state(slab.page());
        let place = state.keeper().not_occupied().place();
        if place >= self.stripe_places() {
            return;
        }
        let stripe = self.stripe_of_place(place);
        let seen = stripe.look();
        if seen.left() <= 0 || !seen.is_of_slab_of(drawn) || !self.is_sound(seen.class(), seen) {
            return;
        }
        if self.has_vain_units(seen) && stripe.take(seen).is_ok() {
            let again = self.without_vain_units(seen, state.used_hint());
            state.reserve((again.left() - seen.left()).cast_unsigned());
            state.note_offered(again.units_left());
            state.publish_given(stripe, again.following(seen));
        }
    }

    /// Whether enough units at the top of what is left have no slot, as it seems, in a heap in which slabs are offered anew.
    fn has_vain_units(&self, seen: Ticket) -> bool {
        let is_near = |slot| seen.units_left() - unit_of(slot, seen) <= LEAST_LEFT_OUT;
        !Hardening::of_flags(self.flags).contains(Hardening::QUARANTINE)
            && !self.last_free_drawable(seen, NEAR).is_ok_and(is_near)
    }

    /// The word by which the slab of `seen` can be drawn without the units at the top that have no slot; `used` of its slots are in use or may still be drawn.
    fn without_vain_units(&self, seen: Ticket, used: u32) -> Ticket {
        let slab = ticket_slab(seen);
        match self.last_free_drawable(seen, MOST) {
            Ok(slot) => {
                // Some of it may lie above, where blocks were freed since. Then units span fewer slots than they should.
                let free = (self.slots(slab) + seen.units_left()).saturating_sub(used);
                let again = draw_all(slab, slot + 1, free.clamp(1, slot + 1));
                // From that slot on, also of a row, which would have a unit for each that is free.
                again.with_left((unit_of(slot, again) + 1).cast_signed())
            }
            Err(first) => seen.with_left(unit_of(first, seen).cast_signed()),
        }
    }

    /// The last free slot of those that may still be drawn of the slab of `seen`, whose word is sound.
    ///
    /// # Errors
    ///
    /// If none is free in the last `most` words of the bitmap that hold these: the first of their slots.
    fn last_free_drawable(&self, seen: Ticket, most: u32) -> Result<u32, u32> {
        let end = (seen.units_left() << seen.density()).min(self.slots(ticket_slab(seen)));
        let mut words = end.div_ceil(u32::BITS);
        let least = words.saturating_sub(most);
        while words > least {
            // All at once.
            let free = [0, 1, 2, 3].map(|below| {
                let words = words.saturating_sub(below);
                self.last_free_of_word(seen.page(), end, words)
            });
            if let Some(slot) = free.into_iter().flatten().next() {
                return Ok(slot);
            }
            words = words.saturating_sub(NEAR);
        }
        Err(words * u32::BITS)
    }
}

/// The unit that spans a slot, of the slab of a ticket.
fn unit_of(slot: u32, ticket: Ticket) -> u32 {
    slot >> ticket.density()
}
