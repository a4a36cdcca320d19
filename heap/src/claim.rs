//! Turning the units that a group drew into blocks, where the fast path did not: rows that found slots in use or were cut short, and
//! units that span several slots.
//!
//! A slab that had blocks when it was offered has units of several slots. Then each word's
//! first lane looks for free ones for all lanes of that word.

use crate::class;
use crate::entry::Entry;
use crate::heap::Core;
use crate::layout;
use crate::malloc::whole_row;
use crate::refill::{MAX_DENSITY, ticket_slab};
use crate::ticket::Ticket;
use simt::atomic::Ordering;
use simt::warp;

/// Places of a slab where a group looks for slots that found none at its own.
const PLACES: u32 = 4;

/// What a lane's group drew.
pub(crate) struct Draw {
    /// Lanes that came together.
    pub(crate) active: u32,
    /// Lanes of the group.
    pub(crate) group: u32,
    /// How many of them come before the calling one.
    pub(crate) rank: u32,
    /// The stripe's word before: the units below its left ones are the group's.
    pub(crate) ticket: Ticket,
    /// Slots that became blocks, from the first of the ticket's row on.
    pub(crate) won: u32,
}

impl Draw {
    /// The calling lane's slot of those that its group got where units are slots, if there is one for it.
    #[inline(always)]
    pub(crate) fn slot(&self) -> Option<u32> {
        let count = self.group.count_ones();
        let (first, _) = self.ticket.row(count);
        if self.won == whole_row(count) {
            return Some(first + self.rank);
        }
        let bit = nth_bit(self.won, self.rank);
        (bit != 0).then(|| first + bit.trailing_zeros())
    }
}

/// What a group has whose slots are not the row that it drew: where they are, and which of the bits there are the group's. One word, so that it travels in
/// registers.
#[derive(Clone, Copy)]
pub(crate) struct Claimed(u64);

#[allow(clippy::cast_possible_truncation, reason = "two halves")]
impl Claimed {
    /// A row that ends before slot `end`.
    pub(crate) fn new(end: u32, won: u32) -> Self {
        Self(u64::from(end) << 32 | u64::from(won))
    }

    /// The ticket of the row, of the slab that `drawn` is of.
    #[inline(always)]
    pub(crate) fn ticket(self, drawn: Ticket) -> Ticket {
        drawn.with_left((self.0 >> 32) as i32)
    }

    /// The bits that were turned from 0 to 1, from the first on.
    #[inline(always)]
    pub(crate) fn won(self) -> u32 {
        self.0 as u32
    }
}

impl Core {
    /// Sets the bits of the units that a group of `count` lanes drew, where a unit is a slot: the ticket of the row, perhaps
    /// another than that of the units, and which bits of it were turned from 0 to 1, from the first on. The
    /// other units are given back.
    pub(crate) fn claim_row(&self, ticket: Ticket, count: u32) -> (Ticket, u32) {
        let (first, drawn) = ticket.row(count);
        // The group draws from the top of what is left.
        let last = ticket.left().cast_unsigned() - 1;
        if !self.has_slot_word(self.slot_word_index(ticket.page(), last)) {
            // The stripe's word is damaged. The next attempt mends it.
            return (ticket, 0);
        }
        let won = self.claim_bits(ticket.page(), first, drawn);
        if won != whole_row(drawn) {
            // Before the shuffle: no lane draws again while a unit that it lost still counts as a
            // slot in use. Others would find the slab full.
            let claimed = self.claim_row_elsewhere(ticket, count, won);
            return (claimed.ticket(ticket), claimed.won());
        }
        (ticket, won)
    }

    /// What to do for a group of `count` lanes that found only the slots `won` of its row: looks for as many elsewhere in the
    /// slab if it found none, and gives back the units for which there are none.
    ///
    /// A slab that is offered again has a unit for each free slot, from the lowest slot on. What lives in it was
    /// probably allocated last, and so lies lowest: as many slots at the top have no unit of their own. Therefore the
    /// first place to look at is the mirror of the row.
    #[cold]
    #[inline(never)]
    pub(crate) fn claim_row_elsewhere(&self, ticket: Ticket, count: u32, won: u32) -> Claimed {
        let (first, drawn) = ticket.row(count);
        let slots = self.plausible_slots(ticket_slab(ticket));
        if slots < first + drawn {
            // The stripe's word is damaged. The next attempt mends it.
            return Claimed::new(first + count, won);
        }
        let (mut place, mut won) = (first, won);
        if won == 0 {
            // Where a row can begin.
            let places = slots - drawn;
            place = places - first;
            for _ in 0..PLACES {
                won = self.claim_bits(ticket.page(), place, drawn);
                if won != 0 {
                    break;
                }
                place = next_place(place, slots, places);
            }
        }
        if won.count_ones() != drawn {
            self.give_back_units(ticket, drawn - won.count_ones());
        }
        Claimed::new(place + count, won)
    }

    /// Gives back units that found no slot.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_back_units(&self, ticket: Ticket, count: u32) {
        if !self.is_plausible(ticket_slab(ticket)) {
            return;
        }
        self.release_units(
            ticket.page(),
            Entry::slab(ticket.class(), ticket.order()),
            count,
        );
    }

    /// Turns the units that groups drew from slabs with blocks into blocks: the calling lane's slot.
    #[inline(always)]
    #[allow(clippy::manual_ilog2, reason = "ilog2 would bring a panic")]
    pub(crate) fn claim_spread(&self, draw: &Draw) -> Option<u32> {
        let Draw {
            active,
            group,
            rank,
            ticket,
            ..
        } = *draw;
        let lane = warp::lane_id();
        // No more than a word, even if the stripe's word is damaged.
        let density = ticket.density().min(MAX_DENSITY);
        // Units of a word of the bitmap, less one.
        let word_units = 31 >> density;
        let unit = if ticket.is_spread() {
            ticket.left() - group.count_ones().cast_signed() + rank.cast_signed()
        } else {
            -1
        };

        // The lane with the first unit of a word acts for those after it in the same word.
        let begins = unit >= 0 && (rank == 0 || unit.cast_unsigned() & word_units == 0);
        let through = 2_u32.wrapping_shl(lane).wrapping_sub(1);
        let leaders = warp::ballot(active, begins) & group & through;
        let leader = if leaders != 0 {
            31 - leaders.leading_zeros()
        } else {
            lane
        };

        let slot = unit.cast_unsigned().wrapping_shl(density);
        let mut won = 0;
        if begins {
            let unit = unit.cast_unsigned();
            let left = ticket.left().cast_unsigned() - unit;
            let units = left.min(word_units + 1 - (unit & word_units));
            won = self.claim_word(ticket, slot, units, density);
            if won.count_ones() != units {
                // As in `claim_row`.
                self.give_back_units(ticket, units - won.count_ones());
            }
        }
        // As in `share`.
        warp::sync(active);
        won = warp::shuffle(active, won, leader);
        if unit < 0 {
            // A row of another group, or nothing.
            return draw.slot();
        }
        let mates = group & warp::lanes_below() & !(1_u32.wrapping_shl(leader) - 1);
        let bit = nth_bit(won, mates.count_ones());
        (bit != 0).then(|| (slot & !31) + bit.trailing_zeros())
    }

    /// Sets a bit for each of `units` units from slot `slot` on, all in one word; gives those
    /// that it turned from 0 to 1.
    #[inline(always)]
    pub(crate) fn claim_word(&self, ticket: Ticket, slot: u32, units: u32, density: u32) -> u32 {
        let index = self.slot_word_index(ticket.page(), slot);
        let span = (u32::MAX >> (32 - (units << density))) << (slot & 31);
        // The last unit of a slab may span past its last slot.
        let page_shift = u32::from(self.page_shift);
        let slots = layout::slots(page_shift, ticket.class(), ticket.order());
        if slot >= slots || !self.has_slot_word(index) {
            // The stripe's word is damaged. The next attempt mends it.
            return 0;
        }
        let word = self.slot_word(index);
        let end = (slots - (slot & !31)).min(32);
        let inside = span & (u32::MAX >> (32 - end));
        // Relaxed: a guess, which the atomic below verifies.
        let wanted = lowest_bits(!word.load(Ordering::Relaxed) & inside, units);
        // Acquire: as in `claim_row`.
        wanted & !word.fetch_or(wanted, Ordering::Acquire)
    }

    /// Offset of a slot of a ticket's slab from the heap's first byte.
    #[inline(always)]
    pub(crate) fn slot_offset(&self, ticket: Ticket, slot: u32) -> u64 {
        let bytes = class::slot_bytes(ticket.class());
        (u64::from(ticket.page()) << self.page_shift) + u64::from(slot) * u64::from(bytes)
    }
}

/// Where to look after `place` for a row in a slab of `slots` slots, in which a row can begin at `places` at most.
#[inline(always)]
fn next_place(place: u32, slots: u32, places: u32) -> u32 {
    // Not `%`, which may panic.
    (place + slots / PLACES)
        .checked_rem(places + 1)
        .unwrap_or(0)
}

/// The `count` lowest set bits of `bits`.
#[inline(always)]
fn lowest_bits(bits: u32, count: u32) -> u32 {
    let mut rest = bits;
    for _ in 0..count {
        rest &= rest.wrapping_sub(1);
    }
    bits & !rest
}

/// The set bit of `bits` above `index` others, or 0.
#[inline(always)]
fn nth_bit(bits: u32, index: u32) -> u32 {
    let mut rest = bits;
    for _ in 0..index {
        rest &= rest.wrapping_sub(1);
    }
    rest & rest.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_looked_for_within_their_slab() {
        for slots in 1..=200 {
            for drawn in 1..=slots.min(32) {
                let places = slots - drawn;
                for first in 0..=places {
                    let mut place = places - first;
                    for _ in 0..PLACES {
                        assert!(place <= places, "{place} of {places} in {slots} slots");
                        place = next_place(place, slots, places);
                    }
                }
            }
        }
    }

    #[test]
    fn bits_are_counted_from_below() {
        assert_eq!(lowest_bits(0b1011_0100, 2), 0b1_0100);
        assert_eq!(lowest_bits(0b11, 5), 0b11);
        assert_eq!(nth_bit(0b1011_0100, 0), 0b100);
        assert_eq!(nth_bit(0b1011_0100, 3), 0b1000_0000);
        assert_eq!(nth_bit(0b1011_0100, 4), 0);
    }
}
