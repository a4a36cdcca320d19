//! Turning the units that a group drew into blocks, where the fast path did not: rows that found slots in use or were cut short, and
//! units that span several slots.
//!
//! A slab that had blocks when it was offered has units of several slots. Then each word's
//! first lane looks for free ones for all lanes of that word, and elsewhere in the slab for those that find none there.

use crate::class;
use crate::entry::Entry;
use crate::heap::Core;
use crate::layout;
use crate::malloc::whole_row;
use crate::places::{Claimed, Places};
use crate::refill::{MAX_DENSITY, ticket_slab};
use crate::ticket::Ticket;
use simt::atomic::Ordering;
use simt::lanes::Part;
use simt::warp;

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
    /// Its slots, where units are slots.
    pub(crate) places: Places,
}

impl Core {
    /// Sets the bits of the units that a group of `count` lanes drew, where a unit is a slot: which slots it has, of the row or elsewhere. The
    /// other units are given back.
    pub(crate) fn claim_row(&self, ticket: Ticket, count: u32) -> Places {
        let row = self.claim_drawn(ticket, count);
        if row.won() == whole_row(ticket.row(count).1) {
            return Places::one(row);
        }
        // Before the shuffle: no lane draws again while a unit that it lost still counts as a
        // slot in use. Others would find the slab full.
        Places::completed(row, self.claim_row_elsewhere(ticket, count, row.won()))
    }

    /// Sets the bits of the row that a group of `count` lanes drew: which it turned from 0 to 1.
    #[inline(always)]
    pub(crate) fn claim_drawn(&self, ticket: Ticket, count: u32) -> Claimed {
        let (first, drawn) = ticket.row(count);
        // The group draws from the top of what is left.
        let last = ticket.left().cast_unsigned() - 1;
        if !self.has_slot_word(self.slot_word_index(ticket.page(), last)) {
            // The stripe's word is damaged. The next attempt mends it.
            return Claimed::new(first, 0);
        }
        Claimed::new(first, self.claim_bits(ticket.page(), first, drawn))
    }

    /// What to do for a group of `count` lanes that found only the slots `won` of its row: looks for as many as it lacks elsewhere in the
    /// slab, gives back the units for which there are none, and tells which it found.
    #[inline(always)]
    pub(crate) fn claim_row_elsewhere(&self, ticket: Ticket, count: u32, won: u32) -> Claimed {
        let (first, drawn) = ticket.row(count);
        let lacking = drawn - won.count_ones();
        // SAFETY: the bitmap is the ticket's.
        let found = unsafe { self.claim_elsewhere(ticket, first, lacking, self.bitmap_of(ticket)) };
        if found.count() != lacking {
            self.give_back_units(ticket, lacking - found.count());
        }
        found
    }

    /// Gives back units of those that were drawn with a ticket, for which no slot was found.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_back_units(&self, ticket: Ticket, count: u32) {
        let slots = self.plausible_slots(ticket_slab(ticket));
        if slots == 0 || slots < ticket.units_left() {
            // The stripe's word is damaged.
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
            places,
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
        let mut of_word = Places::one(Claimed::NONE);
        if begins {
            let unit = unit.cast_unsigned();
            let left = ticket.left().cast_unsigned() - unit;
            let units = left.min(word_units + 1 - (unit & word_units));
            of_word = self.claim_units(ticket, slot, units, density);
        }
        // As in `share`.
        warp::sync(active);
        of_word = of_word.shared(Part(active), leader);
        if unit < 0 {
            // A row of another group, or nothing.
            return places.slot(rank);
        }
        let mates = group & warp::lanes_below() & !(1_u32.wrapping_shl(leader) - 1);
        of_word.slot(mates.count_ones())
    }

    /// Sets a bit for each of `units` units from slot `slot` on, all in one word: those of free slots there, and where these are fewer of others, since about as many slots are free somewhere as there
    /// are units (up to a third less, or where hardly any is free fewer still). Units for which none is found are given back.
    #[inline(always)]
    pub(crate) fn claim_units(
        &self,
        ticket: Ticket,
        slot: u32,
        units: u32,
        density: u32,
    ) -> Places {
        let won = self.claim_word(ticket, slot, units, density);
        let here = Claimed::new(slot & !31, won);
        let lacking = units - won.count_ones();
        if lacking == 0 {
            return Places::one(here);
        }
        Places::completed(here, self.claim_units_elsewhere(ticket, slot, lacking))
    }

    /// The same for `lacking` units that found no slot free where they span some, from slot `slot` on.
    #[cold]
    #[inline(never)]
    fn claim_units_elsewhere(&self, ticket: Ticket, slot: u32, lacking: u32) -> Claimed {
        let found = self.claim_near(ticket, slot, lacking);
        if found.count() != lacking {
            // As in `claim_row`.
            self.give_back_units(ticket, lacking - found.count());
        }
        found
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

/// The `count` lowest set bits of `bits`.
#[inline(always)]
pub(crate) fn lowest_bits(bits: u32, count: u32) -> u32 {
    if count < bits.count_ones() {
        bits & ((1 << position_of(bits, count).0) - 1)
    } else {
        bits
    }
}

/// The set bit of `bits` above `index` others, or 0.
#[inline(always)]
pub(crate) fn nth_bit(bits: u32, index: u32) -> u32 {
    let (position, left) = position_of(bits, index);
    if left == 0 { bits & 1 << position } else { 0 }
}

/// The position of the set bit of `bits` above `index` others, and 0; the last position and something else if there is none. In as many steps for each: lanes wait for the one that takes most, and a loop
/// over the bits is more code, since it is unrolled.
#[inline(always)]
fn position_of(bits: u32, index: u32) -> (u32, u32) {
    let (mut position, mut left) = (0, index);
    for width in [16, 8, 4, 2, 1] {
        let below = (bits >> position & ((1 << width) - 1)).count_ones();
        if left >= below {
            left -= below;
            position += width;
        }
    }
    (position, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_below() {
        assert_eq!(lowest_bits(0b1011_0100, 2), 0b1_0100);
        assert_eq!(lowest_bits(0b11, 5), 0b11);
        assert_eq!(nth_bit(0b1011_0100, 0), 0b100);
        assert_eq!(nth_bit(0b1011_0100, 3), 0b1000_0000);
        assert_eq!(nth_bit(0b1011_0100, 4), 0);
        for bits in [0, 1, 1 << 31, 0xf000_000f, 0x5555_5555, u32::MAX] {
            for count in 0..=33 {
                let mut rest = bits;
                for _ in 0..count {
                    rest &= rest.wrapping_sub(1);
                }
                assert_eq!(lowest_bits(bits, count), bits & !rest, "{bits:#x} {count}");
                let bit = rest & rest.wrapping_neg();
                assert_eq!(nth_bit(bits, count), bit, "{bits:#x} {count}");
            }
        }
    }

    /// The slots of the lanes of a group of `count` that drew a row of which `taken` are in use, and how many of them lie in that row.
    #[cfg(not(any(loom, shuttle)))]
    fn slots_where_some_are_taken(count: u32, taken: u32) -> (Vec<u32>, usize) {
        let host = crate::simulated::host_heap::HostHeap::new(1 << 30, 1, 0);
        let core = host.heap().core();
        assert!(!host.heap().malloc(16).is_null());
        let drawn = host.stripe(class::class_of(16)).draw(count);
        let (first, _) = drawn.row(count);
        for slot in (0..count).filter(|slot| taken >> slot & 1 != 0) {
            core.claim_bits(drawn.page(), first + slot, 1);
        }
        let used = core.used_hint(drawn.page());
        let places = core.claim_row(drawn, count);
        let slots: Vec<_> = (0..count).filter_map(|rank| places.slot(rank)).collect();
        // Who has none has no unit either.
        let lacking = count - u32::try_from(slots.len()).expect("few");
        assert_eq!(core.used_hint(drawn.page()), used - lacking);
        for slot in &slots {
            let word = core.slot_word(core.slot_word_index(drawn.page(), *slot));
            assert_ne!(word.load(Ordering::Relaxed) >> (slot % 32) & 1, 0);
        }
        let is_in_row = |slot: &&u32| (first..first + count).contains(*slot);
        let in_row = slots.iter().filter(is_in_row).count();
        (slots, in_row)
    }

    #[test]
    #[cfg(not(any(loom, shuttle)))]
    fn who_lacks_a_slot_of_its_groups_row_has_one_elsewhere() {
        for count in [1, 2, 5, 8, 31, 32] {
            let row = whole_row(count);
            for taken in [0, 1, 0b10, 0x8000_0001, 0x5555_5555, 0xffff_0000, u32::MAX] {
                let (mut slots, in_row) = slots_where_some_are_taken(count, taken);
                let free = (row & !taken).count_ones();
                assert_eq!(in_row, free as usize, "{count} lanes, {taken:#x}");
                slots.sort_unstable();
                slots.dedup();
                assert_eq!(slots.len(), count as usize, "{count} lanes, {taken:#x}");
            }
        }
    }

    /// The slots that `units` units of eight slots each get from slot `slot` on, in a slab of which the `free` ones are free, and for how many the use is lowered.
    #[cfg(not(any(loom, shuttle)))]
    fn slots_of_units(free: &[u32], slot: u32, units: u32) -> (Vec<u32>, u32) {
        const DENSITY: u32 = 3;
        let host = crate::simulated::host_heap::HostHeap::new(1 << 30, 1, 0);
        let core = host.heap().core();
        assert!(!host.heap().malloc(16).is_null());
        let word = host.stripe(class::class_of(16)).look();
        let slots = core.slots(ticket_slab(word));
        for first in (0..slots).step_by(32) {
            let bits = (free.iter().filter(|slot| **slot & !31 == first))
                .fold(u32::MAX, |bits, slot| bits & !(1 << (slot & 31)));
            core.slot_word(core.slot_word_index(word.page(), first))
                .store(bits, Ordering::Relaxed);
        }
        let used = core.used_hint(word.page());
        let drawn = Ticket::new(word.class(), word.page(), word.order(), DENSITY, 1);
        let places = core.claim_units(drawn, slot, units, DENSITY);
        let slots = (0..units).filter_map(|rank| places.slot(rank)).collect();
        (slots, used - core.used_hint(word.page()))
    }

    #[test]
    #[cfg(not(any(loom, shuttle)))]
    fn units_whose_slots_are_in_use_have_others() {
        // Where they are, beside that in the word, in another word; and fewer than there are units.
        for (free, expected) in [
            (&[35, 44, 50][..], &[35, 44][..]),
            (&[35, 36, 44], &[35, 36]),
            (&[35, 60], &[35, 60]),
            (&[60, 61, 62], &[60, 61]),
            (&[35], &[35]),
            (&[], &[]),
        ] {
            let lacking = 2 - u32::try_from(expected.len()).expect("few");
            assert_eq!(slots_of_units(free, 32, 2), (expected.to_vec(), lacking));
        }
        let host = crate::simulated::host_heap::HostHeap::new(1 << 30, 1, 0);
        assert!(!host.heap().malloc(16).is_null());
        let slots = host.heap().core().slots(ticket_slab(host.stripe(0).look()));
        let far = 32 + slots / 4;
        assert_eq!(slots_of_units(&[40, far], 32, 2), (vec![40, far], 0));
    }
}
