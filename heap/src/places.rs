//! Slots elsewhere in a slab, for a group that did not get all of the row that it drew, or whose units span several slots that are all in use.
//!
//! Where some blocks outlive the others, a slab that is offered again has a unit for each free slot at least, but the rows that are drawn are as they are: of each block that lives some group finds
//! its bit set. For who lacks a slot there is one in another place, unless all of the slab was offered while something lived that stayed ([`crate::rewind`]): then the last units have none, and who draws in vain a few times has the stripe leave these ([`crate::vain`]). A launch waits for the last of its warps, and what it must do for one slot out of line takes
//! as long as a fast warp takes for all: so who lacks slots looks for them at once, in few steps (`docs/experiments.md`).

use crate::array::Array;
use crate::claim::{lowest_bits, nth_bit};
use crate::damage::plausible_slots;
use crate::heap::{Core, Heap};
use crate::malloc::whole_row;
use crate::refill::ticket_slab;
use crate::ticket::Ticket;
use simt::atomic::{DeviceAtomicU32, Ordering};
use simt::lanes::Lanes;

/// Steps in which a group that did not find all of its row looks for other slots: each changes a word of the slab's bitmap, or goes on to the next.
const STEPS: u32 = 8;
/// The same for units that span several slots. (In models in their own word alone: slabs have two words there, and some units are to find nothing.)
const STEPS_FOR_UNITS: u32 = if cfg!(loom) { 2 } else { STEPS };
/// So many parts of the bitmap these words lie apart.
const PARTS: u32 = 4;

/// Slots that a group has at some place: where that begins, and which of the bits there are the group's. One word, so that it travels in
/// registers.
#[derive(Clone, Copy)]
pub(crate) struct Claimed(pub(crate) u64);

#[allow(clippy::cast_possible_truncation, reason = "two halves")]
impl Claimed {
    pub(crate) const NONE: Self = Self(0);

    /// Those from slot `first` on whose bits were turned from 0 to 1.
    pub(crate) fn new(first: u32, won: u32) -> Self {
        Self(u64::from(first) << 32 | u64::from(won))
    }

    /// The ticket of the row of `count` slots that begins there, of the slab that `drawn` is of.
    #[inline(always)]
    pub(crate) fn ticket(self, drawn: Ticket, count: u32) -> Ticket {
        drawn.with_left((self.first() + count).cast_signed())
    }

    /// The first slot there.
    #[inline(always)]
    pub(crate) fn first(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The bits that were turned from 0 to 1, from the first on.
    #[inline(always)]
    pub(crate) fn won(self) -> u32 {
        self.0 as u32
    }

    /// How many these are.
    #[inline(always)]
    pub(crate) fn count(self) -> u32 {
        self.won().count_ones()
    }

    /// The slot above `index` others.
    #[inline(always)]
    fn slot(self, index: u32) -> Option<u32> {
        let won = self.won();
        if won & won.wrapping_add(1) == 0 {
            // A row.
            return (index < won.count_ones()).then(|| self.first() + index);
        }
        let bit = nth_bit(won, index);
        (bit != 0).then(|| self.first() + bit.trailing_zeros())
    }
}

/// The slots that a group has: at one place, and what it lacks then at another.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    pub(crate) first: Claimed,
    pub(crate) rest: Claimed,
}

impl Places {
    /// One place.
    #[inline(always)]
    pub(crate) fn one(first: Claimed) -> Self {
        Self {
            first,
            rest: Claimed::NONE,
        }
    }

    /// Slots at a place, perhaps none, and those that were found elsewhere for who lacked one.
    #[inline(always)]
    pub(crate) fn completed(first: Claimed, found: Claimed) -> Self {
        if first.won() == 0 {
            Self::one(found)
        } else {
            Self { first, rest: found }
        }
    }

    /// Those of the calling lane's group, of which lane `leader` knows them.
    #[inline(always)]
    pub(crate) fn shared(self, lanes: impl Lanes, leader: u32) -> Self {
        Self {
            first: Claimed(lanes.shuffle_u64(self.first.0, leader)),
            rest: Claimed(lanes.shuffle_u64(self.rest.0, leader)),
        }
    }

    /// The slot of the lane that comes after `rank` others of its group.
    #[inline(always)]
    pub(crate) fn slot(self, rank: u32) -> Option<u32> {
        let of_first = self.first.count();
        if rank < of_first {
            self.first.slot(rank)
        } else {
            self.rest.slot(rank - of_first)
        }
    }
}

impl Core {
    /// Sets the bits of up to `count` free slots of the slab of a ticket, for a group that did not find all of the row that begins with slot `first`. The slab's
    /// bitmap who calls has at hand: for it nothing is to be read here.
    ///
    /// A slab that is offered again while something lives in it has units for what is free, from the lowest slot on, or for all of its slots ([`crate::rewind`]). So the search begins with the mirror of the row's first slot, and goes up from there, round the word: of those that are drawn last it lies at the top, and of those that are drawn first low, where
    /// nobody has drawn yet.
    ///
    /// # Safety
    ///
    /// `bitmap` must be what [`Heap::bitmap_of`] gives for the ticket.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn claim_elsewhere(
        &self,
        ticket: Ticket,
        first: u32,
        count: u32,
        bitmap: Array<DeviceAtomicU32>,
    ) -> Claimed {
        let slots = plausible_slots(self.layout(), ticket_slab(ticket));
        if slots < ticket.units_left() || slots <= first {
            // The stripe's word is damaged. The next attempt mends it.
            return Claimed::NONE;
        }
        // Where blocks are freed while others are drawn there is always something in the way.
        if !ticket.is_churned() {
            self.slab_state(ticket.page()).note_occupied(slots - first);
        }
        // SAFETY: a slab of so many slots lies in the heap, and so does its bitmap, as the caller promises, as long as the heap lives.
        unsafe { claim_in_words(bitmap, slots, slots - 1 - first, count, STEPS) }
    }

    /// Sets the bits of up to `count` free slots of the slab of a ticket, whose units span several slots: in the word of slot `slot`, or in another.
    #[inline(always)]
    pub(crate) fn claim_near(&self, ticket: Ticket, slot: u32, count: u32) -> Claimed {
        let slots = plausible_slots(self.layout(), ticket_slab(ticket));
        if slots <= slot {
            // The stripe's word is damaged. The next attempt mends it.
            return Claimed::NONE;
        }
        // SAFETY: a slab of so many slots lies in the heap, and so does its bitmap, as long as the heap lives.
        unsafe { claim_in_words(self.bitmap_of(ticket), slots, slot, count, STEPS_FOR_UNITS) }
    }
}

impl Heap {
    /// The bitmap of the slab that a ticket is of; of a damaged one it may lie anywhere.
    #[inline(always)]
    pub(crate) fn bitmap_of(&self, ticket: Ticket) -> Array<DeviceAtomicU32> {
        self.slot_words.from(self.slot_word_index(ticket.page(), 0))
    }
}

/// Sets up to `count` bits of free slots in a slab's bitmap, of `slots` slots: in the word of one, or in the first of a few others in which it gets any, in so many steps.
///
/// # Safety
///
/// The bitmap must be initialised, and have a bit for each slot.
#[inline(always)]
unsafe fn claim_in_words(
    bitmap: Array<DeviceAtomicU32>,
    slots: u32,
    slot: u32,
    count: u32,
    steps: u32,
) -> Claimed {
    // Bits of the slot's word beyond the last slot.
    let beyond = |slot: u32| !whole_row((slots - (slot & !31)).min(u32::BITS));
    let (mut slot, mut won) = (slot, 0_u32);
    let mut taken = beyond(slot);
    for _ in 0..steps {
        // From the slot on: others whose rows are near look here, too.
        let from = slot & 31;
        let free = (!taken).rotate_right(from);
        let wanted = lowest_bits(free, count - won.count_ones()).rotate_left(from);
        if wanted != 0 {
            // SAFETY: as the caller promises, for the slot is one of the slab's.
            let word = unsafe { bitmap.get(slot / u32::BITS) };
            // Acquire: as in `claim_bits`.
            let before = word.fetch_or(wanted, Ordering::Acquire);
            won |= wanted & !before;
            taken |= before | wanted;
        } else if won != 0 {
            break;
        } else {
            let next = next_slot(slot, slots);
            if next / u32::BITS == slot / u32::BITS {
                break;
            }
            slot = next;
            taken = beyond(slot);
        }
    }
    let skipped = won.trailing_zeros() & 31;
    Claimed::new((slot & !31) + skipped, won >> skipped)
}

/// In whose word to look after that of `slot`, in a slab of `slots` slots: in the same one only if there is no other.
#[inline(always)]
fn next_slot(slot: u32, slots: u32) -> u32 {
    let words = slots.div_ceil(u32::BITS);
    let next = slot / u32::BITS + (words / PARTS).max(1);
    let word = if next < words { next } else { next - words };
    (word * u32::BITS + slot % u32::BITS).min(slots - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_looked_for_within_their_slab() {
        for slots in 1..=200 {
            for first in 0..slots {
                let mut slot = slots - 1 - first;
                for _ in 0..STEPS {
                    assert!(slot < slots, "{slot} of {slots} slots");
                    let next = next_slot(slot, slots);
                    assert!(
                        slots <= 32 || next / 32 != slot / 32,
                        "{slot} of {slots} slots"
                    );
                    slot = next;
                }
            }
        }
    }
}
