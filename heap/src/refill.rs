//! Finding a slab for a stripe that ran out.
//!
//! The crosser of a stripe lets go of the old slab, finds another, and publishes it; the others
//! wait briefly for that, and then help themselves elsewhere (see [`crate::scavenge`]).

use crate::heap::{Heap, own_stripe};
use crate::page_set::WORD_PAGES;
use crate::pages::Found;
use crate::slab::Slab;
use crate::stripe::Stripe;
use crate::ticket::Ticket;
use simt::atomic::Ordering;
use simt::time;

/// Listed slabs that are looked at before fresh pages are preferred.
const PROBES: u32 = 4;
/// A class's slabs grow until all stripes that have one could get this many more.
const SLABS_TO_COME: u32 = 4;
/// A stripe's crosser is waited for this many times.
const PATIENCE: u32 = 200;
/// For about this many nanoseconds each time.
const NAP: u32 = 50;
/// Units span at most `2^MAX_DENSITY` slots: a word of the bitmap.
const MAX_DENSITY: u32 = 5;

/// A slab that the caller owns, and where it came from.
pub(crate) struct Obtained {
    pub slab: Slab,
    source: Source,
}

enum Source {
    /// Its class's set.
    Listed,
    /// The free pages.
    Pages,
}

/// What a search for a slab gave.
pub(crate) enum Search {
    Slab(Obtained),
    /// Nothing; `fragmented` if pages are free, but not side by side.
    Nothing {
        fragmented: bool,
    },
    /// Nothing, but something was on its way.
    Unsettled,
}

impl Heap {
    /// Draws `count` units from a stripe's class for a group of lanes: the word before, of which
    /// the units from `left - count` up are the group's. A word with no units left means: draw
    /// again; [`Ticket::EXHAUSTED`]: there are none.
    #[inline(always)]
    pub(crate) fn draw(&self, class: u32, count: u32) -> Ticket {
        let index = own_stripe() & self.class_info(class).stripe_mask;
        let stripe = self.stripe(class, index);
        let before = stripe.draw(count);
        if before.left() >= count.cast_signed() {
            before
        } else {
            self.draw_beyond(class, count, index, before)
        }
    }

    /// The rest of [`draw`](Self::draw) for a group that did not get all it drew.
    #[cold]
    #[inline(never)]
    fn draw_beyond(&self, class: u32, count: u32, index: u32, before: Ticket) -> Ticket {
        let stripe = self.stripe(class, index);
        if before.left() < 0 {
            if wait_for_crosser(stripe) {
                return Ticket::empty(class);
            }
        } else if self.refill(class, stripe, before) || before.left() > 0 {
            return before;
        }
        self.scavenge(class, count)
    }

    /// Draws from any stripe; refills it as its crosser, if it falls to the caller.
    pub(crate) fn draw_here(&self, class: u32, count: u32, stripe: &Stripe) -> Ticket {
        let before = stripe.draw(count);
        if (0..count.cast_signed()).contains(&before.left()) {
            self.refill(class, stripe, before);
        }
        before
    }

    /// The crosser's duty: replaces the slab of the stripe, whose word was `before`. False if
    /// there is none to be had; the stripe is empty then.
    fn refill(&self, class: u32, stripe: &Stripe, before: Ticket) -> bool {
        let globals = self.globals();
        if before.has_slab() {
            self.uninstall(ticket_slab(before), 0);
            // Only now: who sees the stripe without the slab finds the slab where it went.
            stripe.publish(Ticket::refilling(class).following(before));
        } else {
            // Relaxed: a hint for the size of slabs.
            globals.installed.0.fetch_add(1, Ordering::Relaxed);
        }
        if let Search::Slab(obtained) = self.obtain(class) {
            let ticket = self.ticket_for(obtained.slab);
            self.install(obtained.slab.page, ticket.left().cast_unsigned());
            stripe.publish(ticket.following(before));
            self.raise_epoch();
            self.settle(&obtained);
            return true;
        }
        globals.installed.0.fetch_sub(1, Ordering::Relaxed);
        stripe.publish(Ticket::empty(class).following(before));
        false
    }

    /// The ticket by which all that is free in an owned slab can be drawn. The fuller the slab,
    /// the more slots a unit spans, so that most units find one free.
    pub(crate) fn ticket_for(&self, slab: Slab) -> Ticket {
        let slots = self.layout().slots(slab.class, slab.order);
        let free = self.slots_free(slab).max(1);
        let mut density = 0;
        while slots >> density > free && density < MAX_DENSITY {
            density += 1;
        }
        let units = slots.div_ceil(1 << density);
        Ticket::new(slab.class, slab.page, slab.order, density, units.cast_signed())
    }

    /// Says that an obtained slab can be found again, or is in use.
    pub(crate) fn settle(&self, obtained: &Obtained) {
        match obtained.source {
            Source::Listed => self.listed(obtained.slab.class).settle(1),
            Source::Pages => self.free_pages().settle(obtained.slab.pages()),
        }
    }

    /// Lists an obtained slab.
    pub(crate) fn list_obtained(&self, obtained: &Obtained) {
        match obtained.source {
            Source::Listed => self.relist(obtained.slab),
            Source::Pages => {
                self.list(obtained.slab);
                self.settle(obtained);
            }
        }
    }

    /// Finds a slab of a class with slots free, for the caller to own: a listed one with room,
    /// or else fresh pages, or else any listed one.
    pub(crate) fn obtain(&self, class: u32) -> Search {
        let listed = self.listed(class);
        let scatter = own_stripe() & self.class_info(class).stripe_mask;
        if listed.count() > 0
            && let Some(obtained) = self.take_listed(class, scatter, Some(PROBES))
        {
            return Search::Slab(obtained);
        }
        let pages = self.take_pages(class, scatter);
        if matches!(pages, Search::Slab(_)) || listed.count() == 0 {
            return pages;
        }
        match self.take_listed(class, 0, None) {
            Some(obtained) => Search::Slab(obtained),
            None => Search::Unsettled,
        }
    }

    /// Takes a listed slab: with `probes`, one with room among that many; else any.
    fn take_listed(&self, class: u32, scatter: u32, probes: Option<u32>) -> Option<Obtained> {
        let listed = self.listed(class);
        let mut left = probes.unwrap_or(u32::MAX);
        let mut from = listed.nth_word(scatter);
        while let Some(index) = listed.next_word(from) {
            let mut word = listed.word(index).load(Ordering::Relaxed);
            while word != 0 && left > 0 {
                let page = index * WORD_PAGES + word.trailing_zeros();
                let wanted = probes.is_none() || self.looks_roomy(class, page);
                if wanted && listed.remove(page) {
                    return Some(Obtained {
                        slab: self.owned_slab(page),
                        source: Source::Listed,
                    });
                }
                left -= 1;
                word &= word - 1;
            }
            if left == 0 {
                break;
            }
            from = index + 1;
        }
        None
    }

    /// Makes a slab of free pages: as large as is good now, and smaller if there is none.
    fn take_pages(&self, class: u32, scatter: u32) -> Search {
        let pages = self.free_pages();
        let info = self.class_info(class);
        let found = |page, order| {
            let slab = Slab { page, class, order };
            self.found_slab(slab);
            Search::Slab(Obtained {
                slab,
                source: Source::Pages,
            })
        };
        let count = pages.count();
        if count >= 1 << info.least_order {
            // Relaxed: a hint.
            let stripes = self.globals().installed.0.load(Ordering::Relaxed).max(1);
            let share = (count / (SLABS_TO_COME * stripes)).max(1).ilog2();
            let wished = share.clamp(info.usual_order, info.largest_order);
            for order in (info.least_order..=wished).rev() {
                if let Some(page) = self.take_block(order, scatter) {
                    return found(page, order);
                }
            }
        }
        match self.take_block_anywhere(info.least_order) {
            Found::Page(page) => found(page, info.least_order),
            Found::Unsettled => Search::Unsettled,
            Found::Nothing => Search::Nothing {
                fragmented: count >= 1 << info.least_order,
            },
        }
    }
}

/// The slab of a ticket that has one.
pub(crate) fn ticket_slab(ticket: Ticket) -> Slab {
    Slab {
        page: ticket.page(),
        class: ticket.class(),
        order: ticket.order(),
    }
}

/// Waits until a stripe has units again; false if it takes long, or its refill failed.
fn wait_for_crosser(stripe: &Stripe) -> bool {
    for _ in 0..PATIENCE {
        let ticket = stripe.look();
        if ticket.left() > 0 {
            return true;
        }
        if ticket.left() == 0 {
            return false;
        }
        time::nanosleep(NAP);
    }
    false
}
