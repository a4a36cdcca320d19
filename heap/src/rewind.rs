//! Rewinding: a slab whose blocks came back is offered again by who frees in it, before its stripe runs out.
//!
//! A stripe that runs out makes the warps of its blocks wait for its crosser, even if all that the crosser has to do is to
//! offer the same slab once more. Where blocks are freed in one phase and allocated in the next, a free has the time for
//! it, and nobody waits. So whose free takes the use of a slab past a multiple of some number (see [`is_turn`]) looks whether many of the slab's units are drawn,
//! although hardly any of its slots are in use; and so does whose free leaves nothing in use of a slab all of which was drawn. Who frees few slots at once looks
//! more often: warps that want many sizes draw little from each slab, so these have few slots.
//!
//! Who rewinds takes the stripe's word as a crosser would, by a compare-exchange that fails if anybody draws, or notes a hint, meanwhile. From then
//! on it is the stripe's crosser: who draws finds fewer than no units, and waits; and nobody can take the slab away from the stripe. It has given its own block back
//! before, so the slab may be without a block in it. The word says that it is being rewound, and whoever looks for idle slabs comes again.
//!
//! A slab is rewound only if its stripe *keeps* it, since it lasts for several launches or the stripe gets no larger one. Else its crosser replaces it by a larger one
//! as soon as it is used up. Who frees few slots at once does not ask for that where much of the slab is left after a launch: warps that want many sizes want little of each. Nor does anybody where pages are not plentiful. Of what is left less a launch
//! that wants a little more comes to the end, so the sooner it does the better.
//!
//! A slab that served more once may be too large for what its stripe draws now, and what lives in it keeps all its pages: slabs of sixty classes that bursts have
//! left held three quarters of a heap. So where pages are not plentiful, who looks after a large slab of which hardly anything was drawn takes it away from its stripe instead: what still
//! lives in it is freed as a rule, and then its pages are free. The stripe's next slab is as small as any. Only who frees few slots asks for that: a burst that is freed by warps comes to such turns
//! at its end, and uses what it has.
//!
//! Of blocks that outlive the launches some lie where the slab is offered from, as a rule, and each launch would find their slots in use, and look for others ([`crate::places`]). Who does notes how far
//! down from the slab's end that was, and the slab is offered from below these slots on, if most of it lies there, and enough for what was drawn since it was offered last. Nobody looks at the bitmap for it.
//! (Of large slots slabs have few, and all that is free of them is wanted; and slabs of very many slots are not drawn to their ends.)
//!
//! In a heap with a quarantine nobody rewinds: a request that finds nothing gives back what is in it, and lanes of its own warp that search meanwhile would come
//! again until it has published the stripe, and might keep it from running.
//!
//! What lives while a slab is rewound is not offered. If the slab is *tight*, hardly larger than what a launch wants of it, all of it is offered when the last of that is freed: the first rewinding leaves a number of units to
//! which the use falls in a turn of who frees last, and who has rewound looks once more. (Who frees many last looks at tight slabs of 32 and 64 pages alone. And while something lives on up to a turn less is offered than could be: of 4,096 slots 3,072.) For a launch with a single refill takes half as long again. Taken for tight are slabs
//! of which few slots are freed at once, and where pages are not plentiful those of 32 or 64 pages with at most [`TIGHT_SLOTS`] slots.

use crate::damage::plausible_slots;
use crate::hardened::Hardening;
use crate::heap::{Core, Heap};
use crate::hints::{are_plentiful, has_small_slots, log2};
use crate::pages::WORD_ORDER;
use crate::slab::{INSTALLED, Keeper, Slab, SlabState, USE};
use crate::stripe::Stripe;
use crate::ticket::Ticket;
use core::ops::RangeInclusive;

/// Whose free takes the use of a slab past a multiple of so many slots looks after the slab.
const TURN: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 1 << 10 };
/// The same for who frees few slots: lanes of warps that want many sizes, of slabs with fewer slots.
const TURN_OF_FEW: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 1 << 5 };
/// So many slots freed at once are not few: slabs of which more is wanted at once should grow instead.
const NOT_FEW: u32 = 8;
/// So many turns has the smallest slab that is rewound while a part of it lives: smaller ones would be rewound after every few blocks, which costs more
/// than it spares.
/// (Under exploration slabs of the largest slots are smaller: models of other things have these.)
const LEAST_TURNS: u32 = if cfg!(any(loom, shuttle)) { 16 } else { 3 };
/// A turn is this part of a slab at least (binary logarithm), unless that are more slots than [`TURN`].
const TURN_SHARE_LOG2: u32 = 3;
/// Less than this part of a slab lives when it is rewound; under exploration nothing of those that most models have.
const FEW_SHARE: u32 = if cfg!(any(loom, shuttle)) { 16 } else { 8 };
/// The same for who frees few slots of a slab of fewer than [`LASTING_FOR_FEW`]: in an aged heap some of its blocks outlive many launches.
const FEW_SHARE_OF_SMALL: u32 = if cfg!(any(loom, shuttle)) { 16 } else { 4 };
/// Slots of a slab that lasts for several launches of which each wants many sizes.
const LASTING_FOR_FEW: u32 = 1 << 12;
/// As many more slots may live or be left as lie between two looks after a small slab: else most looks come too early, and the next too late.
const BETWEEN_LOOKS: u32 = if cfg!(any(loom, shuttle)) {
    0
} else {
    TURN_OF_FEW
};
/// A slab that is left to this part after a launch is large enough for who frees few slots, and for all where pages are not plentiful.
const LEFT_SHARE: u32 = 4;
/// Below slots in use as many units are offered as were drawn since it was done last, and this part more, and a turn.
const SPARE_SHARE: u32 = 4;
/// And so many eighths of the slab's slots.
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
/// Slots of a slab, at most, that one launch of a million threads may use up.
const TIGHT_SLOTS: u32 = 1 << 13;
/// Orders of slabs that may be tight though who frees many looks after them: a word of pages is the most that used heaps have for bursts, as a rule, and smaller slabs grow.
const TIGHT_ORDERS: RangeInclusive<u32> = WORD_ORDER - 1..=WORD_ORDER;

/// Whether `count` slots that are freed at once are few.
#[inline(always)]
pub(crate) fn are_few(count: u32) -> bool {
    count < NOT_FEW
}

/// Turns, in slots, of who frees few slots, or not.
#[inline(always)]
pub(crate) fn turn_of(few: bool) -> u32 {
    if few { TURN_OF_FEW } else { TURN }
}

/// Whether a slab of `2^order` pages with so many slots may be one of which a launch uses up all, though it came back by warps.
#[inline(always)]
fn may_be_tight(slots: u32, order: u32) -> bool {
    slots <= TIGHT_SLOTS && TIGHT_ORDERS.contains(&order)
}

/// Whether who freed `few` slots or not, and lowered the word of a slab from `before` to `after`, is to look after the slab: the use fell to a multiple of
/// its turns, or past one. Most see that without the slab's slots and order.
#[inline(always)]
pub(crate) fn is_turn(
    before: u32,
    after: u32,
    few: bool,
    slots_and_order: impl FnOnce() -> (u32, u32),
) -> bool {
    let turn = turn_of(few);
    let used = after & USE;
    if used == 0 {
        // All of it was drawn, and all came back.
        return after == INSTALLED;
    }
    let passed = (before.wrapping_sub(1) ^ (after - 1)) & USE;
    if passed < turn {
        return false;
    }
    let (slots, order) = slots_and_order();
    let is_time = passed >> turn_log2(slots) != 0;
    // It may be what was offered again of a tight slab, of which nothing lives: then it fell to just that many, a multiple of the last turn.
    let may_be_left = || {
        let last_turn = 1 << last_turn_log2(slots);
        (few || may_be_tight(slots, order))
            && used & (last_turn - 1) == 0
            && slots.saturating_sub(used) < most_alive(slots, few) + last_turn
    };
    is_time && slots >= LEAST_TURNS * turn && (used <= most_used(slots) || may_be_left())
}

/// Whether a slab of so many slots of a class may be offered from below slots in use: those that many sizes are drawn from. Larger ones last.
pub(crate) fn may_be_offered_below(slots: u32, class: u32, page_log2: u32) -> bool {
    slots < LASTING_FOR_FEW && has_small_slots(class, page_log2)
}

/// Units that lie below the last `occupied` of a slab's slots: as many as the use falls to in a turn of who frees last. So all is offered once nothing lives.
#[inline(always)]
fn clear_below(slots: u32, occupied: u32) -> u32 {
    let turn_log2 = last_turn_log2(slots);
    slots.saturating_sub(occupied) >> turn_log2 << turn_log2
}

/// Slots after which a slab of so many is looked after (binary logarithm), if it is seen as often.
#[inline(always)]
fn turn_log2(slots: u32) -> u32 {
    log2(slots)
        .saturating_sub(TURN_SHARE_LOG2)
        .min(TURN.ilog2())
}

/// Slots after which everybody looks after a slab of so many who ever does (binary logarithm).
#[inline(always)]
fn last_turn_log2(slots: u32) -> u32 {
    let least = if slots < LEAST_TURNS * TURN {
        TURN_OF_FEW.ilog2()
    } else {
        TURN.ilog2()
    };
    turn_log2(slots).max(least)
}

/// The most slots of a slab of so many that are in use or left when it is rewound: so it is seldom.
#[inline(always)]
const fn most_used(slots: u32) -> u32 {
    slots / 8 * 5 + BETWEEN_LOOKS
}

impl Core {
    /// Has a slab, whose use the caller, who freed `few` slots or not, lowered to `used`, rewound if that is worth it.
    ///
    /// A launch that frees often ends with this, and then waits for it: so what can be read at once is, also where it may not be needed.
    #[inline(never)]
    pub(crate) fn look_after(&self, slab: Slab, state: &SlabState, used: u32, few: bool) {
        let keeper = state.keeper();
        if !self.rewind_if_worth(slab, state, keeper, used, few, |_, _| u32::MAX)
            && keeper.is_occupied()
        {
            self.look_below(slab, state, keeper.not_occupied(), used, few);
        }
    }

    /// [`look_after`](Self::look_after) for a slab in which groups found slots of their rows in use: it is offered from below these on, if what lies there is enough for what was drawn
    /// since it was offered last, and some more. Else that is forgotten; so it is if nothing lives, and where blocks are freed while others are drawn: then there is always something in the way.
    #[cold]
    #[inline(never)]
    fn look_below(&self, slab: Slab, state: &SlabState, keeper: Keeper, used: u32, few: bool) {
        let (occupied, offered) = (state.occupied(), state.offered());
        self.rewind_if_worth(slab, state, keeper, used, few, |seen, slots| {
            let left = seen.units_left();
            let clear = clear_below(slots, occupied);
            let drawn = offered.saturating_sub(left);
            // The word may be damaged.
            let wanted = drawn.saturating_add(drawn / SPARE_SHARE + TURN_OF_FEW);
            let is_enough = clear >= wanted.max(slots / 8 * LIMIT_EIGHTHS);
            if is_enough && used != left && !seen.is_churned() {
                return clear;
            }
            state.forget_occupied();
            u32::MAX
        });
    }

    /// Rewinds a slab if that is worth it, so that at most as many units are offered as `most` says for the stripe's word and the slab's slots; or notes that others draw from it. False if it is not
    /// looked after, or its keeper is no stripe.
    #[inline(always)]
    fn rewind_if_worth(
        &self,
        slab: Slab,
        state: &SlabState,
        keeper: Keeper,
        used: u32,
        few: bool,
        most: impl FnOnce(Ticket, u32) -> u32,
    ) -> bool {
        let (heap, layout) = (*self.heap(), *self.layout());
        let (free_pages, shared) = (self.free_pages(), &self.globals().shared);
        // Not what the entry says of the slots, as in `is_turn`: a damaged one may say anything.
        let slots = plausible_slots(&layout, slab);
        if !is_looked_after(&heap, slots, keeper.place()) {
            return false;
        }
        let stripe = heap.stripe_of_place(keeper.place());
        let seen = stripe.look();
        let spares_refills = few || !are_plentiful(free_pages.count(), shared.admitted_hint());
        let row = Ticket::new(slab.class(), slab.page(), slab.order(), 0, 0);
        if seen.left() < 0 || !seen.is_of_slab_of(row) {
            return true;
        }
        let is_tight = few || may_be_tight(slots, slab.order()) && spares_refills;
        let manner = Manner {
            few,
            is_tight,
            most: most(seen, slots),
        };
        // Looked at for nothing but to spare others the wait: it counts once the word is taken.
        if rewound(seen, slots, used, manner).is_none() {
            return true;
        }
        let stays =
            keeper.keeps() || spares_refills && seen.left() >= (slots / LEFT_SHARE).cast_signed();
        if !stays {
            return true;
        }
        match rewind(stripe, state, seen, slots, manner) {
            // The last of what lived was freed before the word was there.
            Ok(again)
                if is_tight
                    && again.left().cast_unsigned() < Ticket::offered(slots, slots)
                    && state.used_hint() == again.left().cast_unsigned() =>
            {
                let unlimited = Manner {
                    most: u32::MAX,
                    ..manner
                };
                let _ = rewind(stripe, state, again, slots, unlimited);
            }
            // Others draw: it churns.
            Err(now) if few && now.left() < seen.left() && now.is_of_slab_of(seen) => {
                self.note_churn(slab.class(), keeper.place(), now);
            }
            _ => {}
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

/// How a slab is to be rewound.
#[derive(Clone, Copy)]
struct Manner {
    /// By who frees few slots.
    few: bool,
    /// All that one launch uses up may be needed by the next.
    is_tight: bool,
    /// Units that are offered, at most.
    most: u32,
}

/// Offers again what is free in the slab of a stripe whose word is `seen`, which seems worth it, if nobody changes the word meanwhile: the new word. The slab has `slots`
/// slots. Else gives the word that the stripe has.
fn rewind(
    stripe: &Stripe,
    slab: &SlabState,
    seen: Ticket,
    slots: u32,
    manner: Manner,
) -> Result<Ticket, Ticket> {
    stripe.take(seen)?;
    let again = rewound(seen, slots, slab.used_hint(), manner).unwrap_or(seen);
    slab.reserve((again.left() - seen.left()).cast_unsigned());
    slab.note_offered(again.left().cast_unsigned());
    let again = again.not_crowded().following(seen);
    stripe.publish(again);
    Ok(again)
}

/// Whether a slab of `slots` slots and `2^order` pages, which who freed `few` slots or not is to look after, may be too large for its stripe: much of it is left.
#[inline(always)]
pub(crate) fn may_be_too_large(after: u32, few: bool, slots: u32, order: u32) -> bool {
    few && slots >= LARGE_SLOTS && order >= LARGE_ORDER && after & USE > most_used(slots)
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

/// The word by which all that is free in the slab of `seen` can be drawn, from the top on, of whose `slots` slots `used` are in use or
/// may still be drawn; none if too many live, or too many are left.
///
/// Of a tight slab so many are offered that the last free of those that still live comes to a turn: then all may be.
#[inline(always)]
fn rewound(seen: Ticket, slots: u32, used: u32, manner: Manner) -> Option<Ticket> {
    let left = seen.left().cast_unsigned();
    let free = slots.saturating_sub(used);
    let most = left + free;
    // All of it if nothing lives.
    let is_enough = used == left
        || used <= most_used(slots)
            && most <= slots
            && slots - most < most_alive(slots, manner.few);
    let units = if manner.is_tight && used != left {
        let turn_log2 = last_turn_log2(slots);
        most >> turn_log2 << turn_log2
    } else {
        most
    };
    let units = Ticket::offered(units.min(manner.most), slots);
    (is_enough && left < units).then(|| seen.with_left(units.cast_signed()))
}

/// Fewer slots of a slab of so many live when it is rewound by who frees `few` slots, or not.
#[inline(always)]
const fn most_alive(slots: u32, few: bool) -> u32 {
    if slots >= LASTING_SLOTS {
        return slots / 4;
    }
    let share = if few && slots < LASTING_FOR_FEW {
        slots / FEW_SHARE_OF_SMALL
    } else {
        slots / FEW_SHARE
    };
    if share > BETWEEN_LOOKS {
        share
    } else {
        BETWEEN_LOOKS + 1
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::class::class_of;
    use crate::refill::ticket_slab;
    use crate::simulated::host_heap::HostHeap;

    /// The stripe's slab, of which so many units can be drawn.
    fn slab_with(left: u32) -> Ticket {
        Ticket::new(0, 0, 0, 0, left.cast_signed())
    }

    /// What a stripe is offered of a tight slab, while a part lives, by who frees `few` or not.
    fn offered_first(slots: u32, alive: u32, few: bool) -> u32 {
        let manner = Manner {
            few,
            is_tight: true,
            most: u32::MAX,
        };
        let again = rewound(slab_with(0), slots, alive, manner).expect("few enough live");
        again.left().cast_unsigned()
    }

    /// Asserts that who frees the last `count` blocks of a slab of which `left` units can be drawn has all of it offered.
    fn assert_last_free_offers_all(slots: u32, left: u32, count: u32) {
        let few = are_few(count);
        let (before, after) = (INSTALLED | (left + count), INSTALLED | left);
        let is_turn = is_turn(before, after, few, || (slots, WORD_ORDER));
        assert!(is_turn, "{slots} slots, {left} left, {count} freed last");
        let manner = Manner {
            few,
            is_tight: true,
            most: u32::MAX,
        };
        let whole =
            rewound(slab_with(left), slots, left, manner).map_or(left.cast_signed(), Ticket::left);
        assert_eq!(whole, Ticket::offered(slots, slots).cast_signed());
    }

    #[test]
    fn any_note_of_slots_in_use_will_do() {
        const BYTES: u32 = 64;
        let host = HostHeap::new(1 << 30, 1, 0);
        let (heap, stripe) = (host.heap(), host.stripe(class_of(BYTES)));
        let core = heap.core();
        for occupied in [0, 1, 500, 1024, u32::MAX] {
            for offered in [0, 1, 700, 1024, u32::MAX] {
                let blocks = [(); 700].map(|()| heap.malloc(BYTES.into()));
                let word = stripe.look();
                let slab = ticket_slab(word);
                let state = core.slab_state(slab.page());
                state.note_occupied(occupied);
                state.note_offered(offered);
                for used in [0, word.units_left(), state.used_hint(), u32::MAX] {
                    core.look_after(slab, state, used, true);
                }
                for block in blocks {
                    // SAFETY: it is this thread's.
                    unsafe { heap.free(block) };
                }
                let left = stripe.look().units_left();
                assert!(left <= core.slots(slab), "{occupied} {offered}: {left}");
                // As many are counted as may be drawn.
                assert_eq!(core.used_hint(slab.page()), left, "{occupied} {offered}");
            }
        }
    }

    #[test]
    fn the_last_free_of_a_tight_slab_offers_all_of_it() {
        for slots in [96, 100, 256, 1000, 3071, 3072, 3276, 4096, 5461, 8192] {
            // Only who frees few looks after the smallest.
            let most_freed = if slots < LEAST_TURNS * TURN {
                NOT_FEW - 1
            } else {
                32
            };
            for few in [true, false] {
                for alive in 1..most_alive(slots, few) {
                    let left = offered_first(slots, alive, few);
                    assert!(left + alive <= slots);
                    for count in 1..=alive.min(most_freed) {
                        assert!(left > 0, "{slots} slots, {alive} alive");
                        assert_last_free_offers_all(slots, left, count);
                    }
                }
            }
        }
    }
}
