//! The way to memory for a group whose stripe cannot be refilled: everywhere else, and NULL only
//! when there is nothing.
//!
//! A request that ends here looks at each place where a slot of its class can be: the class's
//! stripes, its listed slabs, the free pages that summaries show; slots of hardly more bytes; then every free page; the slots
//! of all larger classes, but where stripes hold slabs of such a class without a block in them these become pages; such slabs of any class;
//! and at last empty pages of slabs ([`crate::punch`]). Because memory moves while it looks,
//! "nothing" counts only if no epoch changed meanwhile, no stripe was between two slabs,
//! nothing taken was on its way (the sets' counts say so), and no slab was that is in no set yet ([`crate::doubts`]).
//! Otherwise the caller comes again: it waits for others to get on, never for a lock, and never where other lanes wait for it.

use crate::class;
use crate::counters::Failure;
use crate::heap::Core;
use crate::malloc::Wish;
use crate::obtain::{Effort, Search};
use crate::refill::ticket_slab;
use crate::slab::Slab;
use crate::stripe::{AT_ONCE, Stripe, which};
use crate::ticket::Ticket;
use core::ops::Range;
use simt::atomic::{Ordering, fence};
use simt::{thread, time};

/// One of so many refills that search takes idle slabs away where hardly any page is free.
const SEARCHES_TO_RECLAIM: u32 = 8;

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

impl Core {
    /// One look everywhere: a ticket with at least one and at most `count` units of the wish's class or a
    /// larger one; an empty ticket, if memory was moving; or [`Ticket::EXHAUSTED`], which is
    /// counted where nothing else can be tried.
    #[cold]
    #[inline(never)]
    pub(crate) fn scavenge(&self, wish: Wish, count: u32) -> Ticket {
        let class = wish.class();
        let epoch = self.epochs(class);
        let look = self.look(class, count, Effort::Little);
        if let Some(ticket) = look.ticket() {
            return ticket;
        }
        // What is dear only where a slot of hardly more bytes will not do.
        let classes = self.layout().class_count;
        let near = (class + 1 + class::OCTAVE).min(classes);
        let nearly = self.look_at_larger(wish, class + 1..near, count);
        if let Some(ticket) = nearly.ticket() {
            return ticket;
        }
        let look = self.look(class, count, Effort::All);
        if let Some(ticket) = look.ticket() {
            return ticket;
        }
        let far = self.look_at_larger(wish, near..classes, count);
        if let Some(ticket) = far.ticket() {
            return ticket;
        }
        // Dearest of all, since all stripes of all classes are looked at.
        if self.reclaim_idle() || self.punch_slabs() {
            return Ticket::empty(class);
        }
        let settled = [look, nearly, far]
            .iter()
            .all(|look| *look != Look::UNSETTLED);
        if !settled || self.may_have_missed(class, epoch) {
            return Ticket::empty(class);
        }
        // Acquire: whose change was seen in a search, its epoch is seen too.
        fence(Ordering::Acquire);
        if self.epochs(class) != epoch {
            return Ticket::empty(class);
        }
        let failure = if look == Look::FRAGMENTED {
            Failure::Fragmented
        } else {
            Failure::Exhausted
        };
        // The others are not lost yet, see `try_otherwise`.
        if self.has_small_slots(class) && !self.is_growing() {
            self.counters(class).count_failures(failure, count);
        }
        Ticket::EXHAUSTED
    }

    /// Whether a search for a class that began at `epoch` may have missed a slab that was on its way. If the epoch has changed,
    /// that need not be found out.
    fn may_have_missed(&self, class: u32, epoch: u32) -> bool {
        let Some(raised) = self.globals().doubts.raised() else {
            return false;
        };
        self.epochs(class) != epoch || self.are_slabs_on_their_way(class, raised)
    }

    /// A number that changes whenever memory that can serve `class` became findable.
    pub(crate) fn epochs(&self, class: u32) -> u32 {
        (class..self.layout().class_count)
            .map(|class| self.listed(class).epoch())
            .fold(self.free_pages().epoch(), u32::wrapping_add)
    }

    /// Looks at the stripes and slabs of a class, and at the free pages.
    #[inline(never)]
    fn look(&self, class: u32, count: u32, effort: Effort) -> Look {
        let drawn = self.draw_anywhere(class, count);
        if drawn.ticket().is_some() {
            return drawn;
        }
        let obtained = self.obtain(class, effort);
        if let Some(slab) = obtained.slab() {
            return Look(self.draw_from(obtained, slab, count).0);
        }
        if drawn == Look::UNSETTLED || obtained == Search::UNSETTLED {
            Look::UNSETTLED
        } else if obtained == Search::FRAGMENTED {
            Look::FRAGMENTED
        } else {
            Look::EXHAUSTED
        }
    }

    /// What a group of `count` lanes finds that does not wait for its stripe, if hardly any page is free: as [`scavenge`](Self::scavenge), but where a refill
    /// would search, and no ticket with units says nothing of the rest.
    #[inline(never)]
    pub(crate) fn search_for_group(&self, class: u32, count: u32) -> Ticket {
        if !self.are_pages_rare() {
            return Ticket::empty(class);
        }
        let obtained = self.obtain(class, Effort::Little);
        match obtained.slab() {
            Some(slab) => self.draw_from(obtained, slab, count),
            None => Ticket::empty(class),
        }
    }

    /// Draws from an obtained slab, and lists what is left of it.
    fn draw_from(&self, obtained: Search, slab: Slab, count: u32) -> Ticket {
        let ticket = self.ticket_for(slab);
        // Down from a unit that is known to span a free slot: the same units would fail again
        // and again if nobody else came.
        let left = (self.last_free_slot(slab) >> ticket.density()) + 1;
        if self.reserve(slab, count.min(left)) {
            self.list_obtained(obtained, slab);
        } else {
            self.settle(obtained, slab);
        }
        ticket.with_left(left.cast_signed())
    }

    /// The last free slot of an owned slab, or 0.
    fn last_free_slot(&self, slab: Slab) -> u32 {
        let slots = self.layout().slots(slab.class(), slab.order());
        let mut end = slots;
        while end > 0 {
            let first = (end - 1) & !31;
            let inside = u32::MAX >> (32 - (end - first));
            let word = self.slot_word(self.slot_word_index(slab.page(), first));
            // Relaxed: a guess, which the claim verifies.
            let free = !word.load(Ordering::Relaxed) & inside;
            if free != 0 {
                return first + 31 - free.leading_zeros();
            }
            end = first;
        }
        0
    }

    /// Looks at the stripes and listed slabs of classes above the one asked for, as far as their slots will do. Gives an empty ticket if
    /// idle slabs of one became pages.
    #[inline(never)]
    fn look_at_larger(&self, wish: Wish, classes: Range<u32>, count: u32) -> Look {
        let mut result = Look::EXHAUSTED;
        for class in classes {
            if class::alignment(class) < wish.alignment() {
                continue;
            }
            time::give_turn();
            // Slabs without a block are worth more as pages than a slot of each, where slots are much larger.
            if class > wish.class() + class::OCTAVE && self.reclaim_idle_of(class) {
                return Look(Ticket::empty(wish.class()).0);
            }
            let mut look = self.draw_anywhere(class, count);
            if look == Look::EXHAUSTED && self.listed(class).count() > 0 {
                look = match self.take_listed(class, u32::MAX) {
                    Some(slab) => Look(self.draw_from(Search::listed(slab), slab, count).0),
                    None => Look::UNSETTLED,
                };
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
        if self.listed(class).holders() == 0 {
            return Look::EXHAUSTED;
        }
        let mut result = Look::EXHAUSTED;
        let mut step = 0;
        let stripes = self.stripes_of(class);
        while step < stripes.count {
            let from = stripes.after(stripes.of(thread::block_number()), step);
            let seen = self.look_at_stripes(class, from);
            if which(seen, Ticket::has_slab) != 0 {
                result = Look::UNSETTLED;
            }
            let mut drawable = which(seen, |seen| seen.has_slab() && seen.left() >= 0);
            while drawable != 0 {
                let index = stripes.after(from, drawable.trailing_zeros());
                let drawn = self.draw_from_stripe(class, self.stripe(class, index), count);
                if drawn.left() > 0 {
                    return Look(drawn.0);
                }
                drawable &= drawable - 1;
            }
            step += AT_ONCE;
        }
        result
    }

    /// Draws from a stripe of a class that was seen with a slab: the word of the slab that the units are of, or one with none left.
    fn draw_from_stripe(&self, class: u32, stripe: &Stripe, count: u32) -> Ticket {
        if stripe.look().left() < 0 || self.mend(class, stripe) {
            return Ticket::empty(class);
        }
        // Nothing left but still a slab: its slots freed meanwhile are listed by its crosser.
        let drawn = stripe.draw(count);
        if (0..count.cast_signed()).contains(&drawn.left()) {
            return self.cross(class, stripe, drawn, count);
        }
        drawn
    }

    /// Takes slabs without a block in them away from their stripes, so that their pages are free
    /// for all. True if there was one, or one that another is about to take away.
    #[inline(never)]
    pub(crate) fn reclaim_idle(&self) -> bool {
        let mut found = false;
        for class in 0..self.layout().class_count {
            time::give_turn();
            found |= self.reclaim_idle_of(class);
        }
        found
    }

    /// The same with the stripes of some class, now and then, where hardly any page is free: what bursts have left comes back before everybody looks for
    /// it.
    pub(crate) fn reclaim_now_and_then(&self) {
        let classes = self.layout().class_count;
        let class = self.at_random(classes * SEARCHES_TO_RECLAIM);
        if class < classes && self.are_pages_rare() {
            self.reclaim_idle_of(class);
        }
    }

    /// The same with the stripes of a class.
    #[inline(never)]
    fn reclaim_idle_of(&self, class: u32) -> bool {
        if self.listed(class).holders() == 0 {
            return false;
        }
        let mut found = false;
        let mut from = 0;
        let stripes = self.stripes_of(class);
        while from < stripes.count {
            let mut idle = self.idle_stripes(class, from);
            while idle != 0 {
                let index = stripes.after(from, idle.trailing_zeros());
                found |= self.reclaim(class, self.stripe(class, index));
                idle &= idle - 1;
            }
            from += AT_ONCE;
        }
        found
    }

    /// Bits of those of several stripes of a class from one on whose slabs seem to have no block in them, or are being rewound.
    #[inline(always)]
    fn idle_stripes(&self, class: u32, from: u32) -> u32 {
        let seen = self.look_at_stripes(class, from);
        let uses = seen.map(|seen| {
            if seen.has_slab() && self.is_sound(class, seen) {
                self.used_hint(seen.page())
            } else {
                u32::MAX
            }
        });
        let idle = |(index, (seen, used)): (u32, (Ticket, u32))| {
            let is_idle = used == seen.left().max(0).cast_unsigned();
            u32::from(is_idle || seen.is_rewinding()) << index
        };
        (0..).zip(seen.into_iter().zip(uses)).map(idle).sum()
    }

    /// Takes the slab of a stripe away if there is no block in it. True if there was none, or another is about to take it away.
    fn reclaim(&self, class: u32, stripe: &Stripe) -> bool {
        let seen = stripe.look();
        if !seen.has_slab() || !self.is_sound(class, seen) {
            return false;
        }
        if seen.left() < 0 {
            // Its crosser is about to let go of it, or to offer it again. What is used of one that is rewound cannot be told
            // from what was left.
            return seen.is_rewinding() || self.looks_unused(seen.page());
        }
        let left = seen.left().cast_unsigned();
        if !self.looks_idle(seen.page(), left) {
            return false;
        }
        self.take_slab_away(stripe, seen)
    }

    /// Takes its slab away from a stripe whose word is still `seen`, which must have a slab and not fewer than no units left: true if it was. The slab is listed then, or
    /// its pages are free.
    pub(crate) fn take_slab_away(&self, stripe: &Stripe, seen: Ticket) -> bool {
        // Who finds the stripe empty must know that pages are on their way, or a slab that may become pages.
        let slab = ticket_slab(seen);
        self.free_pages().announce(slab.pages());
        let detached = stripe.detach(seen.class(), seen);
        if detached {
            self.lost_slab(seen.class());
            // Release: for `uninstall`.
            fence(Ordering::Release);
            self.uninstall(slab, seen.left().cast_unsigned());
        }
        self.free_pages().renounce(slab.pages());
        detached
    }
}
