//! Packing: slots that come back while others are drawn are handed out again at once, so that their memory is still in L2.
//!
//! A stripe offers a slab from its highest slot on down, and all of it is gone through before a slot is handed out for a second time. That suits
//! launches that allocate and launches that free. Where lanes of one launch do both, a few dozen blocks of a slab are alive at any time, and each new one
//! would lie where memory has not been touched for long: what its owner writes and reads comes from DRAM, and takes longer than everything
//! that the allocator does (`docs/experiments.md`). So there slots are *packed*: who draws units looks for free slots in one word of the bitmap, of the
//! [`PACKED_SLOTS`] lowest of the slab. The units say how many may be had, as ever, but not where; only
//! where that word has fewer free than are wanted the drawn row is taken instead. Nothing else differs: a block belongs to whose atomic turned its bit from 0 to 1.
//!
//! Slots are packed in a launch that *churns*: blocks are freed while others are drawn. That is seen by who would rewind a slab, few slots at once, and finds
//! that others draw from it at that moment ([`crate::rewind`]; of slabs that are small there it is not noted): it notes the launch's number for its stripe's row. A warp of several
//! groups reads that while it draws, for which it waits in any case. Other lanes read it only where the stripe's word says that it is worth it, and then out of
//! line. The next launch, which may allocate alone, has another number, and draws rows; what is left in the word is taken back by who draws next. (Kernels of a CUDA graph have the same number each time that
//! it is launched: there slots may be packed once more.)
//!
//! Where too much of a slab is alive, who finds no slot in its word of the bitmap notes it in the stripe's, until the slab is offered anew. Small launches find
//! what they used in L2 in any case.

use crate::class;
use crate::heap::{Core, Heap};
use crate::hints::warps_of_stripe;
use crate::places::{Claimed, Places};
use crate::stripe::Churned;
use crate::ticket::{PACKED_SLOTS, Ticket};
use simt::atomic::{DeviceAtomicU32, Ordering};
use simt::thread;

/// Slots of the smallest slab of which slots are packed (binary logarithm).
const LEAST_SLOTS_LOG2: u32 = PACKED_SLOTS.ilog2() + if cfg!(any(loom, shuttle)) { 0 } else { 1 };
/// Slots are packed until a group finds fewer free in a word than it wants, and than this.
const LEAST_FREE: u32 = 5;
/// A launch has so many warps for each stripe, at least, if slots are packed for it.
const LEAST_WARPS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 8 };
/// Slots among which a lane looks for one first. The more there are, the less of the memory is touched, and the more often two groups want the same.
const SPAN: u32 = 4;
/// The most lanes of a group whose slots are packed: for more there is seldom room in a word.
pub(crate) const MOST_LANES: u32 = 8;
/// How often such a group tries to get what is free in a word.
const TRIES: u32 = 3;

impl Heap {
    /// Whether slots are packed of the units that a group of `count` lanes drew, slots of so many bytes, in a row of stripes of which `churned` was noted.
    #[inline(always)]
    pub(crate) fn packs(
        &self,
        ticket: Ticket,
        count: u32,
        slot_bytes: u32,
        churned: Churned,
    ) -> bool {
        let slab_bytes = (1_u64 << self.page_shift) << ticket.order();
        // The note says it, so whether the stripe's word does too is not asked.
        churned.is_in(thread::grid_id())
            && may_be_packed(ticket.churned(), count)
            && u64::from(slot_bytes) << LEAST_SLOTS_LOG2 <= slab_bytes
    }

    /// Sets the bits of up to `count` slots, [`MOST_LANES`] at most, that are free in a word among the lowest of a slab, for a group that drew as many units: which
    /// they are, or none. Groups whose first units are not the same begin at different places.
    #[inline(always)]
    pub(crate) fn claim_packed(&self, ticket: Ticket, count: u32) -> Claimed {
        let place = packed_place(ticket, count);
        let index = self.slot_word_index(ticket.page(), place);
        // Beyond the last word only if the stripe's word is damaged.
        let won = if self.has_slot_word(index) {
            claim_lowest(self.slot_word(index), place & 31, count)
        } else {
            0
        };
        Claimed::new(place & !31, won)
    }
}

impl Core {
    /// Notes that slots of the stripe at a place, one of a class, whose word is `now`, are drawn in this launch while others are freed, few at once.
    pub(crate) fn note_churn(&self, class: u32, place: u32, now: Ticket) {
        if warps_of_stripe(self.stripes_of(class).count) < LEAST_WARPS {
            return;
        }
        self.churn_note(self.row_of_place(place))
            .write(thread::grid_id());
        if !now.is_churned() {
            self.stripe_of_place(place).note_churn();
        }
    }

    /// What to do for a group of `count` lanes of which perhaps not all got slots where these are packed, but `claimed`: takes as much of the row that it drew as it
    /// lacks, gives back the units for which there are no slots, and tells which it found.
    #[cold]
    #[inline(never)]
    pub(crate) fn complete_packed(&self, ticket: Ticket, count: u32, claimed: Claimed) -> Claimed {
        let lacking = count - claimed.count();
        if lacking == 0 {
            return Claimed::NONE;
        }
        if lacking == count {
            self.note_if_crowded(ticket, count);
        }
        let row = Claimed::new(ticket.row(count).0, 0).ticket(ticket, lacking);
        let found = self.claim_drawn(row, lacking);
        if found.won() == 0 {
            return self.claim_row_elsewhere(row, lacking, 0);
        }
        if found.count() != lacking {
            self.give_back_units(ticket, lacking - found.count());
        }
        found
    }

    /// Slots for a group of `count` lanes that drew as many units, of which some were once drawn while blocks were freed: packed, if that is so in this launch,
    /// or else the row.
    pub(crate) fn claim_where_churned(&self, ticket: Ticket, count: u32) -> Places {
        let class = ticket.class();
        let index = self.stripes_of(class).of(thread::block_number());
        let churned = self.churn_note(index).read();
        if self.packs(ticket, count, class::slot_bytes(class), churned) {
            let claimed = self.claim_packed(ticket, count);
            return Places::completed(claimed, self.complete_packed(ticket, count, claimed));
        }
        if !churned.is_in(thread::grid_id()) {
            self.stripe(class, index).forget_churn();
        }
        self.claim_row(ticket, count)
    }

    /// Notes it if too much is alive among the lowest slots of a slab: a group of `count` lanes that drew found nothing in its word of the bitmap.
    #[inline(always)]
    fn note_if_crowded(&self, ticket: Ticket, count: u32) {
        let index = self.slot_word_index(ticket.page(), packed_place(ticket, count));
        if !self.has_slot_word(index) {
            // The stripe's word is damaged.
            return;
        }
        // Relaxed: a guess.
        let taken = self.slot_word(index).load(Ordering::Relaxed);
        if taken.count_zeros() < LEAST_FREE {
            let class = ticket.class();
            let index = self.stripes_of(class).of(thread::block_number());
            self.stripe(class, index).note_crowded();
        }
    }
}

/// Whether the slots of `count` lanes that drew a ticket may be packed, by what it says: its row's note is to be asked then.
#[inline(always)]
pub(crate) fn may_be_packed(ticket: Ticket, count: u32) -> bool {
    // Not `&&`, of which two branches would be made.
    (count <= MOST_LANES) & ticket.is_churned() & !ticket.is_crowded()
}

/// Where among the lowest slots a group of `count` lanes begins to look that drew `ticket`.
#[inline(always)]
fn packed_place(ticket: Ticket, count: u32) -> u32 {
    let first = ticket.left().cast_unsigned() - count;
    first.wrapping_mul(SPAN) % PACKED_SLOTS
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
    use crate::simulated::host_heap::HostHeap;
    use std::collections::BTreeSet;

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

    /// How many lanes of a group of `count` get slots, of which `packed` got some where slots are packed, and which finds slots of its row `taken`.
    fn served(count: u32, packed: u32, taken: u32) -> u32 {
        let host = HostHeap::new(1 << 30, 1, 0);
        let core = host.heap().core();
        assert!(!host.heap().malloc(16).is_null());
        let drawn = host.stripe(class::class_of(16)).draw(count);
        let (page, first) = (drawn.page(), drawn.row(count).0);
        for slot in (0..count).filter(|slot| taken >> slot & 1 != 0) {
            core.claim_bits(page, first + slot, 1);
        }
        // Every other slot, from the sixth on.
        let won = (0..packed).fold(0, |won, lane| {
            won | core.claim_bits(page, 5 + 2 * lane, 1) << (2 * lane)
        });
        let claimed = Claimed::new(5, won);
        let used = core.used_hint(page);
        let found = core.complete_packed(drawn, count, claimed);
        let places = Places::completed(claimed, found);
        let slots: BTreeSet<_> = (0..count).filter_map(|rank| places.slot(rank)).collect();
        let is_set = |slot: &u32| {
            let word = core.slot_word(core.slot_word_index(page, *slot));
            word.load(Ordering::Relaxed) >> (slot % 32) & 1 != 0
        };
        assert!(slots.iter().all(is_set));
        let in_row = |slot: &u32| (first..first + count).contains(slot);
        assert!(
            slots
                .iter()
                .filter(|slot| in_row(slot))
                .all(|slot| taken >> (slot - first) & 1 == 0)
        );
        // Who has none has no unit either.
        let served = u32::try_from(slots.len()).expect("at most eight");
        assert_eq!(core.used_hint(page), used - (count - served));
        served
    }

    #[test]
    fn who_lacks_a_packed_slot_has_one_of_its_groups_row() {
        for count in 1..=MOST_LANES {
            for packed in 0..=count {
                // The row is free, and in use by others.
                assert_eq!(served(count, packed, 0), count, "{packed} packed");
                assert_eq!(served(count, packed, u32::MAX), count, "{packed} packed");
                // The first of as many slots as are lacking are looked at.
                let lacking = count - packed;
                for taken in [1, 0b101_0101] {
                    let lost = (taken & ((1 << lacking) - 1_u32)).count_ones();
                    let expected = if lost == lacking { count } else { count - lost };
                    assert_eq!(served(count, packed, taken), expected, "{packed} packed");
                }
            }
        }
    }
}
