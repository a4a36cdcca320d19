//! The fast way to a block: one atomic on a stripe for each warp and class, one on the bitmap for
//! each word.
//!
//! Lanes that want the same class of the same heap form a group. Its leader draws as many units from the stripe as
//! the group has lanes; unit by unit the lanes then set bits in the slab's bitmap, one atomic for
//! all lanes whose units lie in one word. The stripe only says where to look: a block belongs to
//! the lane whose atomic turned its bit from 0 to 1, so no block is ever handed out twice.
//!
//! All collectives take the mask of the lanes that came together, so groups do not split the
//! warp, and no lane leaves before the last of them.

use crate::class;
use crate::cold;
use crate::entry::Entry;
use crate::heap::{COUNT_BYTES, Heap};
use crate::layout;
use crate::ticket::Ticket;
use core::ptr;
use simt::atomic::Ordering;
use simt::{time, warp};

/// Nanoseconds between two attempts to draw.
const NAP: u32 = 60;

impl Heap {
    /// Allocates `bytes`, aligned to 16 bytes or, for a power of two up to the page size, to that.
    ///
    /// Gives NULL for 0 bytes, and when the request cannot be met: then the failure is counted by
    /// class and reason. Never because of contention. Lanes may call in any divergence.
    #[inline(always)]
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "checked against the largest slot"
    )]
    pub fn malloc(&self, bytes: u64) -> *mut u8 {
        // Zero wraps around and is large.
        if bytes.wrapping_sub(1) >= u64::from(self.largest_slot) {
            return cold::malloc_run(self, bytes, 1);
        }
        self.malloc_slot(class::class_of(bytes as u32), bytes)
    }

    /// Allocates a slot of `class` for a request of `bytes`.
    #[inline(always)]
    pub(crate) fn malloc_slot(&self, class: u32, bytes: u64) -> *mut u8 {
        let mut attempt = 0;
        loop {
            let active = warp::active_mask();
            let group = warp::match_any_u64(active, self.group_key(class));
            let leader = group.trailing_zeros();
            let mut ticket = Ticket(0);
            if warp::lane_id() == leader {
                ticket = self.draw(class, group.count_ones(), attempt);
            }
            let ticket = Ticket(warp::shuffle_u64(active, ticket.0, leader));
            let block = self.claim(active, group, ticket);
            if block != 0 {
                if self.flags & COUNT_BYTES != 0 {
                    self.counters(ticket.class()).count_served(bytes);
                }
                return block as *mut u8;
            }
            if ticket == Ticket::EXHAUSTED {
                return ptr::null_mut();
            }
            if ticket.left() > 0 {
                attempt = 0;
            } else {
                // Another refills the stripe, or memory is moving.
                attempt += 1;
                time::nanosleep(NAP);
            }
        }
    }

    /// What lanes of a group have in common: the heap and the class. Metadata begin at multiples of
    /// 256, and classes are fewer.
    #[inline(always)]
    fn group_key(&self, class: u32) -> u64 {
        self.metadata() | u64::from(class)
    }

    /// Turns the units that a group drew into blocks: the calling lane's address, or 0.
    #[inline(always)]
    #[allow(
        clippy::manual_ilog2,
        reason = "ilog2 would bring a panic into every malloc"
    )]
    fn claim(&self, active: u32, group: u32, ticket: Ticket) -> u64 {
        let lane = warp::lane_id();
        let density = ticket.density();
        // Units of a word of the bitmap, less one.
        let word_units = 31 >> density;
        let rank = (group & warp::lanes_below()).count_ones();
        let unit = ticket.left() - group.count_ones().cast_signed() + rank.cast_signed();
        let drawn = unit >= 0;
        let unit = unit.cast_unsigned();

        // The lane with the first unit of a word acts for those after it in the same word.
        let begins = drawn && (rank == 0 || unit & word_units == 0);
        let through = 2_u32.wrapping_shl(lane).wrapping_sub(1);
        let leaders = warp::ballot(active, begins) & group & through;
        let leader = if drawn {
            31 - leaders.leading_zeros()
        } else {
            lane
        };

        let slot = unit << density;
        let mut won = 0;
        if begins {
            let left = ticket.left().cast_unsigned() - unit;
            let units = left.min(word_units + 1 - (unit & word_units));
            won = self.claim_word(ticket, slot, units);
        }
        won = warp::shuffle(active, won, leader);
        let bit = if density == 0 {
            won & 1_u32.wrapping_shl(slot)
        } else {
            let mates = group & warp::lanes_below() & !(1_u32.wrapping_shl(leader) - 1);
            nth_bit(won, mates.count_ones())
        };
        let claimed = drawn && bit != 0;
        let failed = warp::ballot(active, drawn && !claimed);
        // What the leader's acquire saw, its mates see.
        warp::sync(active);
        if failed != 0 {
            if (failed & group).trailing_zeros() == lane {
                cold::give_back(self, ticket, (failed & group).count_ones());
            }
            // No lane draws again while a unit that it lost still counts as a slot in use: others
            // would find the slab full.
            warp::sync(active);
        }
        if !claimed {
            return 0;
        }
        let slot = (slot & !31) + bit.trailing_zeros();
        self.page_address(ticket.page())
            + u64::from(slot) * u64::from(class::slot_bytes(ticket.class()))
    }

    /// Sets a bit for each of `units` units from slot `slot` on, all in one word; gives those
    /// that it turned from 0 to 1.
    #[inline(always)]
    fn claim_word(&self, ticket: Ticket, slot: u32, units: u32) -> u32 {
        let word = self.slot_word(self.slot_word_index(ticket.page(), slot));
        let span = (u32::MAX >> (32 - (units << ticket.density()))) << (slot & 31);
        let mut wanted = span;
        if ticket.density() != 0 {
            // Relaxed: a guess, which the atomic below verifies. The last unit of a slab may
            // span past its last slot.
            let page_shift = u32::from(self.page_shift);
            let slots = layout::slots(page_shift, ticket.class(), ticket.order());
            let end = (slots - (slot & !31)).min(32);
            let inside = span & (u32::MAX >> (32 - end));
            wanted = lowest_bits(!word.load(Ordering::Relaxed) & inside, units);
        }
        // Acquire: pairs with the release of `free` that cleared the bit, so what was done to the
        // block before is seen.
        wanted & !word.fetch_or(wanted, Ordering::Acquire)
    }

    /// Gives back units that found no slot.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_back_units(&self, ticket: Ticket, count: u32) {
        self.release(
            ticket.page(),
            Entry::slab(ticket.class(), ticket.order()),
            count,
        );
    }
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
    fn bits_are_counted_from_below() {
        assert_eq!(lowest_bits(0b1011_0100, 2), 0b1_0100);
        assert_eq!(lowest_bits(0b11, 5), 0b11);
        assert_eq!(nth_bit(0b1011_0100, 0), 0b100);
        assert_eq!(nth_bit(0b1011_0100, 3), 0b1000_0000);
        assert_eq!(nth_bit(0b1011_0100, 4), 0);
    }
}
