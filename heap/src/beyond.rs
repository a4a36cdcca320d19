//! The rest of `malloc` for a slot, where a group of lanes did not get a whole row of slots: what it drew becomes blocks
//! ([`crate::claim`]), and who got none comes again.

use crate::claim::Draw;
use crate::class;
use crate::counters::Failure;
use crate::heap::Core;
use crate::malloc::{Wish, whole_row};
use crate::misuse::Misuse;
use crate::nap::nap;
use crate::packed::may_be_packed;
use crate::places::{Claimed, Places};
use crate::refill::meet;
use crate::ticket::Ticket;
use core::ptr;
use simt::lanes::{Lanes, Part, Whole};
use simt::{thread, warp};

/// Nanoseconds between the first two attempts to draw.
const NAP: u32 = 60;
/// Draws after which a request that found no slot for any of its units has the stripe leave such units ([`crate::vain`]): where hardly anything is free a few of these are the rule.
/// (Under exploration there are never many. Groups of several lanes, of which some find a slot each time, are explored by shuttle.)
const DRAWS_IN_VAIN: u32 = if cfg!(loom) {
    1
} else if cfg!(shuttle) {
    2
} else {
    8
};

/// What a lane tried before it would give NULL.
#[derive(Default)]
struct Tried {
    /// A search for a run: the epochs before it, and why there was none.
    run: Option<(u32, Failure)>,
    /// How many pages the heap had before the last search.
    among: Option<u32>,
}

/// What the leader of a group has for it.
#[derive(Clone, Copy)]
struct Got {
    /// What it drew.
    ticket: Ticket,
    /// Slots that became blocks, of a class whose units are slots.
    places: Places,
}

impl Got {
    /// Nothing but what was drawn.
    fn drawn(ticket: Ticket) -> Self {
        Self {
            ticket,
            places: Places::one(Claimed::NONE),
        }
    }
}

impl Core {
    /// The rest of an allocation for the lanes of a mask that came together, of which some group did not get a row of slots of its class at once: the
    /// leader has drawn `drawn`, and got `won` of the row if that is one of its class; in other lanes these
    /// mean nothing. The other groups come along, since all have to.
    #[cold]
    #[inline(never)]
    pub(crate) fn malloc_beyond(
        &self,
        wish: Wish,
        bytes: u64,
        lanes: u32,
        group: u32,
        drawn: Ticket,
        won: u32,
    ) -> *mut u8 {
        let mut got = Got::drawn(drawn);
        if group & warp::lanes_below() == 0 {
            let count = group.count_ones();
            let row = Claimed::new(drawn.row(count).0, won);
            got.places = Places::one(row);
            let had_row = drawn.has_row(count) && drawn.class() == wish.class();
            let leaders = warp::active_mask();
            if had_row && won != whole_row(count) {
                got.places = if may_be_packed(drawn, count) {
                    // Nothing was tried yet.
                    self.claim_where_churned(drawn, count)
                } else {
                    Places::completed(row, self.claim_row_elsewhere(drawn, count, won))
                };
            }
            // Units for which there is no slot are given back before anybody waits: who finds a slab full of them searches in vain.
            meet(leaders);
            if !had_row {
                if drawn.left() < count.cast_signed() {
                    got.ticket = self.draw_or_search(wish, count, drawn);
                }
                // (Of a damaged word's row, of another class, slots may be won.)
                if got.ticket.is_of_slots() && won == 0 {
                    got.places = self.claim_row(got.ticket, count);
                }
            }
        }
        if lanes == u32::MAX {
            self.share_or_try_again(Whole, group, got, wish, bytes)
        } else {
            self.share_or_try_again(Part(lanes), group, got, wish, bytes)
        }
    }

    /// The same for a whole warp whose leaders have already been out of line, to draw or to look for slots: of those elsewhere they have `rest`.
    #[cold]
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "a structure would lie in memory")]
    pub(crate) fn malloc_of_warp_beyond(
        &self,
        wish: Wish,
        bytes: u64,
        group: u32,
        drawn: Ticket,
        won: u32,
        rest: Claimed,
    ) -> *mut u8 {
        let mut got = Got::drawn(drawn);
        if group & warp::lanes_below() == 0 {
            let count = group.count_ones();
            // (Of a damaged word's row, of another class, too.)
            let was_tried = drawn.has_row(count) && (won != 0 || drawn.class() == wish.class());
            got.places = if drawn.is_of_slots() && !was_tried {
                self.claim_row(drawn, count)
            } else {
                Places {
                    first: Claimed::new(drawn.row(count).0, won),
                    rest,
                }
            };
        }
        self.share_or_try_again(Whole, group, got, wish, bytes)
    }

    /// What a group of `count` lanes gets that drew `drawn`, not all that it wanted. (Its search may come before a mate refills what other warps wait for, but only where memory has run out.)
    #[inline(always)]
    fn draw_or_search(&self, wish: Wish, count: u32, drawn: Ticket) -> Ticket {
        if self.waits_in_vain(wish.class(), drawn)
            && let Some(wish) = wish.unless_stale(self.mark())
        {
            return self.scavenge(wish, count);
        }
        let index = self.stripes_of(wish.class()).of(thread::block_number());
        self.draw_beyond(wish, index, count, drawn)
    }

    /// The calling lane's block of what its group's leader drew and claimed, or what further attempts give.
    #[inline(always)]
    fn share_or_try_again(
        &self,
        lanes: impl Lanes,
        group: u32,
        got: Got,
        wish: Wish,
        bytes: u64,
    ) -> *mut u8 {
        let (block, ticket) = self.share(lanes, group, got, bytes);
        if block.is_null() {
            return self.malloc_again(wish, bytes, ticket);
        }
        block
    }

    /// One more attempt to allocate a slot for `bytes`: the block or NULL, and what the lane's group drew.
    fn attempt(&self, lanes: impl Lanes, wish: Wish, bytes: u64) -> (*mut u8, Ticket) {
        let group = lanes.match_any_u64(self.group_key(wish));
        let mut got = Got::drawn(Ticket(0));
        if group & warp::lanes_below() == 0 {
            let index = self.stripes_of(wish.class()).of(thread::block_number());
            // Who comes again looks before it draws.
            let (count, none) = (group.count_ones(), Ticket::refilling(wish.class()));
            got.ticket = self.draw_beyond(wish.through(self.mark()), index, count, none);
            if got.ticket.is_of_slots() {
                got.places = self.claim_row(got.ticket, count);
            }
        }
        self.share(lanes, group, got, bytes)
    }

    /// The calling lane's part of what its group's leader drew and claimed, a block or NULL, and the ticket.
    #[inline(always)]
    fn share(&self, lanes: impl Lanes, group: u32, got: Got, bytes: u64) -> (*mut u8, Ticket) {
        // As in `share_row`.
        lanes.sync();
        let leader = warp::lowest(group);
        let ticket = Ticket(lanes.shuffle_u64(got.ticket.0, leader));
        let draw = Draw {
            active: lanes.mask(),
            group,
            rank: (group & warp::lanes_below()).count_ones(),
            ticket,
            places: got.places.shared(lanes, leader),
        };
        let slot = if lanes.ballot(ticket.is_spread()) != 0 {
            self.claim_spread(&draw)
        } else {
            draw.places.slot(draw.rank)
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

    /// Allocates a slot for a lane that got none in its first attempt, whose group drew `drawn`.
    #[inline(never)]
    fn malloc_again(&self, wish: Wish, bytes: u64, drawn: Ticket) -> *mut u8 {
        let Some(wish) = wish.unless_stale(self.mark()) else {
            self.report_misuse(Misuse::Stale, 0);
            return ptr::null_mut();
        };
        let mut ticket = drawn;
        let (mut tried, mut vain) = (Tried::default(), 0);
        let mut draws_in_vain = 0;
        while !self.gives_up(wish.class(), vain) {
            vain += 1;
            if ticket == Ticket::EXHAUSTED {
                if let Some(block) = self.try_otherwise(wish, bytes, &mut tried) {
                    return block;
                }
            } else if ticket.left() > 0 {
                let stripe = self.stripes_of(wish.class()).of(thread::block_number());
                self.mend(wish.class(), self.stripe(wish.class(), stripe));
                draws_in_vain += 1;
                if draws_in_vain >= DRAWS_IN_VAIN {
                    draws_in_vain = 0;
                    self.leave_vain_units(ticket);
                }
            } else {
                // Memory is moving.
                nap(NAP, vain - 1);
            }
            // One form for all masks: who waited need not save the few instructions that those for whole warps and single lanes would, and all three are much code.
            let block;
            (block, ticket) = self.attempt(Part(warp::active_mask()), wish, bytes);
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
    #[cold]
    #[inline(never)]
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
            // change it saw, its epoch is seen too. The search for a run begins with one.
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
}
