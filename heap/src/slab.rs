//! The life of a slab.
//!
//! A slab is an aligned block of pages that holds slots of one class. Its bitmap is the truth
//! about its slots: a bit is set from `malloc` to `free`. Its *use* counts the slots handed out,
//! plus the units that a stripe may still draw or lanes have drawn and not yet settled: while the
//! use is not zero the slab stays what it is. So a lane that holds a unit may work on the bitmap
//! in peace, however late it is.
//!
//! | state | installed flag | away | use | found in |
//! |---|---|---|---|---|
//! | installed | set | 0 | any | one stripe |
//! | full | clear | 1 | its slots, or more | nowhere: the next free lists it |
//! | listed | clear | 0 | fewer than its slots | its class's set |
//! | retired | – | 0 | 0 | the free pages |
//! | punched | clear | 1 | its blocks, and a mark | nowhere: its last free gives back what is left of it (`heap/src/punch.rs`) |
//!
//! Each change is made by exactly one thread: the one whose atomic on the use made the state
//! change, or who took the slab out of its class's set. It *owns* the slab then: nobody else can
//! raise its use. A bitmap is all zero whenever its slab is retired, so nobody ever clears one.
//!
//! Who lets go of a slab that it owns raises its *away* count by one, with the use, and who then has listed or retired it
//! lowers the count again. So a free that comes between finds it raised, and raises a doubt ([`crate::doubts`]): what it
//! gave back is found by nobody, for the moment. (The count is one too high for a moment wherever a thread was
//! interrupted after it listed a slab, whatever became of the slab. It has room for 254 such threads.)

use crate::class::MAX_CLASSES;
use crate::cold;
use crate::entry::Entry;
use crate::heap::{Core, Heap};
use crate::layout;
use crate::page_set::WORD_PAGES;
use crate::punch::{LEAST_ORDER, falls_below_a_power};
use crate::rewind::{are_few, is_turn, least_turn, may_be_too_large};
use crate::stripe::Stripe;
use crate::ticket::Ticket;
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering, fence};

/// Flag in a slab's word: a stripe has it.
pub(crate) const INSTALLED: u32 = 1 << 31;

/// One in the away count of a slab's word, which lies between the use and the flag.
pub(crate) const AWAY: u32 = 1 << 23;

/// The use in a slab's word: more than twice the slots that a slab can have.
pub(crate) const USE: u32 = AWAY - 1;

/// In the use of a slab of which some pages were given back, beside its blocks: more than a slab has slots, so it looks full, and no more of it is handed out.
pub(crate) const PUNCHED: u32 = AWAY / 2;

/// Flag beside the stripe that had a slab last: it is to be rewound ([`crate::rewind`]).
const KEPT: u32 = 1 << 31;

/// Flag beside it: groups found slots of their rows in use. With it the place is none of a stripe's, so who looks for a stripe learns of it without a question of its own.
const OCCUPIED: u32 = 1 << 30;

const _: () = assert!(
    layout::MAX_STRIPES * MAX_CLASSES.next_power_of_two() < OCCUPIED,
    "a stripe's place lies below the flags"
);

/// The bits of the away count in a slab's word.
const AWAY_COUNT: u32 = !(INSTALLED | USE);

/// The away count in a slab's word.
pub(crate) fn times_away(word: u32) -> u32 {
    (word & AWAY_COUNT) / AWAY
}

/// Which of all stripes had a slab last, and what is noted beside it.
#[derive(Clone, Copy)]
pub(crate) struct Keeper(u32);

impl Keeper {
    /// The stripe's place among all; none of them if the slab is [occupied](Self::is_occupied).
    #[inline(always)]
    pub(crate) fn place(self) -> u32 {
        self.0 & !KEPT
    }

    /// Whether it keeps the slab.
    #[inline(always)]
    pub(crate) fn keeps(self) -> bool {
        self.0 & KEPT != 0
    }

    /// Whether groups that drew from it found slots of their rows in use.
    #[inline(always)]
    pub(crate) fn is_occupied(self) -> bool {
        self.0 & OCCUPIED != 0
    }

    /// The same stripe, whatever groups found.
    pub(crate) fn not_occupied(self) -> Self {
        Self(self.0 & !OCCUPIED)
    }
}

/// The word of a slab that changes, by its first page; alone on its sector of 32 bytes, or [two](layout::Layout::slab_shift).
#[repr(C, align(32))]
pub struct SlabState {
    usage: DeviceAtomicU32,
    /// Which of all stripes had the slab last, whether it [keeps](KEPT) it, and whether it is [occupied](OCCUPIED).
    stripe: DeviceAtomicU32,
    /// Units that the stripe was offered of it last.
    offered: DeviceAtomicU32,
    /// How far down from its last slot groups found slots of their rows in use, in slots.
    occupied: DeviceAtomicU32,
    /// What was known of it when it was [looked through](crate::punch) in vain for empty pages.
    searched: DeviceAtomicU64,
    /// How often slots of it may have been given to somebody: how often it was offered by a stripe, or listed; also of the slabs that began here before.
    given: DeviceAtomicU32,
}

impl SlabState {
    /// A page that no slab begins at.
    #[must_use]
    pub fn zero() -> Self {
        Self {
            usage: DeviceAtomicU32::new(0),
            stripe: DeviceAtomicU32::new(0),
            offered: DeviceAtomicU32::new(0),
            occupied: DeviceAtomicU32::new(0),
            searched: DeviceAtomicU64::new(0),
            given: DeviceAtomicU32::new(0),
        }
    }

    /// Slots in use and units that may still be drawn, at most, if the caller owns the slab or is the crosser of its stripe.
    #[inline(always)]
    pub(crate) fn used_hint(&self) -> u32 {
        // Relaxed: only frees can run beside the caller, and they only lower it. (Of another slab it is a guess.)
        self.usage.load(Ordering::Relaxed) & USE
    }

    /// Which of all stripes had the slab last. A hint.
    #[inline(always)]
    pub(crate) fn keeper(&self) -> Keeper {
        // Relaxed: who acts on it compares the stripe's word.
        Keeper(self.stripe.load(Ordering::Relaxed))
    }

    /// Notes that the stripe that has the slab keeps it.
    pub(crate) fn keep(&self) {
        // Relaxed: a hint.
        self.stripe.fetch_or(KEPT, Ordering::Relaxed);
    }

    /// Units that the slab's stripe was offered last. A hint.
    #[inline(always)]
    pub(crate) fn offered(&self) -> u32 {
        // Relaxed: as for `keeper`.
        self.offered.load(Ordering::Relaxed)
    }

    /// Notes how many units the slab's stripe is offered.
    pub(crate) fn note_offered(&self, units: u32) {
        // Relaxed: a hint.
        self.offered.store(units, Ordering::Relaxed);
    }

    /// How often slots of the slab may have been given to somebody, modulo 2^32. A hint.
    pub(crate) fn given(&self) -> u32 {
        // Acquire, from `note_given`: what was given by then, the use that is read next counts.
        self.given.load(Ordering::Acquire)
    }

    /// Counts that slots of the slab may have been given to somebody: more of them may be in use than before, so what was known of it says nothing any more. By who had a fence that releases since it raised
    /// the use.
    fn note_given(&self) {
        // Relaxed, after the fence: to `given`.
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    /// Publishes the word of a stripe, to which units of the slab were given.
    pub(crate) fn publish_given(&self, stripe: &Stripe, ticket: Ticket) {
        // Release, for the stripe's word and for the count.
        fence(Ordering::Release);
        self.note_given();
        stripe.publish(ticket);
    }

    /// What was noted of the slab when it was looked through for empty pages in vain. A hint.
    pub(crate) fn searched(&self) -> u64 {
        // Relaxed: a hint.
        self.searched.load(Ordering::Relaxed)
    }

    /// Notes what was known of the slab when it was looked through in vain.
    pub(crate) fn note_searched(&self, seen: u64) {
        // Relaxed: a hint, which names the slab by how often slots were given.
        self.searched.store(seen, Ordering::Relaxed);
    }

    /// How far down from the slab's last slot groups found slots of their rows in use, in slots. A hint.
    pub(crate) fn occupied(&self) -> u32 {
        // Relaxed: as for `keeper`.
        self.occupied.load(Ordering::Relaxed)
    }

    /// Notes that a group found a slot of its row in use, at most so many slots from the slab's end.
    #[inline(always)]
    pub(crate) fn note_occupied(&self, slots: u32) {
        // Relaxed: hints.
        self.occupied.fetch_max(slots, Ordering::Relaxed);
        self.stripe.fetch_or(OCCUPIED, Ordering::Relaxed);
    }

    /// Forgets how far down from the slab's last slot groups found slots in use, but not that they did.
    pub(crate) fn measure_occupied_again(&self) {
        // Relaxed: a hint.
        self.occupied.store(0, Ordering::Relaxed);
    }

    /// Forgets what groups found in use.
    pub(crate) fn forget_occupied(&self) {
        self.measure_occupied_again();
        // Relaxed: a hint.
        self.stripe.fetch_and(!OCCUPIED, Ordering::Relaxed);
    }

    /// Reserves `units` for the slab's stripe, whose crosser the caller is.
    pub(crate) fn reserve(&self, units: u32) {
        // Relaxed: publishing the stripe releases it.
        self.usage.fetch_add(units, Ordering::Relaxed);
    }
}

/// A slab: its first page (18 bits), order (4 bits) and class (8 bits), in one word so that it
/// travels in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slab(pub u32);

impl Slab {
    /// Bits that a slab takes.
    pub const BITS: u32 = 30;

    pub fn new(page: u32, class: u32, order: u32) -> Self {
        Self(page | order << 18 | class << 22)
    }

    pub fn page(self) -> u32 {
        self.0 & ((1 << 18) - 1)
    }

    pub fn order(self) -> u32 {
        (self.0 >> 18) & 15
    }

    pub fn class(self) -> u32 {
        (self.0 >> 22) & 0xff
    }

    pub fn pages(self) -> u32 {
        1 << self.order()
    }
}

impl Heap {
    /// What changes of the slab that begins at a page.
    pub(crate) fn slab_state(&self, page: u32) -> &SlabState {
        // SAFETY: the arrays of a heap are initialised and live as long as it does.
        unsafe { self.slabs.get(page << self.slab_shift) }
    }

    /// The word of the slab that begins at a page.
    pub(crate) fn usage(&self, page: u32) -> &DeviceAtomicU32 {
        &self.slab_state(page).usage
    }

    /// Gives back `count` units of a slab.
    pub(crate) fn release_units(&self, head: u32, entry: Entry, count: u32) {
        let before = self.lower_use(head, count);
        if !is_installed(before) {
            self.settle_release(head, entry, before, before.wrapping_sub(count));
        }
    }

    /// Gives back `count` slots of a slab, 1 to 32, whose bits the caller cleared: after a fence that releases, by a change that gave it the
    /// count.
    #[inline(always)]
    pub(crate) fn release_slots(&self, head: u32, entry: Entry, count: u32) {
        if let Some(before) = self.lower_use_of_slots(head, count) {
            self.follow_use(head, entry, before, count);
        }
    }

    /// The same, but what that asks for ([`follow_use`](Self::follow_use)): the slab's word before, if it may ask for anything.
    #[inline(always)]
    pub(crate) fn lower_use_of_slots(&self, head: u32, count: u32) -> Option<u32> {
        let before = self.lower_use(head, count);
        is_rare(before, count, least_turn(are_few(count))).then_some(before)
    }

    /// Whether a use that was lowered by `count` slots from the word `before` asks for anything.
    #[inline(always)]
    pub(crate) fn asks_for_more(&self, entry: Entry, before: u32, count: u32) -> bool {
        let after = before.wrapping_sub(count);
        if is_installed(before) {
            self.is_turn_in(entry, before, after, are_few(count))
        } else {
            !stays_listed(before, after) || may_be_thinned(entry, before, after)
        }
    }

    /// [`is_turn`] in the slab that an entry is of.
    #[inline(always)]
    fn is_turn_in(&self, entry: Entry, before: u32, after: u32, few: bool) -> bool {
        let slots_and_order = || (entry.slots(u32::from(self.page_shift)), entry.order());
        let slots_of_launch = || self.slots_of_launch(entry.class());
        is_turn(before, after, few, slots_and_order, slots_of_launch)
    }

    /// Does what is to be done if the use of a slab was lowered by `count` slots from the word `before`: only a stripe's slab is looked after, and only others change their state.
    #[inline(always)]
    fn follow_use(&self, head: u32, entry: Entry, before: u32, count: u32) {
        let few = are_few(count);
        let after = before.wrapping_sub(count);
        if !is_installed(before) {
            return self.settle_release(head, entry, before, after);
        }
        if self.is_turn_in(entry, before, after, few) {
            let slots = entry.slots(u32::from(self.page_shift));
            let slab = Slab::new(head, entry.class(), entry.order());
            let (state, used) = (self.slab_state(head), after & USE);
            if may_be_too_large(after, few, slots, slab.order()) {
                cold::look_at_large(self, slab, state, used);
            } else {
                cold::look_after(self, slab, state, used, few);
            }
        }
    }

    /// Lowers the use of a slab; gives its word before. In a damaged heap it may be lowered below zero.
    #[inline(always)]
    fn lower_use(&self, head: u32, count: u32) -> u32 {
        // Relaxed: the fence of who frees makes what was done to the blocks visible to whoever lowers the use to zero, and acquires in
        // `change_state`; units have none. The bits are as the count says before, for it depends on them.
        self.usage(head).fetch_sub(count, Ordering::Relaxed)
    }

    /// Does what lowering the use asks of the thread that did it, by which the word of a slab that no stripe has went from `before` to `after`, if the slab
    /// is away, nothing in it is used, or it may be worth punching.
    ///
    /// While a slab is on its way to its set most of its frees only raise a doubt, and that without a call: the warp waits for the slowest
    /// of its lanes.
    #[inline(always)]
    fn settle_release(&self, head: u32, entry: Entry, before: u32, after: u32) {
        let slab = || Slab::new(head, entry.class(), entry.order());
        if stays_listed(before, after) {
            if may_be_thinned(entry, before, after) {
                cold::note_if_thinned(self, slab(), after);
            }
            return;
        }
        let was_full = before & USE >= entry.slots(u32::from(self.page_shift));
        if !was_full && times_away(after) != 0 {
            self.core().raise_doubt();
            // Who listed it may be about to say so of the slab that was here before.
            if may_be_thinned(entry, before & USE, after & USE) {
                cold::note_if_thinned(self, slab(), after & USE);
            }
        }
        if was_full || after & USE == 0 {
            cold::change_state(self, slab(), was_full, after & USE);
        }
    }
}

/// Whether a stripe has the slab with a word.
#[inline(always)]
fn is_installed(word: u32) -> bool {
    word & INSTALLED != 0
}

/// How many of so many slots of a slab are free by its word, if they are so many sixteenths at least; else 0. One that a stripe has has none for others.
#[inline(always)]
pub(crate) fn room(slots: u32, word: u32, sixteenths: u32) -> u32 {
    let used = word & (INSTALLED | USE);
    // It wraps around only for the slots of a damaged entry.
    if used <= slots - slots.wrapping_mul(sixteenths) / 16 {
        slots - used
    } else {
        0
    }
}

/// Whether a slab that no stripe has, and whose word went from `before` to `after`, stays in its class's set.
#[inline(always)]
fn stays_listed(before: u32, after: u32) -> bool {
    after != 0 && times_away(before) == 0
}

/// Whether a slab that stays where it is may have become worth punching.
#[inline(always)]
fn may_be_thinned(entry: Entry, before: u32, after: u32) -> bool {
    falls_below_a_power(before, after) && entry.order() >= LEAST_ORDER
}

/// Whether lowering the word of a slab from `before` by `count` may ask for anything: the slab is away, nothing in it is used, it is listed and may be
/// [worth punching](may_be_thinned), or it is [time](is_turn) to look after it, by turns of `turn` slots. Yes more often than it must be: of each slab that no stripe has.
#[inline(always)]
fn is_rare(before: u32, count: u32, turn: u32) -> bool {
    // One less than after: of nothing it is the largest of all numbers, and then the away count differs.
    let below = before.wrapping_sub(count + 1);
    (before ^ below) & !(turn - 1) | before & !USE != INSTALLED
}

impl Core {
    /// [`follow_use`](Heap::follow_use) out of line.
    #[cold]
    #[inline(never)]
    pub(crate) fn follow_use_of(&self, head: u32, entry: Entry, before: u32, count: u32) {
        self.follow_use(head, entry, before, count);
    }

    /// Slots of a slab.
    pub(crate) fn slots(&self, slab: Slab) -> u32 {
        layout::slots(u32::from(self.page_shift), slab.class(), slab.order())
    }

    /// Slots not in use, of a slab that the caller owns.
    pub(crate) fn slots_free(&self, slab: Slab) -> u32 {
        self.slots(slab).saturating_sub(self.used_hint(slab.page()))
    }

    /// Slots in use of the slab at `page`, at most, if the caller owns it or is the crosser of its stripe.
    pub(crate) fn used_hint(&self, page: u32) -> u32 {
        self.slab_state(page).used_hint()
    }

    /// Whether a slab that a stripe's crosser lets go of has nothing in use.
    pub(crate) fn looks_unused(&self, page: u32) -> bool {
        // Relaxed: a hint. Also without the flag: the crosser announces the pages only afterwards.
        self.usage(page).load(Ordering::Relaxed) & USE == 0
    }

    /// Whether an installed slab has nothing in use but the `left` units of its stripe.
    pub(crate) fn looks_idle(&self, page: u32, left: u32) -> bool {
        // Relaxed: a hint.
        self.usage(page).load(Ordering::Relaxed) & (INSTALLED | USE) == INSTALLED + left
    }

    /// Notes that a stripe is about to have `units` of the slab that begins at a page, and whether it keeps it.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "there are fewer stripes than 2^30"
    )]
    pub(crate) fn note_stripe(&self, page: u32, stripe: &Stripe, keeps: bool, units: u32) {
        let offset = core::ptr::from_ref(stripe) as u64 - self.stripes.pointer(0) as u64;
        // Among those of all classes: who reads it takes what is its class's.
        let place = (offset / size_of::<Stripe>() as u64) as u32;
        let last = if keeps { place | KEPT } else { place };
        let state = self.slab_state(page);
        // Relaxed: a hint.
        state.stripe.store(last, Ordering::Relaxed);
        state.note_offered(units);
        // Relaxed: a hint.
        state.occupied.store(0, Ordering::Relaxed);
    }

    /// Gives `units` of an owned slab to a stripe, which is published next.
    pub(crate) fn install(&self, page: u32, units: u32) {
        // Relaxed: publishing the stripe releases it.
        self.usage(page)
            .fetch_add(INSTALLED + units, Ordering::Relaxed);
    }

    /// Reserves `units` of a slab that the caller owns, and lets go of it. True if the slab still has slots beyond its use:
    /// the caller still owns it and must list it. If not, the next free does.
    pub(crate) fn reserve(&self, slab: Slab, units: u32) -> bool {
        let word = self.usage(slab.page());
        // Relaxed: the slab is listed with release next.
        let before = word.fetch_add(AWAY + units, Ordering::Relaxed);
        (before & USE) + units < self.slots(slab)
    }

    /// Takes a slab away from its stripe with `left` units that nobody has drawn. The caller has announced its pages, and had a
    /// fence that releases.
    pub(crate) fn uninstall(&self, slab: Slab, left: u32) {
        let amount = INSTALLED - AWAY + left;
        // Relaxed, after the caller's fence: whose free comes after this and finds the last block gone acquires in
        // `change_state`, and knows that the slab's pages are announced; so does, by the fence after its search, who sees
        // this and not yet that the stripe has no slab. What was done to blocks is released by who did it.
        let before = self.usage(slab.page()).fetch_sub(amount, Ordering::Relaxed);
        self.change_state(slab, true, before.wrapping_sub(amount) & USE);
    }

    /// Does what is to be done when the use of a slab is lowered to `used`: if it was full, or installed, it is listed, retired or left
    /// to the next free; if it was not, it is not used any more. A punched slab looks full until nothing of it is in use.
    #[inline(never)]
    pub(crate) fn change_state(&self, slab: Slab, was_hidden: bool, used: u32) {
        if !self.is_plausible(slab) {
            return self.report_damage(self.layout().class_count);
        }
        // Acquire: what all who lowered the use before did comes before what follows.
        fence(Ordering::Acquire);
        if used == PUNCHED {
            self.retire_punched(slab);
        } else if was_hidden {
            self.send_off(slab, used);
        } else {
            // Its lister or its taker may be at work on it. Who takes it out of the set decides.
            self.retire_if_listed(slab);
        }
    }

    /// Lists or retires a slab whose use is `used` since the caller changed it, or leaves it to the next free. It is away.
    fn send_off(&self, slab: Slab, used: u32) {
        if used == 0 {
            // Relaxed: nobody will find the slab again.
            self.usage(slab.page()).fetch_sub(AWAY, Ordering::Relaxed);
            self.retire(slab);
        } else if used < self.slots(slab) {
            self.list(slab);
        }
    }

    /// Puts an owned slab, which is away, into its class's set.
    pub(crate) fn list(&self, slab: Slab) {
        self.listed(slab.class()).announce(1);
        self.relist(slab);
    }

    /// Puts an owned slab, which is away, into its class's set, where it is still counted.
    #[inline(never)]
    pub(crate) fn relist(&self, slab: Slab) {
        if self.insert_listed(slab) {
            self.retire_if_listed(slab);
        }
    }

    /// Sets the bit of a slab that is away in its class's set; true if its use is zero by now, so that it should be
    /// taken out again.
    fn insert_listed(&self, slab: Slab) -> bool {
        let listed = self.listed(slab.class());
        listed.insert(slab.page() / WORD_PAGES, 1 << (slab.page() % WORD_PAGES));
        // Release, for the count of what was given, the epoch and the use.
        fence(Ordering::Release);
        self.slab_state(slab.page()).note_given();
        listed.raise_epoch_after_fence();
        // The last free may have come before the slab could be found. Relaxed, after the fence: if that free's
        // change of the use comes after this, it finds the slab; if before, zero is read. And whose free finds the
        // count lowered knows, by the fence after its next search, of the slab's arrival.
        let before = self.usage(slab.page()).fetch_sub(AWAY, Ordering::Relaxed);
        let used = before & USE;
        // Who freed until now freed from a slab that was on its way.
        if used != 0 && slab.order() >= LEAST_ORDER {
            self.note_if_thinned(slab, used);
        }
        before & (INSTALLED | USE) == 0
    }

    /// Takes a slab whose use was seen at zero out of its class's set, if it is there, and
    /// retires it. It may have been retired and be a new slab of the class by now.
    #[inline(always)]
    fn retire_if_listed(&self, slab: Slab) {
        let listed = self.listed(slab.class());
        while listed.remove(slab.page()) {
            let Some(slab) = self.slab_of_class(slab.class(), slab.page()) else {
                // It was never listed by us: the bit is damage, and gone.
                self.report_damage(slab.class());
                listed.settle(1);
                return;
            };
            // Acquire: sees what the last user did.
            if self.usage(slab.page()).load(Ordering::Acquire) & (INSTALLED | USE) == 0 {
                self.retire(slab);
                listed.settle(1);
                return;
            }
            // Relaxed: the slab is listed with release next.
            self.usage(slab.page()).fetch_add(AWAY, Ordering::Relaxed);
            if !self.insert_listed(slab) {
                return;
            }
        }
    }

    /// The slab of a class that begins at a page. If the caller took the page out of the class's
    /// set there is one, unless the heap is damaged.
    pub(crate) fn slab_of_class(&self, class: u32, page: u32) -> Option<Slab> {
        let entry = Entry(self.entry(page).load(Ordering::Relaxed));
        let slab = Slab::new(page, class, entry.order());
        (entry == Entry::slab(class, entry.order()).marked(self.mark()) && self.is_plausible(slab))
            .then_some(slab)
    }

    /// Makes an owned slab without use free pages.
    #[inline(always)]
    pub(crate) fn retire(&self, slab: Slab) {
        for page in slab.page()..slab.page() + slab.pages() {
            // Relaxed: released with the pages.
            self.entry(page).store(Entry::BLANK.0, Ordering::Relaxed);
        }
        let pages = self.free_pages();
        pages.announce(slab.pages());
        pages.insert_run(slab.page(), slab.pages());
        pages.raise_epoch();
    }

    /// Makes pages that the caller took from the free set a slab without use.
    pub(crate) fn found_slab(&self, slab: Slab) {
        let entry = Entry::slab(slab.class(), slab.order());
        let entry = entry.marked(self.mark()).0;
        // Relaxed: released when the slab is published or listed.
        let write = |page| self.entry(page).store(entry, Ordering::Relaxed);
        let end = slab.page() + slab.pages();
        let mut page = slab.page();
        // Four at once: a refill waits for it.
        while end - page >= 4 {
            write(page);
            write(page + 1);
            write(page + 2);
            write(page + 3);
            page += 4;
        }
        while page < end {
            write(page);
            page += 1;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pages::WORD_ORDER;

    #[test]
    fn nothing_rare_is_missed() {
        let near =
            |number: u32| (0..80).map(move |offset| number.wrapping_add(offset).wrapping_sub(40));
        let words = [
            0,
            1 << 10,
            5 << 10,
            AWAY,
            INSTALLED,
            INSTALLED | 1 << 10,
            INSTALLED | 3 << 10,
            INSTALLED | 7 << 10,
            AWAY | 1 << 10,
            u32::MAX,
        ];
        let (mut seldom, mut early) = (false, false);
        for before in words.into_iter().flat_map(near) {
            for count in 1..=32 {
                let after = before.wrapping_sub(count);
                let is_away = before & AWAY_COUNT != 0;
                let is_thinned = falls_below_a_power(before, after);
                for few in [true, false] {
                    let is_rare = is_rare(before, count, least_turn(few));
                    seldom |= !is_rare;
                    // Of few slots, and of many.
                    for slots in [1 << 5, 1 << 8, 3276, 1 << 12, 1 << 13, 1 << 16] {
                        let shape = || (slots, WORD_ORDER);
                        let launch = || {
                            early = true;
                            u32::MAX
                        };
                        let is_turn = is_turn(before, after, few, shape, launch);
                        let is_asked = after == 0 || is_away || is_turn || is_thinned;
                        assert!(!is_asked || is_rare, "{before:#x} {count} {few} {slots}");
                    }
                }
            }
        }
        assert!(seldom && early);
    }
}
