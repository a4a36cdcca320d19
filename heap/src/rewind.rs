//! Rewinding: a slab whose blocks came back is offered again by who frees in it, before its stripe runs out.
//!
//! A stripe that runs out makes the warps of its blocks wait for its crosser, even if all that the crosser has to do is to
//! offer the same slab once more. Where blocks are freed in one phase and allocated in the next, a free has the time for
//! it, and nobody waits. So whose free takes the use of a slab past a multiple of some number (see [`is_turn`]) looks whether many of the slab's units are drawn,
//! although hardly any of its slots are in use; and so does whose free leaves nothing in use of a slab of which all was drawn that was offered. Who frees few slots at once looks
//! more often, and most often where the slab is small: warps that want many sizes draw little from each slab, so these have few slots. Who frees many looks earlier, too, where the next launch may want more than is left of the slab; and who frees few where hardly anything was drawn of a large one, which is rewound then unless it is taken away.
//!
//! Who rewinds takes the stripe's word as a crosser would, by a compare-exchange that fails if anybody draws, or notes a hint, meanwhile. From then
//! on it is the stripe's crosser: who draws finds fewer than no units, and waits; and nobody can take the slab away from the stripe. It has given its own block back
//! before, so the slab may be without a block in it. The word says that it is being rewound, and whoever looks for idle slabs comes again.
//!
//! A slab is rewound only if its stripe *keeps* it, since it lasts for several launches or the stripe gets no larger one; if much of it is left after a launch; or, where pages are not plentiful, if it has what a launch draws, and all of it was drawn and came
//! back: then the next launch draws just that, too. Else its crosser replaces it by a larger
//! one as soon as it is used up: of what is left less a launch that wants a little more comes to the end, so the sooner it does the better.
//!
//! While something lives it is rewound too, and then *all* of it is offered, as many units as the slab has slots: what lives while others are freed is freed soon, as a rule. Else the next launch
//! would come to the end of what was offered, or who frees last would have to look once more, and the launch would wait for that. A unit says only where to look: a group that finds slots of
//! its row in use has others ([`crate::places`]), and units for which there are none are given back. Where blocks are freed while others are drawn there is always something in the way, and only what is
//! free is offered, but of small slabs.
//!
//! The more may live, the fewer looks are in vain, and the sooner they are over; but the more is in the way if it stays. No less may live than is freed between two looks of those who look least (but of slabs of 2,048 slots, where that gained nothing): else
//! it depends on who happens to come to a multiple whether a slab is rewound, and now and then a launch comes to its end.
//!
//! Of blocks that outlive the launches some lie where the slab is offered from, and each launch would find their slots in use. Who does notes that, and how far down from the slab's end it was. Then
//! the slab is offered from below these on, if most of it lies there, and enough for what was drawn since it was offered last. Else it is measured again, and who frees few offers what is free, or was
//! drawn if that is more. Nobody looks at the bitmap for it.
//!
//! A slab that served more once may be too large for what its stripe draws now, and what lives in it keeps all its pages: slabs of sixty classes that bursts have
//! left held three quarters of a heap. So where pages are not plentiful, who looks after a large slab of which hardly anything was drawn takes it away from its stripe instead: what still
//! lives in it is freed as a rule, and then its pages are free. The stripe's next slab is as small as any. Only who frees few slots asks for that: a burst that is freed by warps comes to such turns
//! at its end, and uses what it has.
//!
//! In a heap with a quarantine nobody rewinds: a request that finds nothing gives back what is in it, and lanes of its own warp that search meanwhile would come
//! again until it has published the stripe, and might keep it from running.

use crate::damage::plausible_slots;
use crate::hardened::Hardening;
use crate::heap::{Core, Heap};
use crate::hints::log2;
use crate::pages::WORD_ORDER;
use crate::slab::{INSTALLED, Keeper, Slab, SlabState, USE};
use crate::stripe::Stripe;
use crate::ticket::Ticket;

/// Whose free takes the use of a slab past a multiple of so many slots looks after the slab.
const TURN: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 1 << 10 };
/// The same for who frees few slots: lanes of warps that want many sizes, of slabs with fewer slots.
const TURN_OF_FEW: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 1 << 5 };
/// The same for who frees few slots of a [small](is_small) slab: one of 32 slots has just one such turn between its ends.
const TURN_OF_SMALL: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 1 << 4 };
/// So many slots freed at once are not few: slabs of which more is wanted at once should grow instead.
const NOT_FEW: u32 = 8;
/// So many turns has the smallest slab that who frees few slots rewinds while a part of it lives, but for [small](is_small) ones: where slabs have fewer it would be done after every few blocks, which
/// costs more than it spares. Of slabs with so many turns of who frees many, or more, as much may live as they free between two looks.
/// (Under exploration slabs of the largest slots are smaller: models of other things have these.)
const LEAST_TURNS: u32 = if cfg!(any(loom, shuttle)) { 16 } else { 3 };
/// Small slabs have fewer slots.
const SMALL_SLOTS: u32 = LEAST_TURNS * TURN_OF_FEW;
/// Small slabs have so many slots, at least. Were they not rewound while a part of them lives, launches in which few lanes want each class would come to their ends again and again. (Under exploration no slab is small.)
const LEAST_SLOTS: u32 = if cfg!(any(loom, shuttle)) {
    SMALL_SLOTS
} else {
    2 * TURN_OF_SMALL
};
/// Slots of the smallest slab that who frees many rewinds while a part of it lives. Slabs of so many last for some launches: were they not rewound, each launch would be refilled in the stripes whose slabs
/// come to their ends.
const LEAST_SLOTS_OF_MANY: u32 = if cfg!(any(loom, shuttle)) {
    SMALL_SLOTS
} else {
    2 * TURN
};
/// A small slab is rewound only if this part of it was drawn, at least: one of its turns may be near to its upper end. (Who frees last of a launch may come to that turn.)
const DRAWN_SHARE: u32 = 4;
/// A turn is this part of a slab at least (binary logarithm), unless that are more slots than [`TURN`].
const TURN_SHARE_LOG2: u32 = 3;
/// No more than this part of a slab lives when it is rewound: in an aged heap some of its blocks outlive many launches.
/// (Under exploration one slot of 32, and of fewer nothing: the models rewind slabs of both.)
const MOST_SHARE: u32 = if cfg!(any(loom, shuttle)) { 32 } else { 4 };
/// The same for who frees few slots of a slab of [`LASTING_FOR_FEW`] or more and fewer than [`LASTING_SLOTS`].
const MOST_SHARE_OF_LARGE: u32 = if cfg!(any(loom, shuttle)) { 32 } else { 8 };
/// The same for who frees many slots at once, if as far as is known nothing stays: the sooner it is done the less the launch waits for it at its end.
const MOST_SHARE_OF_MANY: u32 = if cfg!(any(loom, shuttle)) { 32 } else { 2 };
/// Slots of a slab that lasts for several launches of which each wants many sizes.
const LASTING_FOR_FEW: u32 = 1 << 12;
/// A slab that is left to this part after a launch is large enough.
const LEFT_SHARE: u32 = 4;
/// No more than so many eighths of a slab's slots are in use or left when it is looked after, as a rule.
const MOST_EIGHTHS: u32 = 5;
/// The same where the next launch may want more than is left; and nothing is offered of a slab of which more are, unless nothing lives.
const MOST_EIGHTHS_BEFORE_END: u32 = 7;
/// So many eighths of a slab's slots lie below those in use from which it is offered, at least.
const LIMIT_EIGHTHS: u32 = 5;
/// Less than this part was drawn of a slab that is too large for what its stripe draws now.
const HARDLY_SHARE: u32 = 8;
/// Order of slabs, at least, that may be too large: where the stripes of a class have such slabs, they hold a sixteenth of a heap.
/// (Under exploration slabs are tiny.)
const LARGE_ORDER: u32 = if cfg!(any(loom, shuttle)) {
    0
} else {
    WORD_ORDER
};
/// Slots of such a slab, at least: of fewer many sizes have good use.
const LARGE_SLOTS: u32 = if cfg!(any(loom, shuttle)) {
    16
} else {
    LASTING_FOR_FEW
};
/// Slots of a slab that lasts for several launches, and is rewound while more of it lives: early in a launch that frees.
const LASTING_SLOTS: u32 = 1 << 15;

/// Whether `count` slots that are freed at once are few.
#[inline(always)]
pub(crate) fn are_few(count: u32) -> bool {
    count < NOT_FEW
}

/// The shortest turns, in slots, of who frees few slots, or not: those of some slabs are longer.
#[inline(always)]
pub(crate) fn least_turn(few: bool) -> u32 {
    if few { TURN_OF_SMALL } else { TURN }
}

/// Slots of the smallest slab that who frees few slots, or not, rewinds while a part of it lives.
#[inline(always)]
fn least_slots(few: bool) -> u32 {
    if few {
        LEAST_SLOTS
    } else {
        LEAST_SLOTS_OF_MANY
    }
}

/// Whether a slab of so many slots is small: it has other turns, and is rewound by other rules.
#[inline(always)]
fn is_small(slots: u32) -> bool {
    (LEAST_SLOTS..SMALL_SLOTS).contains(&slots)
}

/// Whether who freed `few` slots or not, and lowered the word of a slab from `before` to `after`, is to look after the slab: the use fell to a multiple of
/// its turns, or past one. Most see that without the slab's slots and order, and nearly all without `slots_of_launch`, which a launch of this grid draws of one stripe.
#[inline(always)]
pub(crate) fn is_turn(
    before: u32,
    after: u32,
    few: bool,
    slots_and_order: impl FnOnce() -> (u32, u32),
    slots_of_launch: impl FnOnce() -> u32,
) -> bool {
    let used = after & USE;
    if used == 0 {
        // All that was offered was drawn, and all came back.
        return after == INSTALLED;
    }
    let passed = (before.wrapping_sub(1) ^ (after - 1)) & USE;
    if passed < least_turn(few) {
        return false;
    }
    let (slots, order) = slots_and_order();
    let is_time = passed >> turn_log2(slots) != 0 && slots >= least_slots(few);
    // Of those that may be too large seldom.
    let is_seldom = used & (TURN - 1) == 0;
    // Less may be left than the next launch wants, which would come to the slab's end: then it is looked after earlier, but not as often.
    let is_early = || {
        !few && passed >> log2(slots >> TURN_SHARE_LOG2) != 0
            && used <= slots_of_launch().min(most_used(slots, MOST_EIGHTHS_BEFORE_END))
    };
    is_time
        && (used <= most_used(slots, MOST_EIGHTHS)
            || is_early()
            || is_seldom && may_be_too_large(after, few, slots, order))
}

/// Units that are wanted of a slab of `slots` slots of which so many were offered, and are left: as many as were drawn, and some more.
#[inline(always)]
fn wanted(slots: u32, offered: u32, left: u32) -> u32 {
    // The stripe's word may be damaged.
    offered
        .saturating_sub(left)
        .saturating_add(turn_of_few(slots))
}

/// The shortest turns, in slots, of a slab of so many: of who frees few of them.
#[inline(always)]
fn turn_of_few(slots: u32) -> u32 {
    if is_small(slots) {
        TURN_OF_SMALL
    } else {
        TURN_OF_FEW
    }
}

/// Slots after which a slab of so many is looked after (binary logarithm), if it is seen as often.
#[inline(always)]
fn turn_log2(slots: u32) -> u32 {
    log2(slots)
        .saturating_sub(TURN_SHARE_LOG2)
        .min(TURN.ilog2())
        // Not `clamp`, which may panic.
        .max(turn_of_few(slots).ilog2())
}

/// As many more slots of a slab of so many may live or be left as lie between two looks: else most looks come too early, and the next too late.
#[inline(always)]
fn between_looks(slots: u32) -> u32 {
    if cfg!(any(loom, shuttle)) {
        0
    } else {
        turn_of_few(slots)
    }
}

/// The most slots of a slab of so many that are in use or left when it is looked after, in eighths of them: so it is seldom. Not all, to which the use falls with the last free after all was offered.
#[inline(always)]
fn most_used(slots: u32, eighths: u32) -> u32 {
    (slots / 8 * eighths + between_looks(slots)).min(slots.saturating_sub(1))
}

impl Core {
    /// Has a slab, whose use the caller, who freed `few` slots or not, lowered to `used`, rewound if that is worth it.
    ///
    /// A launch that frees often ends with this, and then waits for it: so what can be read at once is, also where it may not be needed.
    #[inline(never)]
    pub(crate) fn look_after(&self, slab: Slab, state: &SlabState, used: u32, few: bool) {
        let keeper = state.keeper();
        let bounds = |_, slots| Bounds::all(slots, most_alive(slots, few, false));
        if !self.rewind_if_worth(slab, state, keeper, used, few, bounds) && keeper.is_occupied() {
            self.look_at_occupied(slab, state, keeper.not_occupied(), used, few);
        }
    }

    /// [`look_after`](Self::look_after) for a slab in which groups found slots of their rows in use: it is offered from below these on, if enough lies there. Else how far down they are is measured again;
    /// if nothing lives it is forgotten that there are any.
    #[cold]
    #[inline(never)]
    fn look_at_occupied(
        &self,
        slab: Slab,
        state: &SlabState,
        keeper: Keeper,
        used: u32,
        few: bool,
    ) {
        let (occupied, offered) = (state.occupied(), state.offered());
        self.rewind_if_worth(slab, state, keeper, used, few, |seen, slots| {
            let (left, alive) = (seen.units_left(), most_alive(slots, few, true));
            if used == left {
                state.forget_occupied();
                return Bounds::all(slots, alive);
            }
            let wanted = wanted(slots, offered, left);
            let clear = slots.saturating_sub(occupied);
            if occupied != 0 {
                if clear >= wanted.max(slots / 8 * LIMIT_EIGHTHS) {
                    return Bounds::all(clear, alive);
                }
                state.measure_occupied_again();
            }
            // Who frees few leaves out what stays at the top.
            let least = if few { wanted } else { slots };
            Bounds {
                least,
                ..Bounds::all(slots, alive)
            }
        });
    }

    /// Rewinds a slab if that is worth it, by the bounds that `bounds` gives for the stripe's word and the slab's slots; or notes that others draw from it. False if it is not looked after, or its keeper is
    /// no stripe.
    #[inline(always)]
    fn rewind_if_worth(
        &self,
        slab: Slab,
        state: &SlabState,
        keeper: Keeper,
        used: u32,
        few: bool,
        bounds: impl FnOnce(Ticket, u32) -> Bounds,
    ) -> bool {
        let (heap, layout) = (*self.heap(), *self.layout());
        // Not what the entry says of the slots, as in `is_turn`: a damaged one may say anything.
        let slots = plausible_slots(&layout, slab);
        if !is_looked_after(&heap, slots, keeper.place()) {
            return false;
        }
        let stripe = heap.stripe_of_place(keeper.place());
        // Both at once: a launch that frees may end with this.
        let (seen, are_plentiful) = (stripe.look(), self.are_pages_plentiful());
        let row = Ticket::new(slab.class(), slab.page(), slab.order(), 0, 0);
        if seen.left() < 0 || !seen.is_of_slab_of(row) {
            return true;
        }
        let bounds = bounds(seen, slots);
        // Looked at for nothing but to spare others the wait: it counts once the word is taken.
        if rewound(seen, slots, used, bounds).is_none() {
            return true;
        }
        let is_in_step = used == 0
            && seen.left() == 0
            && !(few || are_plentiful)
            && slots >= heap.slots_of_launch(slab.class());
        let is_much_left = seen.left() >= (slots / LEFT_SHARE).cast_signed();
        let stays = keeper.keeps() || is_in_step || is_much_left;
        if !stays {
            return true;
        }
        if let Err(now) = rewind(stripe, state, seen, slots, bounds)
            && few
            && !is_small(slots)
            && now.left() < seen.left()
            && now.is_of_slab_of(seen)
        {
            // Others draw: it churns. (Of small slabs that is not noted: nothing is packed there, and who draws would look for the note.)
            self.note_churn(slab.class(), keeper.place(), now);
        }
        true
    }

    /// [`look_after`](Self::look_after) for a large slab of which much is left, by who frees few slots: where pages are not plentiful it may be taken away from its stripe.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_at_large(&self, slab: Slab, state: &SlabState, used: u32) {
        if self.are_pages_plentiful() || !self.give_up(slab, state) {
            self.look_after(slab, state, used, true);
        }
    }

    /// Takes a slab away from its stripe if it seems too large for it: true if so.
    fn give_up(&self, slab: Slab, state: &SlabState) -> bool {
        let slots = plausible_slots(self.layout(), slab);
        let place = state.keeper().not_occupied().place();
        if !is_looked_after(self.heap(), slots, place) {
            return false;
        }
        let stripe = self.stripe_of_place(place);
        let seen = stripe.look();
        let row = Ticket::new(slab.class(), slab.page(), slab.order(), 0, 0);
        seen.is_of_slab_of(row)
            && is_too_large(seen, slots, state)
            && self.take_slab_away(stripe, seen)
    }
}

/// Whether a slab of `slots` plausible slots that the stripe of a place had last is looked after in a heap.
#[inline(always)]
fn is_looked_after(heap: &Heap, slots: u32, place: u32) -> bool {
    // All at once.
    (slots != 0)
        & !Hardening::of_flags(heap.flags).contains(Hardening::QUARANTINE)
        & (place < heap.stripe_places())
}

/// What bounds how a slab is rewound.
#[derive(Clone, Copy)]
struct Bounds {
    /// Units that are offered, at least, whether so many slots are free or not.
    least: u32,
    /// And at most.
    most: u32,
    /// Slots that live, at most: of a slab of which more do nothing is offered.
    alive: u32,
}

impl Bounds {
    /// So many units are offered.
    #[inline(always)]
    fn all(units: u32, alive: u32) -> Self {
        Self {
            least: units,
            most: units,
            alive,
        }
    }

    /// How many are offered of the slab of `seen`, which has `slots` slots, if so many are free or left.
    #[inline(always)]
    fn units(self, seen: Ticket, free: u32, slots: u32) -> u32 {
        // Where blocks are freed while others are drawn there is always something in the way, wherever it begins.
        let units = if seen.is_churned() {
            free
        } else {
            free.max(self.least).min(self.most).min(slots)
        };
        Ticket::offered(units, slots)
    }
}

/// Offers the slab of a stripe whose word is `seen` again, which seems worth it, if nobody changes the word meanwhile; else gives the word that the stripe has. The slab has `slots` slots.
fn rewind(
    stripe: &Stripe,
    slab: &SlabState,
    seen: Ticket,
    slots: u32,
    bounds: Bounds,
) -> Result<(), Ticket> {
    stripe.take(seen)?;
    let again = rewound(seen, slots, slab.used_hint(), bounds).unwrap_or(seen);
    slab.reserve((again.left() - seen.left()).cast_unsigned());
    slab.note_offered(again.left().cast_unsigned());
    slab.publish_given(stripe, again.not_crowded().following(seen));
    Ok(())
}

/// Whether a slab of `slots` slots and `2^order` pages, which who freed `few` slots or not is to look after, may be too large for its stripe: hardly anything of it is in use, or was drawn.
#[inline(always)]
pub(crate) fn may_be_too_large(after: u32, few: bool, slots: u32, order: u32) -> bool {
    few && slots >= LARGE_SLOTS
        && order >= LARGE_ORDER
        && (slots - slots / HARDLY_SHARE - TURN..slots).contains(&(after & USE))
}

/// Whether the slab of `seen`, which has `slots` slots, seems too large for its stripe: since it was offered last some of it was drawn, but hardly any. (If nothing was, it was
/// offered again while others freed.)
#[inline(always)]
fn is_too_large(seen: Ticket, slots: u32, state: &SlabState) -> bool {
    let left = seen.left().cast_unsigned();
    // Not more than the slots: the word may be damaged.
    let is_hardly_drawn = (slots - slots / HARDLY_SHARE..slots).contains(&left);
    is_hardly_drawn && left < state.offered()
}

/// The word by which the slab of `seen` can be drawn from the top on, as far as its bounds tell, of whose `slots` slots `used` are in use or
/// may still be drawn; none if too many live, or too many are left.
#[inline(always)]
fn rewound(seen: Ticket, slots: u32, used: u32, bounds: Bounds) -> Option<Ticket> {
    let left = seen.left().cast_unsigned();
    let free = left + slots.saturating_sub(used);
    // All of it if nothing lives.
    let most = most_used(slots, MOST_EIGHTHS_BEFORE_END);
    let is_enough = used == left || used <= most && free <= slots && slots - free <= bounds.alive;
    let units = bounds.units(seen, free, slots);
    let is_drawn = !is_small(slots) || left <= slots - slots / DRAWN_SHARE;
    (is_enough && is_drawn && left < units).then(|| seen.with_left(units.cast_signed()))
}

/// The most slots of a slab of so many that live when it is rewound by who frees `few` slots, or not; groups found slots of their rows in use if it is `occupied`.
#[inline(always)]
fn most_alive(slots: u32, few: bool, occupied: bool) -> u32 {
    let share = if !few && !occupied {
        slots / MOST_SHARE_OF_MANY
    } else if !few || !(LASTING_FOR_FEW..LASTING_SLOTS).contains(&slots) {
        slots / MOST_SHARE
    } else {
        slots / MOST_SHARE_OF_LARGE
    };
    // As many as lie between two looks: of who frees few, or of all where those who free many have some turns.
    let between = if slots < LEAST_TURNS * TURN || cfg!(any(loom, shuttle)) {
        between_looks(slots)
    } else {
        TURN
    };
    share.max(between)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::class::class_of;
    use crate::refill::ticket_slab;
    use crate::simulated::host_heap::HostHeap;

    /// The word of a stripe with a slab of which so many units can be drawn.
    fn word_with(left: u32) -> Ticket {
        Ticket::new(0, 0, 0, 0, left.cast_signed())
    }

    /// Slots that slabs may have.
    const SLOTS: [u32; 12] = [
        32,
        42,
        64,
        73,
        95,
        96,
        1000,
        3072,
        4096,
        5461,
        8192,
        1 << 15,
    ];

    #[test]
    fn what_lives_for_a_while_is_offered_too() {
        for slots in SLOTS {
            for few in [true, false] {
                let alive = most_alive(slots, few, false);
                let left = slots / 8;
                let offered = |word: Ticket, bounds| {
                    let again = rewound(word, slots, left + alive, bounds);
                    again.expect("few live").left().cast_unsigned()
                };
                let whole = |units| Ticket::offered(units, slots);
                let (word, all) = (word_with(left), Bounds::all(slots, alive));
                assert_eq!(offered(word, all), whole(slots));
                // But where it is always something.
                assert_eq!(offered(word.churned(), all), whole(slots - alive));
                // Below what stays as much as is wanted, at least.
                let below = |least| Bounds {
                    least,
                    ..Bounds::all(slots - 1, alive)
                };
                assert_eq!(offered(word, below(0)), whole(slots - alive));
                assert_eq!(offered(word, below(slots)), whole(slots - 1));
                let one_more = rewound(word, slots, left + alive + 1, all);
                assert!(one_more.is_none(), "{slots}");
            }
        }
    }

    /// A launch would end with that.
    #[test]
    fn who_frees_last_has_nothing_to_look_after() {
        for slots in SLOTS {
            for count in 1..=u32::BITS {
                let whole = Ticket::offered(slots, slots);
                for alive in (0..=most_alive(slots, true, false)).rev() {
                    let word = INSTALLED + whole + alive;
                    for launch in [0, slots / 2, slots, u32::MAX] {
                        let before = word + count;
                        let shape = || (slots, WORD_ORDER);
                        assert!(!is_turn(before, word, are_few(count), shape, || launch));
                    }
                }
            }
        }
    }

    #[test]
    fn slabs_of_which_a_launch_wants_more_than_is_left_are_looked_after_earlier() {
        const SLOTS: u32 = 8192;
        let looks = |used: u32, few, launch| {
            let word = INSTALLED + used;
            is_turn(word + 1, word, few, || (SLOTS, 0), || launch)
        };
        for used in [SLOTS / 8 * 6, SLOTS / 8 * 7] {
            assert!(looks(used, false, SLOTS) && looks(used, false, used));
            // It is enough, or is taken to be by who frees few.
            assert!(!looks(used, false, used - 1) && !looks(used, true, SLOTS));
            assert!(!looks(used - 512, false, SLOTS) && !looks(used + 1, false, SLOTS));
        }
        assert!(looks(SLOTS / 8 * 5, false, 0) && !looks(SLOTS, false, SLOTS));
        // Where turns are shorter than an eighth, and where one lies above seven eighths.
        let looks_in = |slots: u32, used: u32| {
            let word = INSTALLED + used;
            is_turn(word + 1, word, false, || (slots, 0), || slots)
        };
        assert!(looks_in(1 << 15, 6 << 12) && !looks_in(1 << 15, (6 << 12) + 1024));
        assert!(looks_in(5461, 4 << 10) && !looks_in(5461, 5 << 10));
    }

    #[test]
    fn any_note_of_slots_in_use_will_do() {
        // Of large slabs, and of small ones.
        try_notes(64, 700, false);
        try_notes(256, 24, true);
    }

    /// Has slabs looked after whatever is noted of them, while `count` blocks live.
    fn try_notes(bytes: u32, count: usize, small: bool) {
        let host = HostHeap::new(1 << 30, 1, 0);
        let (heap, stripe) = (host.heap(), host.stripe(class_of(bytes)));
        let core = heap.core();
        let mut had_small = false;
        for occupied in [0, 1, 500, 1024, u32::MAX] {
            for offered in [0, 1, 700, 1024, u32::MAX] {
                let blocks: Vec<_> = (0..count).map(|_| heap.malloc(bytes.into())).collect();
                let word = stripe.look();
                let slab = ticket_slab(word);
                let state = core.slab_state(slab.page());
                state.note_occupied(occupied);
                state.note_offered(offered);
                for used in [0, word.units_left(), state.used_hint(), u32::MAX] {
                    core.look_after(slab, state, used, true);
                    core.look_after(slab, state, used, false);
                }
                for block in blocks {
                    // SAFETY: it is this thread's.
                    unsafe { heap.free(block) };
                }
                had_small |= is_small(core.slots(slab));
                let left = stripe.look().units_left();
                assert!(left <= core.slots(slab), "{occupied} {offered}: {left}");
                // As many are counted as may be drawn.
                assert_eq!(core.used_hint(slab.page()), left, "{occupied} {offered}");
            }
        }
        assert_eq!(had_small, small);
    }
}
