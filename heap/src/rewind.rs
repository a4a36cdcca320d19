//! Rewinding: a slab whose blocks came back is offered again by who frees in it, before its stripe runs out.
//!
//! A stripe that runs out makes the warps of its blocks wait for its crosser, even if all that the crosser has to do is to
//! offer the same slab once more. Where blocks are freed in one phase and allocated in the next, a free has the time for
//! it, and nobody waits. So whose free takes the use of a slab past a multiple of some number (see [`is_turn`]) looks whether many of the slab's units are drawn,
//! although hardly any of its slots are in use; and so does whose free leaves nothing in use of a slab all of which was drawn. Who frees few slots at once looks
//! more often: warps that want many sizes draw little from each slab, so these have few slots.
//!
//! Who rewinds takes the stripe's word as a crosser would, by a compare-exchange that fails if anybody draws meanwhile. From then
//! on it is the stripe's crosser: who draws finds fewer than no units, and waits; and nobody can take the slab away from the stripe. It has given its own block back
//! before, so the slab may be without a block in it. The word says that it is being rewound, and whoever looks for idle slabs comes again.
//!
//! A slab is rewound only if its stripe *keeps* it, since it lasts for several launches or the stripe gets no larger one. Else its crosser replaces it by a larger one
//! as soon as it is used up. Who frees few slots at once does not ask for that where much of the slab is left after a launch: warps that want many sizes want little of each. Of what is left less a launch
//! that wants a little more comes to the end, so the sooner it does the better.
//!
//! In a heap with a quarantine nobody rewinds: a request that finds nothing gives back what is in it, and lanes of its own warp that search meanwhile would come
//! again until it has published the stripe, and might keep it from running.
//!
//! What lives while a slab is rewound is not offered. Where blocks of few slots are freed at once it may be when its last is freed: the first rewinding leaves as much that
//! this free comes to a turn, and who has rewound looks once more. (Not of slabs so large that [`Ticket::offered`] rounds what they offer.) For these slabs are hardly larger than what a launch wants of them, and a launch with a single refill takes half as long again.

use crate::hardened::Hardening;
use crate::heap::Core;
use crate::hints::log2;
use crate::slab::{INSTALLED, Slab, SlabState, USE};
use crate::stripe::Stripe;
use crate::ticket::Ticket;

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
/// A slab that is left to this part after a launch is large enough for who frees few slots.
const LEFT_SHARE: u32 = 4;
/// Slots of a slab that lasts for several launches, and is rewound while more of it lives: early in a launch that frees.
const LASTING_SLOTS: u32 = 1 << 15;

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

/// Whether who freed `few` slots or not, and lowered the word of a slab of `slots` slots from `before` to `after`, is to look after the slab. Most see that
/// from the first of these alone.
#[inline(always)]
pub(crate) fn is_turn(before: u32, after: u32, few: bool, slots: impl FnOnce() -> u32) -> bool {
    let turn = turn_of(few);
    // All of it was drawn, and all came back.
    let is_drained = after == INSTALLED;
    let passed = (before ^ after) & USE;
    if !is_drained && passed < turn {
        return false;
    }
    let slots = slots();
    let is_time = passed >> turn_log2(slots) != 0;
    let used = after & USE;
    // It may be what was offered again, of which nothing lives.
    let is_nearly_all = || {
        few && slots.saturating_sub(used) < most_alive(slots, few) + (1 << turn_of_few_log2(slots))
    };
    is_drained
        || is_time && slots >= LEAST_TURNS * turn && (used <= most_used(slots) || is_nearly_all())
}

/// Slots after which a slab of so many is looked after (binary logarithm), if it is seen as often.
#[inline(always)]
fn turn_log2(slots: u32) -> u32 {
    log2(slots)
        .saturating_sub(TURN_SHARE_LOG2)
        .min(TURN.ilog2())
}

/// The same for who frees few slots.
#[inline(always)]
fn turn_of_few_log2(slots: u32) -> u32 {
    turn_log2(slots).max(TURN_OF_FEW.ilog2())
}

/// The most slots of a slab of so many that are in use or left when it is rewound: so it is seldom.
#[inline(always)]
const fn most_used(slots: u32) -> u32 {
    slots / 8 * 5 + BETWEEN_LOOKS
}

impl Core {
    /// Has a slab, whose use the caller, who freed `few` slots or not, lowered to `used`, rewound if that is worth it.
    #[inline(never)]
    pub(crate) fn look_after(&self, slab: Slab, used: u32, few: bool) {
        // Not what the entry says of the slots, as in `is_turn`: a damaged one may say anything.
        let slots = self.plausible_slots(slab);
        if slots == 0 || self.modes().contains(Hardening::QUARANTINE) {
            return;
        }
        let state = self.slab_state(slab.page());
        let Some((index, is_kept)) = self.keeper(slab) else {
            return;
        };
        let stripe = self.stripe(slab.class(), index);
        let seen = stripe.look();
        let is_row = seen.is_of_slab_of(Ticket::new(slab.class(), slab.page(), slab.order(), 0, 0));
        // Looked at for nothing but to spare others the wait: it counts once the word is taken.
        if !is_row || seen.left() < 0 || rewound(seen, slots, used, few).is_none() {
            return;
        }
        let stays = is_kept || few && seen.left() >= (slots / LEFT_SHARE).cast_signed();
        if !stays {
            return;
        }
        if let Some(again) = rewind(stripe, state, seen, slots, few)
            && few
            && state.used_hint() == again.left().cast_unsigned()
        {
            // The last of what lived was freed before the word was there.
            rewind(stripe, state, again, slots, few);
        }
    }
}

/// Offers again what is free in the slab of a stripe whose word is `seen`, which seems worth it, if nobody draws meanwhile: the new word. The slab has `slots`
/// slots, and the caller freed `few` or not.
fn rewind(
    stripe: &Stripe,
    slab: &SlabState,
    seen: Ticket,
    slots: u32,
    few: bool,
) -> Option<Ticket> {
    if !stripe.take(seen) {
        return None;
    }
    let again = rewound(seen, slots, slab.used_hint(), few).unwrap_or(seen);
    slab.reserve((again.left() - seen.left()).cast_unsigned());
    let again = again.following(seen);
    stripe.publish(again);
    Some(again)
}

/// The word by which all that is free in the slab of `seen` can be drawn, from the top on, of whose `slots` slots `used` are in use or
/// may still be drawn; none if too many live, or too many are left.
///
/// Of few slots that are freed at once so many are offered that the last of those that still live comes to a turn: then all may be.
#[inline(always)]
fn rewound(seen: Ticket, slots: u32, used: u32, few: bool) -> Option<Ticket> {
    let left = seen.left().cast_unsigned();
    let free = slots.saturating_sub(used);
    let most = left + free;
    // All of it if nothing lives.
    let is_enough = used == left
        || used <= most_used(slots) && most <= slots && slots - most < most_alive(slots, few);
    let units = if few && used != left {
        before_turn(most, slots)
    } else {
        most
    };
    let units = Ticket::offered(units, slots);
    (is_enough && left < units).then(|| seen.with_left(units.cast_signed()))
}

/// The most units, no more than `units`, with which left the last free in a slab of `slots` slots comes to a turn of who frees few.
#[inline(always)]
fn before_turn(units: u32, slots: u32) -> u32 {
    let turn_log2 = turn_of_few_log2(slots);
    ((units + 1) >> turn_log2 << turn_log2).saturating_sub(1)
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
