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
use crate::page_set::PageSet;
use crate::punch::may_be_punched;
use crate::refill::ticket_slab;
use crate::slab::Slab;
use crate::stripe::{AT_ONCE, Stripe, which};
use crate::ticket::Ticket;
use core::ops::Range;
use simt::atomic::{LOADED_TOGETHER, Ordering, acquire_loaded, fence};
use simt::{thread, time};

/// Classes that are looked at at once.
const CLASSES_AT_ONCE: u32 = 4;

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

/// What was seen of slabs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Held {
    /// A stripe's had no block in it and is about to be pages, or is being rewound, so that it cannot be told.
    pub(crate) was_idle: bool,
    /// A stripe has one in which few live, or that is being rewound.
    pub(crate) is_sparse: bool,
    /// There are listed ones.
    pub(crate) is_listed: bool,
}

impl Core {
    /// One look everywhere: a ticket with at least one and at most `count` units of the wish's class or a
    /// larger one; an empty ticket, if memory was moving; or [`Ticket::EXHAUSTED`], which is
    /// counted where nothing else can be tried.
    #[cold]
    #[inline(never)]
    pub(crate) fn scavenge(&self, wish: Wish, count: u32) -> Ticket {
        let class = wish.class();
        let epoch = self.epochs_first(class);
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
        // Dearest of all, since the stripes of all classes are looked at that have slabs.
        if self.make_room() {
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

    /// A number that changes whenever memory that can serve `class` became findable, for who has searched, and had a fence that acquires since.
    #[inline(never)]
    pub(crate) fn epochs(&self, class: u32) -> u32 {
        // Relaxed, after the fence.
        self.epochs_by(class, Ordering::Relaxed)
    }

    /// The same for who is about to search: sees what became findable before.
    #[inline(never)]
    pub(crate) fn epochs_first(&self, class: u32) -> u32 {
        // Acquire: whoever sees a new epoch also sees what it announced.
        let epochs = self.epochs_by(class, LOADED_TOGETHER);
        acquire_loaded();
        epochs
    }

    /// The sum of the epochs of the free pages and of the classes from one on.
    #[inline(always)]
    fn epochs_by(&self, class: u32, ordering: Ordering) -> u32 {
        let end = self.layout().class_count;
        let mut sum = self.free_pages().epoch(ordering);
        let mut from = class;
        while from < end {
            let seen = self.of_classes(from, end, |set| set.epoch(ordering));
            sum = seen.into_iter().fold(sum, u32::wrapping_add);
            from += CLASSES_AT_ONCE;
        }
        sum
    }

    /// What is read of the sets of several classes, from one on and before `end`; nothing of others. One wait for the memory.
    #[inline(always)]
    fn of_classes<T: Default>(
        &self,
        from: u32,
        end: u32,
        read: impl Fn(&PageSet) -> T,
    ) -> [T; CLASSES_AT_ONCE as usize] {
        let look = |ahead| {
            if from + ahead < end {
                read(&self.listed(from + ahead))
            } else {
                T::default()
            }
        };
        [look(0), look(1), look(2), look(3)]
    }

    /// Bits of those of several classes, from one on and before `end`, of which stripes have slabs; and of those of which slabs are listed.
    #[inline(always)]
    fn with_slabs(&self, from: u32, end: u32) -> (u32, u32) {
        // The count first: who takes a listed slab for a stripe counts the stripe before it stops to count the slab.
        let seen = self.of_classes(from, end, |set| (set.count(), set.holders()));
        let bits = |(index, (count, holders)): (u32, (u32, u32))| {
            (
                u32::from(holders > 0) << index,
                u32::from(count > 0) << index,
            )
        };
        let both = |(held, listed), (is_held, is_listed)| (held | is_held, listed | is_listed);
        (0..).zip(seen).map(bits).fold((0, 0), both)
    }

    /// Whether something is true of one of several classes that have slabs, by turns: the others are not asked then.
    #[inline(always)]
    pub(crate) fn any_with_slabs(
        &self,
        classes: Range<u32>,
        mut is_true: impl FnMut(u32) -> bool,
    ) -> bool {
        let mut from = classes.start;
        while from < classes.end {
            let (held, listed) = self.with_slabs(from, classes.end);
            let mut some = held | listed;
            while some != 0 {
                time::give_turn();
                if is_true(from + some.trailing_zeros()) {
                    return true;
                }
                some &= some - 1;
            }
            from += CLASSES_AT_ONCE;
        }
        false
    }

    /// Looks at the stripes and slabs of a class, and at the free pages.
    #[inline(never)]
    fn look(&self, class: u32, count: u32, effort: Effort) -> Look {
        let drawn = self.draw_anywhere(class, count);
        if drawn.ticket().is_some() {
            return drawn;
        }
        let obtained = self.obtain(class, effort, 0);
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

    /// What a group of `count` lanes finds that does not wait for its stripe; no ticket with units says nothing of what there is. If hardly any page is free it looks where a refill
    /// would search; if few are and the class has few stripes, for pages: of large slots a warp
    /// wants most of what lies in one piece, and all who wait for a stripe would get theirs one after the other.
    #[inline(never)]
    pub(crate) fn search_for_group(&self, class: u32, count: u32) -> Ticket {
        let obtained = if self.are_pages_rare() {
            self.obtain(class, Effort::Little, 0)
        } else if self.has_few_stripes(class) && self.are_pages_scarce() {
            // What is listed is little for a burst, and measured slower.
            self.take_pages(class, Effort::Little, count)
        } else {
            return Ticket::empty(class);
        };
        match obtained.slab() {
            Some(slab) => self.draw_from(obtained, slab, count),
            None => Ticket::empty(class),
        }
    }

    /// Draws from an obtained slab, and lists what is left of it.
    #[inline(never)]
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

    /// The last free slot of an owned slab, or 0. As a rule it is in the last word of the bitmap.
    fn last_free_slot(&self, slab: Slab) -> u32 {
        let slots = self.slots(slab);
        let mut words = slots.div_ceil(u32::BITS);
        while words > 0 {
            if let Some(slot) = self.last_free_of_word(slab.page(), slots, words) {
                return slot;
            }
            words -= 1;
        }
        0
    }

    /// The last free slot before slot `end` in the last of the first `words` words of the bitmap of the slab that begins at a page; none if there are none.
    #[inline(always)]
    pub(crate) fn last_free_of_word(&self, page: u32, end: u32, words: u32) -> Option<u32> {
        let first = words.checked_sub(1)? * u32::BITS;
        let inside = u32::MAX >> (u32::BITS - (end - first).min(u32::BITS));
        let word = self.slot_word(self.slot_word_index(page, first));
        // Relaxed: a guess, which the claim verifies.
        let free = !word.load(Ordering::Relaxed) & inside;
        Some(first + free.checked_ilog2()?)
    }

    /// Looks at the stripes and listed slabs of classes above the one asked for, as far as their slots will do. Gives an empty ticket if
    /// idle slabs of one became pages.
    #[inline(never)]
    fn look_at_larger(&self, wish: Wish, classes: Range<u32>, count: u32) -> Look {
        let mut result = Look::EXHAUSTED;
        self.any_with_slabs(classes, |class| {
            let look = self.look_at_a_larger(wish, class, count);
            if look != Look::EXHAUSTED {
                result = look;
            }
            look.ticket().is_some()
        });
        result
    }

    /// The same of one class.
    #[inline(always)]
    fn look_at_a_larger(&self, wish: Wish, class: u32, count: u32) -> Look {
        if class::alignment(class) < wish.alignment() {
            return Look::EXHAUSTED;
        }
        // Slabs without a block are worth more as pages than a slot of each, where slots are much larger.
        if class > wish.class() + class::OCTAVE && self.reclaim_idle_of(class).was_idle {
            return Look(Ticket::empty(wish.class()).0);
        }
        let look = self.draw_anywhere(class, count);
        if look != Look::EXHAUSTED || self.listed(class).count() == 0 {
            return look;
        }
        match self.take_any(class) {
            Some(slab) => Look(self.draw_from(Search::listed(slab), slab, count).0),
            None => Look::UNSETTLED,
        }
    }

    /// Draws from whichever stripe of a class has units, beginning with the caller's own.
    #[inline(never)]
    fn draw_anywhere(&self, class: u32, count: u32) -> Look {
        let stripes = self.stripes_of(class);
        if self.listed(class).holders() == 0 {
            return Look::EXHAUSTED;
        }
        let mut result = Look::EXHAUSTED;
        let mut from = 0;
        loop {
            let (step, has_slabs) = self.next_drawable(class, from);
            if has_slabs {
                result = Look::UNSETTLED;
            }
            if step >= stripes.count {
                return result;
            }
            let index = stripes.after(stripes.of(thread::block_number()), step);
            let drawn = self.draw_from_stripe(class, self.stripe(class, index), count);
            if drawn.left() > 0 {
                return Look(drawn.0);
            }
            from = step + 1;
        }
    }

    /// The next stripe of a class with units, as a step of the round that begins with the caller's own, from some step on; as many as there are stripes, or more, if none has. And whether
    /// stripes were seen that have slabs.
    #[inline(never)]
    fn next_drawable(&self, class: u32, from: u32) -> (u32, bool) {
        let stripes = self.stripes_of(class);
        let (mut step, mut has_slabs) = (from, false);
        while step < stripes.count {
            let first = stripes.after(stripes.of(thread::block_number()), step);
            let seen = self.look_at_stripes(class, first);
            has_slabs |= which(seen, Ticket::has_slab) != 0;
            let drawable = which(seen, |seen| seen.has_slab() && seen.left() >= 0);
            if drawable != 0 {
                return (step + drawable.trailing_zeros(), has_slabs);
            }
            step += AT_ONCE;
        }
        (step, has_slabs)
    }

    /// Draws from a stripe of a class that was seen with a slab: the word of the slab that the units are of, or one with none left.
    pub(crate) fn draw_from_stripe(&self, class: u32, stripe: &Stripe, count: u32) -> Ticket {
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

    /// Makes pages free where slabs of any class have no block in them, or, where none is such, few. True if there was one, or one that another is about to take away.
    pub(crate) fn make_room(&self) -> bool {
        let held = self.reclaim_idle();
        // What is listed a stripe may get meanwhile.
        held.was_idle || (held.is_sparse || held.is_listed) && self.punch_slabs(held.is_sparse)
    }

    /// Takes slabs without a block in them away from their stripes, so that their pages are free
    /// for all.
    #[inline(never)]
    pub(crate) fn reclaim_idle(&self) -> Held {
        let mut all = Held::default();
        let (mut from, end) = (0, self.layout().class_count);
        while from < end {
            let (mut held, listed) = self.with_slabs(from, end);
            all.is_listed |= listed != 0;
            while held != 0 {
                time::give_turn();
                let of_class = self.reclaim_idle_of(from + held.trailing_zeros());
                all.was_idle |= of_class.was_idle;
                all.is_sparse |= of_class.is_sparse;
                held &= held - 1;
            }
            from += CLASSES_AT_ONCE;
        }
        all
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
    fn reclaim_idle_of(&self, class: u32) -> Held {
        let mut held = Held::default();
        if self.listed(class).holders() == 0 {
            return held;
        }
        let mut from = 0;
        let stripes = self.stripes_of(class);
        while from < stripes.count {
            let (mut idle, is_sparse) = self.look_for_idle(class, from);
            held.is_sparse |= is_sparse;
            while idle != 0 {
                let index = stripes.after(from, idle.trailing_zeros());
                held.was_idle |= self.reclaim(class, self.stripe(class, index));
                idle &= idle - 1;
            }
            from += AT_ONCE;
        }
        held
    }

    /// Bits of those of several stripes of a class, from one on, whose slabs have no block in them, or are being rewound; and whether one has a slab in which few live.
    #[inline(never)]
    fn look_for_idle(&self, class: u32, from: u32) -> (u32, bool) {
        let seen = self.look_at_slabs(class, from);
        let idle = which(seen, |(seen, used)| {
            used == seen.units_left() || seen.is_rewinding()
        });
        let is_sparse = which(seen, |(seen, _)| may_be_punched(seen)) != 0
            && which(seen, |(seen, used)| self.is_sparse(seen, used)) != 0;
        (idle, is_sparse)
    }

    /// The words of several stripes of a class from one on, and the uses of the slabs that these name, or the largest number: two waits for the memory.
    #[inline(always)]
    fn look_at_slabs(&self, class: u32, from: u32) -> [(Ticket, u32); AT_ONCE as usize] {
        self.look_at_stripes(class, from).map(|seen| {
            let used = if seen.has_slab() && self.is_sound(class, seen) {
                self.used_hint(seen.page())
            } else {
                u32::MAX
            };
            (seen, used)
        })
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
