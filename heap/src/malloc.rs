//! The fast way to a block: one atomic on a stripe for each warp and class, one on the bitmap.
//!
//! Lanes that want the same class of the same heap form a group. Its leader draws as many units
//! from the stripe as the group has lanes. Where a unit is a slot, as in a slab that was empty, the
//! units drawn are a row of bits in the slab's bitmap, and the leader sets them with one atomic, or
//! two if the row crosses a word. Where the slab had blocks already, a unit spans several slots: then each word's
//! first lane looks for free ones for all lanes of that word.
//!
//! The stripe only says where to look: a block belongs to
//! the lane whose atomic turned its bit from 0 to 1, so no block is ever handed out twice.
//!
//! All collectives take the mask of the lanes that came together, so groups do not split the
//! warp, and no lane leaves before the last of them.

use crate::class;
use crate::cold;
use crate::counters::Failure;
use crate::entry::Entry;
use crate::heap::{Core, Heap, Mark, own_stripe};
use crate::layout;
use crate::misuse::Misuse;
use crate::refill::{MAX_DENSITY, ticket_slab};
use crate::ticket::Ticket;
use core::ptr;
use simt::atomic::Ordering;
use simt::lanes::Lanes;
use simt::{time, warp, with_active_lanes};

/// Nanoseconds between two attempts to draw.
const NAP: u32 = 60;
/// Places of a slab where a group looks for slots that found none at its own.
const PLACES: u32 = 4;

/// What a request for a slot needs: its class (8 bits), and the alignment that will do (binary
/// logarithm in 5 bits), which slots of larger classes may have although they are not multiples of
/// the class's own. On its way to a slow path it carries the generation of the handle (8 bits).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish(pub u32);

impl Wish {
    /// Bits that a wish takes.
    pub const BITS: u32 = 13;

    #[inline(always)]
    pub fn new(class: u32, alignment: u64) -> Self {
        Self(class | alignment.trailing_zeros() << 8)
    }

    #[inline(always)]
    pub fn class(self) -> u32 {
        self.0 & 0xff
    }

    /// Alignment in bytes.
    pub fn alignment(self) -> u32 {
        1 << (self.0 >> 8 & 31)
    }

    /// The wish as it comes through a handle of `mark`.
    #[inline(always)]
    pub fn through(self, mark: Mark) -> Self {
        Self(self.0 | mark.generation_bits())
    }

    /// The wish alone; none if it came through another handle than one of `mark`.
    pub fn unless_stale(self, mark: Mark) -> Option<Self> {
        let wish = Self(self.0 & !Mark::GENERATION);
        (wish.through(mark) == self).then_some(wish)
    }
}

/// A row of slots that a group claimed: the units left in its ticket (32 bits), and which slots are the group's, from
/// the first on (32 bits). One word, so that it travels in registers.
#[derive(Clone, Copy)]
pub(crate) struct Row(u64);

impl Row {
    fn new(left: u32, won: u32) -> Self {
        Self(u64::from(left) << 32 | u64::from(won))
    }

    /// Units left in the ticket of the row.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half")]
    fn left(self) -> i32 {
        ((self.0 >> 32) as u32).cast_signed()
    }

    /// Slots that are the group's.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the lower half")]
    fn won(self) -> u32 {
        self.0 as u32
    }
}

/// What a lane's group drew.
struct Draw {
    /// Lanes that came together.
    active: u32,
    /// Lanes of the group.
    group: u32,
    /// How many of them come before the calling one.
    rank: u32,
    /// The stripe's word before: the units below its left ones are the group's.
    ticket: Ticket,
    /// Units of a row that became blocks, from the first on.
    won: u32,
    /// Whether some group drew from a slab with blocks.
    spread: bool,
}

impl Draw {
    /// The calling lane's slot of a row, if it got one.
    #[inline(always)]
    fn slot(&self) -> Option<u32> {
        let (first, _) = self.ticket.row(self.group.count_ones());
        (self.won >> self.rank & 1 != 0).then(|| first + self.rank)
    }
}

impl Heap {
    /// Allocates `bytes`, aligned to 16 bytes or, for a power of two up to the page size, to that.
    ///
    /// Gives NULL for 0 bytes, and when the request cannot be met: then the failure is counted by
    /// class and reason. Never because of contention. Lanes may call in any divergence.
    #[inline(always)]
    #[must_use]
    pub fn malloc(&self, bytes: u64) -> *mut u8 {
        if self.flags != 0 {
            return cold::hardened_malloc(self, self.mark, bytes, 1, 0, false);
        }
        self.plain_malloc(bytes)
    }

    /// [`malloc`](Self::malloc) for a site of the program, of the caller's choosing: in a heap with
    /// [`TAGS`](crate::hardened::Hardening::TAGS) the host can group live blocks by it.
    #[inline(always)]
    #[must_use]
    pub fn malloc_tagged(&self, bytes: u64, site: u32) -> *mut u8 {
        if self.flags != 0 {
            return cold::hardened_malloc(self, self.mark, bytes, 1, site, false);
        }
        self.plain_malloc(bytes)
    }

    /// `malloc` of a heap without modes.
    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "checked against the largest slot"
    )]
    pub(crate) fn plain_malloc(&self, bytes: u64) -> *mut u8 {
        // Zero wraps around and is large.
        if bytes.wrapping_sub(1) >= u64::from(self.largest_slot) {
            return cold::malloc_run(self, self.mark, bytes, 1);
        }
        self.malloc_slot(Wish::new(class::class_of(bytes as u32), 16), bytes)
    }

    /// Allocates a slot for a request of `bytes`.
    #[inline(always)]
    pub(crate) fn malloc_slot(&self, wish: Wish, bytes: u64) -> *mut u8 {
        let (block, ticket) = self.attempt_slot(wish, bytes, false);
        if block.is_null() {
            // A loop here would keep in registers what only a second attempt needs.
            return cold::malloc_again(self, wish.through(self.mark), bytes, ticket);
        }
        block
    }

    /// One attempt to allocate a slot for `bytes`, the first or `again`: the block or NULL, and what the lane's
    /// group drew.
    #[inline(always)]
    fn attempt_slot(&self, wish: Wish, bytes: u64, again: bool) -> (*mut u8, Ticket) {
        let draw = with_active_lanes!(lanes => self.draw_together(lanes, wish, again));
        let ticket = draw.ticket;
        let slot = if draw.spread {
            self.claim_spread(&draw)
        } else {
            draw.slot()
        };
        let Some(slot) = slot else {
            return (ptr::null_mut(), ticket);
        };
        let offset = self.slot_offset(ticket, slot);
        if offset.wrapping_add(bytes) > self.capacity {
            // The stripe's word is damaged. The next attempt mends it.
            return (ptr::null_mut(), ticket);
        }
        ((self.base + offset) as *mut u8, ticket)
    }

    /// What lanes of a group have in common: the heap and the wish. Metadata begin at multiples of
    /// 256, and addresses have fewer than 59 bits.
    #[inline(always)]
    fn group_key(&self, wish: Wish) -> u64 {
        self.metadata() << (Wish::BITS - 8) | u64::from(wish.0)
    }

    /// Forms the groups of the lanes that came together; each leader draws, and sets the bits of a
    /// row.
    #[inline(always)]
    fn draw_together(&self, lanes: impl Lanes, wish: Wish, again: bool) -> Draw {
        let group = lanes.match_any_u64(self.group_key(wish));
        let leader = warp::lowest(group);
        let rank = (group & warp::lanes_below()).count_ones();
        let mut ticket = Ticket(0);
        let mut won = 0;
        if rank == 0 {
            let count = group.count_ones();
            ticket = self.draw(wish, count, again);
            if ticket.is_row() {
                (ticket, won) = self.claim_row(ticket, count);
            }
        }
        // What the leader's acquire saw, its mates see. And before the collectives, which cost lanes that are together a
        // tenth of what they cost those that are not.
        lanes.sync();
        let ticket = Ticket(lanes.shuffle_u64(ticket.0, leader));
        let won = lanes.shuffle(won, leader);
        let spread = lanes.ballot(ticket.is_spread()) != 0;
        Draw {
            active: lanes.mask(),
            group,
            rank,
            ticket,
            won,
            spread,
        }
    }

    /// Sets the bits of the units that a group of `count` lanes drew, where a unit is a slot: the ticket of the row, perhaps
    /// another than that of the units, and which bits of it were turned from 0 to 1, from the first on. The
    /// other units are given back.
    #[inline(always)]
    fn claim_row(&self, ticket: Ticket, count: u32) -> (Ticket, u32) {
        let (first, drawn) = ticket.row(count);
        // The group draws from the top of what is left.
        let last = ticket.left().cast_unsigned() - 1;
        if !self.has_slot_word(self.slot_word_index(ticket.page(), last)) {
            // The stripe's word is damaged. The next attempt mends it.
            return (ticket, 0);
        }
        let won = self.claim_bits(ticket.page(), first, drawn);
        if won != u32::MAX >> (32 - drawn) {
            // Before the shuffle: no lane draws again while a unit that it lost still counts as a
            // slot in use. Others would find the slab full.
            let row = cold::claim_elsewhere(self, ticket, count, won);
            return (ticket.with_left(row.left()), row.won());
        }
        (ticket, won)
    }

    /// Sets the bits of `drawn` slots from `first` on, 1 to 32; gives those that it turned from 0 to 1, from the first on.
    #[inline(always)]
    fn claim_bits(&self, page: u32, first: u32, drawn: u32) -> u32 {
        let row = u32::MAX >> (32 - drawn);
        let index = self.slot_word_index(page, first);
        let shift = first & 31;
        let low = row << shift;
        // Acquire: pairs with the release of `free` that cleared the bit, so what was done to the
        // block before is seen.
        let mut won = (low & !self.slot_word(index).fetch_or(low, Ordering::Acquire)) >> shift;
        if shift + drawn > 32 {
            let high = row >> (32 - shift);
            let before = self.slot_word(index + 1).fetch_or(high, Ordering::Acquire);
            won |= (high & !before) << (32 - shift);
        }
        won
    }

    /// Turns the units that groups drew from slabs with blocks into blocks: the calling lane's slot.
    #[inline(always)]
    #[allow(
        clippy::manual_ilog2,
        reason = "ilog2 would bring a panic into every malloc"
    )]
    fn claim_spread(&self, draw: &Draw) -> Option<u32> {
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
                cold::give_back(self, ticket, units - won.count_ones());
            }
        }
        // As in `draw_together`.
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

    /// Offset of a slot of a ticket's slab from the heap's first byte.
    #[inline(always)]
    fn slot_offset(&self, ticket: Ticket, slot: u32) -> u64 {
        let bytes = class::slot_bytes(ticket.class());
        (u64::from(ticket.page()) << self.page_shift) + u64::from(slot) * u64::from(bytes)
    }

    /// Sets a bit for each of `units` units from slot `slot` on, all in one word; gives those
    /// that it turned from 0 to 1.
    #[inline(always)]
    fn claim_word(&self, ticket: Ticket, slot: u32, units: u32, density: u32) -> u32 {
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
}

/// What a lane tried before it would give NULL.
#[derive(Default)]
struct Tried {
    /// A search for a run: the epochs before it, and why there was none.
    run: Option<(u32, Failure)>,
    /// How many pages the heap had before the last search.
    among: Option<u32>,
}

impl Core {
    /// Allocates a slot for a lane that got none in its first attempt, whose group drew `ticket`.
    #[cold]
    #[inline(never)]
    pub(crate) fn malloc_again(&self, wish: Wish, bytes: u64, drawn: Ticket) -> *mut u8 {
        let Some(wish) = wish.unless_stale(self.mark()) else {
            self.report_misuse(Misuse::Stale, 0);
            return ptr::null_mut();
        };
        let mut ticket = drawn;
        let (mut tried, mut vain) = (Tried::default(), 0);
        while !self.gives_up(wish.class(), vain) {
            vain += 1;
            if ticket == Ticket::EXHAUSTED {
                if let Some(block) = self.try_otherwise(wish, bytes, &mut tried) {
                    return block;
                }
            } else if ticket.left() > 0 {
                let stripe = own_stripe() & self.stripe_mask(wish.class());
                self.mend(wish.class(), self.stripe(wish.class(), stripe));
            } else {
                // Memory is moving.
                time::nanosleep(NAP);
            }
            let block;
            (block, ticket) = self.attempt_slot(wish, bytes, true);
            if !block.is_null() {
                return block;
            }
        }
        self.report_damage(wish.class());
        ptr::null_mut()
    }

    /// What is left to a lane for which no slot was found: a block, or NULL, or to search again.
    ///
    /// Where slots are larger than a page, no slab may fit the free pages, because its pages must be
    /// aligned, though a run of them would do. NULL is right then if neither a slot nor a run is
    /// found and nothing moved from before the one search to after the other. And the heap may
    /// grow.
    fn try_otherwise(&self, wish: Wish, bytes: u64, tried: &mut Tried) -> Option<*mut u8> {
        let class = wish.class();
        let mut failure = Failure::Exhausted;
        if self.has_small_slots(class) {
            if !self.is_growing() {
                // Counted by who searched.
                return Some(ptr::null_mut());
            }
        } else {
            // The search that ended here, the leader's perhaps, had a fence at its end: whose
            // change it saw, its epoch is seen too.
            let epoch = self.epochs(class);
            match tried.run {
                Some((before, cause)) if before == epoch => failure = cause,
                _ => match self.take_run_for(bytes, 1) {
                    Ok(block) => return Some(block),
                    Err(failure) => {
                        tried.run = Some((epoch, failure));
                        return None;
                    }
                },
            }
        }
        if self.may_search_again(&mut tried.among, 1 << self.class_info(class).least_order) {
            return None;
        }
        self.counters(class).count_failures(failure, 1);
        Some(ptr::null_mut())
    }

    /// Whether slots of a class fit a page.
    pub(crate) fn has_small_slots(&self, class: u32) -> bool {
        u64::from(class::slot_bytes(class)) <= 1 << self.page_shift
    }

    /// What to do for a group of `count` lanes that found only the slots `won` of its row: looks for as many elsewhere in the
    /// slab if it found none, and gives back the units for which there are none.
    ///
    /// A slab that is offered again has a unit for each free slot, from the lowest slot on. What lives in it was
    /// probably allocated last, and so lies lowest: as many slots at the top have no unit of their own. Therefore the
    /// first place to look at is the mirror of the row.
    #[cold]
    #[inline(never)]
    pub(crate) fn claim_row_elsewhere(&self, ticket: Ticket, count: u32, won: u32) -> Row {
        let (first, drawn) = ticket.row(count);
        let slots = self.plausible_slots(ticket_slab(ticket));
        let (mut place, mut won) = (first, won);
        if won == 0 && slots >= first + drawn {
            // Where a row can begin.
            let places = slots - drawn;
            place = places - first;
            for _ in 0..PLACES {
                won = self.heap().claim_bits(ticket.page(), place, drawn);
                if won != 0 {
                    break;
                }
                place = next_place(place, slots, places);
            }
        }
        if won.count_ones() != drawn {
            self.give_back_units(ticket, drawn - won.count_ones());
        }
        Row::new(place + count, won)
    }

    /// Gives back units that found no slot.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_back_units(&self, ticket: Ticket, count: u32) {
        if !self.is_plausible(ticket_slab(ticket)) {
            return;
        }
        self.release(
            ticket.page(),
            Entry::slab(ticket.class(), ticket.order()),
            count,
        );
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
