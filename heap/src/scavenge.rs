//! The way to memory for a group whose stripe cannot be refilled: everywhere else, and NULL only
//! when there is nothing.
//!
//! A request that ends here looks at each place where a slot of its class can be: the class's
//! stripes, its listed slabs, the free pages, then slabs of any class that stripes hold without a
//! block in them, and at last the slots of larger classes. Because memory moves while it looks,
//! "nothing" counts only if the epoch did not change meanwhile, no stripe was between two slabs,
//! and nothing taken was on its way (the sets' counts say so). Otherwise it looks again: it waits
//! for others to get on, never for a lock.

use crate::counters::Failure;
use crate::heap::{Heap, own_stripe};
use crate::refill::{Search, ticket_slab};
use crate::ticket::Ticket;
use simt::atomic::Ordering;
use simt::time;

/// Nanoseconds between two looks.
const NAP: u32 = 200;

/// What one look at the places of a class gave.
enum Look {
    Ticket(Ticket),
    Nothing { fragmented: bool },
    Unsettled,
}

impl Heap {
    /// A ticket with at least one and at most `count` units of `class` or a larger one, or
    /// [`Ticket::EXHAUSTED`], which is counted.
    #[cold]
    #[inline(never)]
    pub(crate) fn scavenge(&self, class: u32, count: u32) -> Ticket {
        loop {
            let epoch = self.epoch();
            let mut fragmented = match self.look(class, count) {
                Look::Ticket(ticket) => return ticket,
                Look::Nothing { fragmented } => Some(fragmented),
                Look::Unsettled => None,
            };
            if self.reclaim_idle() {
                continue;
            }
            for larger in class + 1..self.layout().class_count {
                match self.look_larger(larger, count) {
                    Look::Ticket(ticket) => return ticket,
                    Look::Nothing { .. } => {}
                    Look::Unsettled => fragmented = None,
                }
            }
            if let Some(fragmented) = fragmented
                && self.epoch() == epoch
            {
                let failure = if fragmented {
                    Failure::Fragmented
                } else {
                    Failure::Exhausted
                };
                self.counters(class).count_failures(failure, count);
                return Ticket::EXHAUSTED;
            }
            time::nanosleep(NAP);
        }
    }

    /// Looks at the stripes and slabs of a class, and at the free pages.
    fn look(&self, class: u32, count: u32) -> Look {
        let settled = match self.draw_anywhere(class, count) {
            Look::Ticket(ticket) => return Look::Ticket(ticket),
            Look::Nothing { .. } => true,
            Look::Unsettled => false,
        };
        match self.obtain(class) {
            Search::Slab(obtained) => {
                let ticket = self.ticket_for(obtained.slab);
                let units = count.min(ticket.left().cast_unsigned());
                if self.reserve(obtained.slab, units) {
                    self.list_obtained(&obtained);
                } else {
                    self.settle(&obtained);
                }
                Look::Ticket(ticket.with_left(units.cast_signed()))
            }
            Search::Nothing { fragmented } if settled => Look::Nothing { fragmented },
            _ => Look::Unsettled,
        }
    }

    /// Looks at the stripes and listed slabs of a larger class than the one asked for.
    fn look_larger(&self, class: u32, count: u32) -> Look {
        match self.draw_anywhere(class, count) {
            Look::Nothing { .. } if self.listed(class).count() > 0 => self.look(class, count),
            other => other,
        }
    }

    /// Draws from whichever stripe of a class has units, beginning with the caller's own.
    fn draw_anywhere(&self, class: u32, count: u32) -> Look {
        let mask = self.class_info(class).stripe_mask;
        let mut settled = true;
        for step in 0..=mask {
            let stripe = self.stripe(class, own_stripe().wrapping_add(step) & mask);
            let seen = stripe.look();
            if !seen.has_slab() {
                continue;
            }
            // Nothing left but still a slab: its slots freed meanwhile are listed by its crosser.
            if seen.left() >= 0 {
                let ticket = self.draw_here(class, count, stripe);
                if ticket.left() > 0 {
                    return Look::Ticket(ticket);
                }
            }
            settled = false;
        }
        if settled {
            Look::Nothing { fragmented: false }
        } else {
            Look::Unsettled
        }
    }

    /// Takes slabs without a block in them away from their stripes, so that their pages are free
    /// for all; true if there was one.
    pub(crate) fn reclaim_idle(&self) -> bool {
        let globals = self.globals();
        let mut found = false;
        for class in 0..self.layout().class_count {
            for index in 0..=self.class_info(class).stripe_mask {
                let stripe = self.stripe(class, index);
                let seen = stripe.look();
                if !seen.has_slab() || seen.left() < 0 {
                    continue;
                }
                let left = seen.left().cast_unsigned();
                if self.looks_idle(seen.page(), left) && stripe.detach(seen) {
                    // Relaxed: a hint.
                    globals.installed.0.fetch_sub(1, Ordering::Relaxed);
                    self.uninstall(ticket_slab(seen), left);
                    found = true;
                }
            }
        }
        found
    }
}
