//! Rewinding: a slab whose blocks came back is offered again by who frees in it, before its stripe runs out.
//!
//! A stripe that runs out makes the warps of its multiprocessor wait for its crosser, even if all that the crosser has to do is to
//! offer the same slab once more. Where blocks are freed in one phase and allocated in the next, a free has the time for
//! it, and nobody waits. So who frees certain slots (see [`is_turn`]) looks whether many of the slab's units are drawn, although hardly any of
//! its slots are in use.
//!
//! Who rewinds takes the stripe's word as a crosser would, by a compare-exchange that fails if anybody draws meanwhile. From then
//! on it is the stripe's crosser: who draws finds fewer than no units, and waits. Its own block still counts as used, so the slab
//! stays what it is, and is not idle, until the new word is published.
//!
//! Small slabs are left to their stripes' crossers, who get larger ones: rewound after every few blocks, they would cost more than they
//! spare.

use crate::entry::Entry;
use crate::heap::Heap;
use crate::layout;
use crate::slab::SlabState;
use crate::stripe::Stripe;
use crate::ticket::Ticket;

/// Slots of the smallest slab that is rewound.
const LEAST_SLOTS: u32 = if cfg!(any(loom, shuttle)) { 8 } else { 1 << 13 };
/// Who frees the first slot of so many looks after the slab.
const TURN_SLOTS: u32 = if cfg!(any(loom, shuttle)) {
    32
} else {
    1 << 11
};
/// Slots of a slab that lasts for several launches, which is rewound whenever that is worth it. A smaller slab is rewound when a quarter is left, so that it
/// is used up where launches are large, and its stripe gets a larger one.
const LASTING_SLOTS: u32 = 4 * LEAST_SLOTS;

/// Whether who frees `slot`, and others of the same word of the bitmap, is to look after the slab.
#[inline(always)]
pub(crate) fn is_turn(slot: u32) -> bool {
    slot & (TURN_SLOTS - 32) == 0
}

impl Heap {
    /// Has the slab that begins at page `head` rewound if that is worth it. The caller is about to free a block of it.
    #[inline(always)]
    pub(crate) fn look_after(&self, head: u32, entry: Entry) {
        let class = entry.class();
        // Not what the entry says of the slots: a damaged one may say anything.
        let slots = layout::slots(u32::from(self.page_shift), class, entry.order());
        if slots < LEAST_SLOTS || class >= u32::from(self.class_count) {
            return;
        }
        let slab = self.slab_state(head);
        let stripe = self.stripe(class, slab.stripe_hint() & self.stripe_mask(class));
        let (seen, used) = (stripe.look(), slab.used_hint());
        let few = if slots < LASTING_SLOTS {
            slots / 4
        } else {
            slots / 4 * 3
        };
        let is_row = seen.is_of_slab_of(Ticket::new(class, head, entry.order(), 0, 0));
        let is_used_up = (0..=few.cast_signed()).contains(&seen.left());
        // Looked at for nothing but to spare others the wait: it counts once the word is taken.
        if is_row && is_used_up && rewound(seen, slots, used).is_some() {
            rewind(stripe, slab, seen, slots);
        }
    }
}

/// Offers again what is free in the slab of a stripe whose word is `seen`, unless somebody draws meanwhile. The slab has `slots` slots.
#[cold]
#[inline(never)]
fn rewind(stripe: &Stripe, slab: &SlabState, seen: Ticket, slots: u32) {
    if !stripe.take(seen) {
        return;
    }
    let again = rewound(seen, slots, slab.used_hint()).unwrap_or(seen);
    slab.reserve((again.left() - seen.left()).cast_unsigned());
    stripe.publish(again.following(seen));
}

/// The word by which all that is free in the slab of `seen` can be drawn, from the top on, of whose `slots` slots `used` are in use or
/// may still be drawn; none if more than a quarter lives, or less than a quarter would be new.
#[inline(always)]
fn rewound(seen: Ticket, slots: u32, used: u32) -> Option<Ticket> {
    let free = slots.saturating_sub(used);
    let units = seen.left().cast_unsigned() + free;
    let is_enough = free >= slots / 4 && (slots - slots / 4..=slots).contains(&units);
    is_enough.then(|| seen.with_left(units.cast_signed()))
}
