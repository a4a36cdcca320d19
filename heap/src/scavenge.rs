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

/// What one look at the places of a class gave: a ticket, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look(u64);

impl Look {
    /// No slot, no slab, no page.
    const EXHAUSTED: Self = Self(u64::MAX);
    /// No slot, no slab; pages are free, but not side by side.
    const FRAGMENTED: Self = Self(u64::MAX - 1);
    /// Nothing, but something was on its way.
    const UNSETTLED: Self = Self(u64::MAX - 2);

    fn ticket(self) -> Option<Ticket> {
        (self.0 < Self::UNSETTLED.0).then_some(Ticket(self.0))
    }
}

impl Heap {
    /// A ticket with at least one and at most `count` units of `class` or a larger one, or
    /// [`Ticket::EXHAUSTED`], which is counted.
    #[cold]
    #[inline(never)]
    pub(crate) fn scavenge(&self, class: u32, count: u32) -> Ticket {
        loop {
            let epoch = self.epoch();
            let look = self.look(class, count);
            if let Some(ticket) = look.ticket() {
                return ticket;
            }
            if self.reclaim_idle() {
                continue;
            }
            let larger = self.look_at_larger(class, count);
            if let Some(ticket) = larger.ticket() {
                return ticket;
            }
            let settled = look != Look::UNSETTLED && larger != Look::UNSETTLED;
            if settled && self.epoch() == epoch {
                let failure = if look == Look::FRAGMENTED {
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
    #[inline(never)]
    fn look(&self, class: u32, count: u32) -> Look {
        let drawn = self.draw_anywhere(class, count);
        if drawn.ticket().is_some() {
            return drawn;
        }
        let obtained = self.obtain(class);
        if let Some(slab) = obtained.slab() {
            let ticket = self.ticket_for(slab);
            let units = count.min(ticket.left().cast_unsigned());
            if self.reserve(slab, units) {
                self.list_obtained(obtained, slab);
            } else {
                self.settle(obtained, slab);
            }
            return Look(ticket.with_left(units.cast_signed()).0);
        }
        if drawn == Look::UNSETTLED || obtained == Search::UNSETTLED {
            Look::UNSETTLED
        } else if obtained == Search::FRAGMENTED {
            Look::FRAGMENTED
        } else {
            Look::EXHAUSTED
        }
    }

    /// Looks at the stripes and listed slabs of the classes above `class`.
    #[inline(never)]
    fn look_at_larger(&self, class: u32, count: u32) -> Look {
        let mut result = Look::EXHAUSTED;
        for larger in class + 1..self.layout().class_count {
            let mut look = self.draw_anywhere(larger, count);
            if look == Look::EXHAUSTED && self.listed(larger).count() > 0 {
                look = self.look(larger, count);
            }
            if look.ticket().is_some() {
                return look;
            }
            if look == Look::UNSETTLED {
                result = look;
            }
        }
        result
    }

    /// Draws from whichever stripe of a class has units, beginning with the caller's own.
    #[inline(never)]
    fn draw_anywhere(&self, class: u32, count: u32) -> Look {
        let mask = self.class_info(class).stripe_mask;
        let mut result = Look::EXHAUSTED;
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
                    return Look(ticket.0);
                }
            }
            result = Look::UNSETTLED;
        }
        result
    }

    /// Takes slabs without a block in them away from their stripes, so that their pages are free
    /// for all; true if there was one.
    #[inline(never)]
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
