//! Packing: slots that come back while others are drawn are handed out again at once, so that their memory is still in L2.
//!
//! A stripe offers a slab from its highest slot on down, and all of it is gone through before a slot is handed out for a second time. That suits
//! launches that allocate and launches that free. Where lanes of one launch do both, a few dozen blocks of a slab are alive at any time, and each new one
//! would lie where memory has not been touched for long: what its owner writes and reads comes from DRAM, and takes longer than everything
//! that the allocator does (`docs/performance.md`). So there slots are *packed*: who draws units looks for free slots among the
//! [`PACKED_SLOTS`] lowest of the slab. The units say how many there are, as ever, but not where; only
//! where none is free among those the drawn row is taken instead. Nothing else differs: a block belongs to whose atomic turned its bit from 0 to 1.
//!
//! That a slab is drawn from while blocks of it are freed is seen by who would rewind it, few slots at once, and finds that others draw at that moment
//! ([`crate::rewind`]). It is noted beside the slab, goes over to the slab that its stripe gets next, and
//! holds for each offer until a rewinding finds nothing alive, or too much to be packed. Small launches find what they used in L2 in any case.

use crate::claim::Claimed;
use crate::heap::{Core, Heap};
use crate::hints::warps_of_stripe;
use crate::ticket::{PACKED_SLOTS, Ticket};
use core::ops::RangeInclusive;
use simt::atomic::{DeviceAtomicU32, Ordering};

/// Slots of the smallest slab of which slots are packed.
const LEAST_SLOTS: u32 = 2 * PACKED_SLOTS;
/// How many slots are alive of a slab of which slots are packed: so few that groups find some free among the lowest.
const ALIVE: RangeInclusive<u32> = 1..=PACKED_SLOTS / 4 * 3;
/// A launch has so many warps for each stripe, at least, if slots are packed for it.
const LEAST_WARPS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 8 };
/// Slots among which a lane looks for one first. The more there are, the less of the memory is touched, and the more often two groups want the same.
const SPAN: u32 = 4;
/// The most lanes of a group whose slots are packed: for more there is seldom room in a word.
const MOST_LANES: u32 = 8;
/// How often such a group tries to get what is free in a word.
const TRIES: u32 = 3;

/// The same word, of a slab of `slots` slots of which so many are alive, but packed if that fits: for a slab that is drawn from while blocks of it are freed.
pub(crate) fn packed_if(ticket: Ticket, slots: u32, alive: u32) -> Ticket {
    if slots >= LEAST_SLOTS && ALIVE.contains(&alive) {
        ticket.packed()
    } else {
        ticket.in_rows()
    }
}

impl Heap {
    /// Sets the bits of up to `drawn` slots that are free in a word among the lowest of a slab, for a group of `count` lanes that drew as many units: which they
    /// are, or none. Groups whose first units are not the same begin at different places.
    #[inline(always)]
    pub(crate) fn claim_packed(&self, ticket: Ticket, drawn: u32, count: u32) -> Claimed {
        let first = ticket.left().cast_unsigned() - drawn;
        let place = first.wrapping_mul(SPAN) % PACKED_SLOTS;
        let index = self.slot_word_index(ticket.page(), place);
        // Beyond the last word only if the stripe's word is damaged.
        let won = if drawn <= MOST_LANES && self.has_slot_word(index) {
            claim_lowest(self.slot_word(index), place & 31, drawn)
        } else {
            0
        };
        Claimed::new((place & !31) + count, won)
    }
}

impl Core {
    /// Whether a launch is so large that slots of a class are packed for it.
    pub(crate) fn is_grid_to_pack(&self, class: u32) -> bool {
        warps_of_stripe(self.stripes_of(class).count) >= LEAST_WARPS
    }

    /// What to do for a group of `count` lanes of which not all got slots where these are packed, but `claimed`: takes the row that it drew if none did, and
    /// gives back the units for which there are none.
    #[cold]
    #[inline(never)]
    pub(crate) fn complete_packed(&self, ticket: Ticket, count: u32, claimed: Claimed) -> Claimed {
        let (_, drawn) = ticket.row(count);
        let won = claimed.won().count_ones();
        if won == 0 {
            let (row, won) = self.claim_row(ticket.in_rows(), count);
            return Claimed::new(row.row(count).0 + count, won);
        }
        if won != drawn {
            self.give_back_units(ticket, drawn - won);
        }
        claimed
    }
}

/// Sets the first `count` bits of a word that are 0, from bit `from` on, round the word; gives those that it turned from 0 to 1: fewer only if others
/// want them at the same time, and none if there are not as many.
#[inline(never)]
fn claim_lowest(word: &DeviceAtomicU32, from: u32, count: u32) -> u32 {
    // Relaxed: a guess, which the atomic below verifies.
    let mut taken = word.load(Ordering::Relaxed);
    if taken.count_zeros() < count {
        return 0;
    }
    let (mut won, mut lacking) = (0, count);
    for _ in 0..TRIES {
        let free = (!taken).rotate_right(from);
        let wanted = (free & !without_lowest(free, lacking)).rotate_left(from);
        if wanted == 0 {
            break;
        }
        // Acquire: as in `claim_bits`.
        taken = word.fetch_or(wanted, Ordering::Acquire);
        won |= wanted & !taken;
        taken |= wanted;
        lacking = count - won.count_ones();
    }
    won
}

/// `bits` without the `count` lowest that are set, [`MOST_LANES`] at most. Without a branch.
#[inline(always)]
pub(crate) fn without_lowest(bits: u32, count: u32) -> u32 {
    let mut rest = bits;
    for number in 0..MOST_LANES {
        let next = rest & rest.wrapping_sub(1);
        rest = if number < count { next } else { rest };
    }
    rest
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_bits_round_the_word_are_claimed() {
        let claimed = |taken: u32, from, count| {
            let word = DeviceAtomicU32::new(taken);
            let won = claim_lowest(&word, from, count);
            assert_eq!(word.load(Ordering::Relaxed), taken | won);
            won
        };
        assert_eq!(claimed(0, 0, 3), 0b111);
        assert_eq!(claimed(0b1011_0101, 0, 3), 0b100_1010);
        assert_eq!(claimed(0, 30, 4), 3 << 30 | 3);
        assert_eq!(claimed(1 << 31, 30, 2), 1 << 30 | 1);
        assert_eq!(claimed(u32::MAX << 2, 8, 2), 3);
        // Not a part of them.
        assert_eq!(claimed(u32::MAX << 2, 8, 3), 0);
        assert_eq!(claimed(u32::MAX, 0, 1), 0);
    }

    #[test]
    fn as_many_bits_as_a_group_has_lanes_are_left_out() {
        let bits = 0b1101_1011_0100_1110_0010_1101;
        let mut expected = bits;
        for count in 0..=MOST_LANES {
            assert_eq!(without_lowest(bits, count), expected);
            expected &= expected - 1;
        }
    }

    #[test]
    fn slabs_are_packed_where_little_is_alive() {
        let ticket = Ticket::new(3, 64, 2, 0, 500);
        for (slots, alive, packs) in [
            (512, 60, true),
            (512, 0, false),
            (512, 100, false),
            (255, 60, false),
        ] {
            let offered = packed_if(ticket, slots, alive);
            assert_eq!(offered.is_packed(), packs, "{alive} of {slots}");
            assert_eq!(offered.in_rows(), ticket);
            assert_eq!(packed_if(offered, slots, alive), offered);
        }
    }
}
