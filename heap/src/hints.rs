//! What a refill knows: what it looks at before it does anything, and what that says of the heap, the launch and the stripe.

use crate::class;
use crate::heap::Core;
use crate::layout::{self, ClassInfo, MAX_SLOTS};
use crate::page_set::WORD_PAGES;
use crate::ticket::Ticket;
use simt::atomic::Ordering;
use simt::{thread, warp};

/// Pages are scarce if fewer sixteenths of them are free.
const SCARCE_SIXTEENTHS: u32 = 3;
/// Pages are rare if less than this part of them is free: then nobody gets any at hand, and who searches reclaims idle slabs now and then.
/// (Of fewer pages than that they never are. Under exploration heaps are tiny.)
const RARE_SHARE: u32 = if cfg!(any(loom, shuttle)) { 4 } else { 256 };
/// Pages are plentiful if more than this part of them is free.
const PLENTY_SHARE: u32 = 3;
/// A heap is young while less than this part of its pages is in use.
const YOUNG_SHARE: u32 = 4;
/// Small classes may take pages where these are scarce: as many classes as have this part of the heap if each of their stripes has a page. (With 132 stripes and 2^17 pages it is all whose
/// slots are small.)
const SMALL_SHARE: u32 = 30;
/// A page has so many slots of a small class at least (binary logarithm), so it lasts. (Under exploration pages are tiny.)
const SMALL_SLOTS_LOG2: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 7 };
/// So many lanes of a group are a burst: hardly ever those of a warp that asks for sizes at random.
const BURST_LANES: u32 = 10;
/// The same for a group that searches for itself instead of waiting, or gets what its launch still wants. (Under exploration any group: it has few lanes there.)
const SEARCHING_LANES: u32 = if cfg!(any(loom, shuttle)) {
    1
} else {
    BURST_LANES
};
/// So many are one in a heap that is not young, if all stripes of the class get what they want for a small part of the free pages: the lanes of a warp
/// that asks for a few small sizes.
const FEW_LANES: u32 = 4;
/// That part (binary logarithm).
const SMALL_PART_LOG2: u32 = 4;

/// Slots of a slab that serves a large launch: 256 warps of a stripe.
const ENOUGH_SLOTS: u32 = 256 * warp::LANES;
/// From so many refills on a stripe's slabs grow beyond [`ENOUGH_SLOTS`], to four times as many: launches of that size that are repeated would else come
/// to the end of a slab at their own end each time, where all its blocks live, and never find it free.
const REFILLS_OF_A_LAUNCH: u32 = 3;
/// Where blocks come back, a stripe gets a slab that lasts for so many launches: then it is rewound between them ([`crate::rewind`]), or can
/// be offered again, and nobody waits for pages.
const LAUNCHES_OF_SLAB: u32 = 4;
/// Such a slab is this part of that (binary logarithm) while pages are not plentiful, so it is for one launch, after which it is rewound: others may soon look for what a stripe keeps, and
/// those that come last find none as large.
const PART_OF_LASTING_LOG2: u32 = 2;
/// The most warps of a grid that a stripe is taken to serve: with 32 lanes each they want as many slots as a slab
/// has at most.
const MOST_WARPS: u32 = 1 << (MAX_SLOTS.ilog2() - warp::LANES.ilog2());

/// First slabs of classes that have more stripes than that may have places of their own. Few stripes seldom look for the same pages, and the places of large slots would lie far apart.
const STRIPES_WITHOUT_PLACES: u32 = 64;

/// What a refill looks at before it does anything: guesses, that what it then does verifies.
#[derive(Clone, Copy)]
pub(crate) struct Hints {
    pub(crate) info: ClassInfo,
    /// Bytes of a slot, and of a page (binary logarithms, the first rounded up).
    slot_log2: u32,
    page_log2: u32,
    /// Free pages.
    pub(crate) free: u32,
    /// Pages of the heap.
    pub(crate) admitted: u32,
    /// The epoch of the free pages: a number that always changes.
    pub(crate) epoch: u32,
    /// Listed slabs of the class.
    pub(crate) listed: u32,
    /// Stripes that have a slab.
    pub(crate) installed: u32,
    /// Stripes of the class.
    stripes: u32,
    /// Whether the class is a small one.
    pub(crate) is_class_small: bool,
    /// Slots that the stripe will soon be asked for.
    pub(crate) wanted: u32,
    /// Slots of a slab that lasts: for several launches, or for one where pages are not plentiful, whatever part of what these want is of the class (but for few lanes of each warp not more than twice theirs), and for
    /// [`enough_slots`].
    pub(crate) lasting: u32,
    /// Whether much of the class is wanted at once, and not much else.
    pub(crate) burst: bool,
    /// Whether the stripe has outgrown its slab, see `Core::is_outgrown`.
    pub(crate) outgrown: bool,
    /// What became of that slab.
    pub(crate) old: OldSlab,
}

/// What became of the slab of a stripe until its units were used up.
#[derive(Clone, Copy, Default)]
pub(crate) struct OldSlab {
    /// Whether many of its blocks were freed.
    pub(crate) came_back: bool,
    /// Whether it can be offered again.
    pub(crate) may_stay: bool,
}

impl Hints {
    /// Whether so few pages are free that what other stripes have left should be used up first.
    pub(crate) fn are_pages_scarce(&self) -> bool {
        are_scarce(self.free, self.admitted)
    }

    /// Whether the stripe may have fresh pages. (Stripes of a small class that had none would take slabs with a little left from each other.)
    pub(crate) fn may_take_pages(&self) -> bool {
        let are_rare = are_rare(self.free, self.admitted);
        !self.are_pages_scarce() || (self.burst || self.is_class_small) && !are_rare
    }

    /// Whether a burst wants slots where hardly any page is free. What stripes have left there they lack themselves: a burst uses up what it gets, and to take over
    /// each other's slabs only takes time.
    pub(crate) fn are_last_for_bursts(&self) -> bool {
        self.burst && are_rare(self.free, self.admitted)
    }

    /// Whether so many pages are free that to look for anything else would be a waste of time.
    pub(crate) fn are_pages_plentiful(&self) -> bool {
        are_plentiful(self.free, self.admitted)
    }

    /// Whether hardly any page is in use.
    pub(crate) fn is_heap_young(&self) -> bool {
        is_young(self.free, self.admitted)
    }

    /// Whether a stripe whose word was `before` gets its first slab, as far as that can be told, in a large launch: one of more blocks of threads, along its first dimension, than the class has stripes, so that
    /// all of these may want one, if they are not few. Not in a small heap, which such slabs leave less full in the end (`docs/experiments.md`).
    pub(crate) fn is_first_of_many(&self, before: Ticket) -> bool {
        let do_all_want_one =
            || self.stripes > STRIPES_WITHOUT_PLACES && thread::grid_dim() > self.stripes;
        self.is_heap_young() && !before.has_slab() && !self.is_heap_small() && do_all_want_one()
    }

    /// Whether the heap has few bytes: by its pages, not by its stripes, so one that grows may be small at first.
    fn is_heap_small(&self) -> bool {
        layout::is_small(u64::from(self.admitted) << self.page_log2)
    }

    /// The largest order of a slab that a stripe gets for one that it has outgrown, if `stripes` may do the same: half of them could get one in a burst,
    /// which fills what it gets and returns it; else all of them, or where pages are plentiful each two. (Where they are not only bursts outgrow their slabs.)
    pub(crate) fn outgrown_order(&self, stripes: u32) -> u32 {
        let (free, all) = (log2(self.free), log2(stripes));
        if self.burst {
            (free + 1).saturating_sub(all)
        } else {
            free.saturating_sub(all + u32::from(self.are_pages_plentiful()))
        }
    }

    /// Whether fresh pages are preferred to listed slabs: if there are plenty; for a stripe that has outgrown its slab; for a burst; and for a small class
    /// while more are free than all stripes of such classes could have one of. In a listed slab, where others live, many lanes find no slot, and who
    /// comes again waits longest.
    pub(crate) fn prefers_pages(&self) -> bool {
        let is_small_first = self.is_class_small && self.free > self.admitted / SMALL_SHARE;
        self.are_pages_plentiful() || self.outgrown || self.burst || is_small_first
    }

    /// Whether all stripes of the class can have what this one wants, of a small part of the free pages.
    fn is_little_wanted(&self) -> bool {
        self.wanted_order() + log2(self.stripes) + SMALL_PART_LOG2 < log2(self.free)
    }

    /// Pages of what is wanted (binary logarithm).
    pub(crate) fn wanted_order(&self) -> u32 {
        (self.slot_log2 + log2_up(self.slots_wanted())).saturating_sub(self.page_log2)
    }

    /// Slots of a slab that lasts for several launches like this one, of each warp of which so many `lanes` want one; enough for a stripe whose word
    /// was `before`.
    fn lasting_slots(&self, before: Ticket, lanes: u32) -> u32 {
        let several = warps_of_stripe(self.stripes) * lanes * LAUNCHES_OF_SLAB;
        let part_log2 = if self.are_pages_plentiful() {
            0
        } else {
            PART_OF_LASTING_LOG2
        };
        several.max(enough_slots(before)) >> part_log2
    }

    /// The same for a stripe whose crosser asked for `count` slots: the other warps of the
    /// grid may ask for as many as the crosser's mates do. (Not for as many as all lanes of the group: that one asked is why we are
    /// here, and says nothing about other warps.)
    pub(crate) fn for_group_of(self, before: Ticket, count: u32) -> Self {
        let mates = count.max(1) - 1;
        let wanting = Self {
            wanted: self.wanted.max(mates * warps_of_stripe(self.stripes)),
            ..self
        };
        let is_cheap = !self.is_heap_young() && wanting.is_little_wanted();
        let burst = count >= if is_cheap { FEW_LANES } else { BURST_LANES };
        // Where few lanes of each warp want the class, a slab for all of them would outlast many launches, and be taken away as too large. (Until the stripe is one of many refills.)
        let lanes = if burst && count < BURST_LANES {
            2 * count
        } else {
            warp::LANES
        };
        Self {
            lasting: wanting.lasting_slots(before, lanes),
            burst,
            ..wanting
        }
    }

    /// The same for a burst that will soon want `wanted` slots, if these are not 0. (How long slabs last is asked only of one that was used up.)
    pub(crate) fn of_burst(&self, wanted: u32) -> Self {
        Self {
            wanted,
            burst: wanted > 0,
            ..*self
        }
    }

    /// Slots that a burst will soon want, if there is one and it may have many: where hardly any page is free all get small slabs, or some would get none.
    pub(crate) fn wanted_by_burst(&self) -> u32 {
        if self.burst && !self.are_last_for_bursts() {
            self.wanted
        } else {
            0
        }
    }

    /// The same for a stripe that has outgrown its slab, or not, and what became of that.
    pub(crate) fn of_stripe(self, outgrown: bool, old: OldSlab) -> Self {
        Self {
            outgrown,
            old,
            ..self
        }
    }

    /// Slots that the stripe should get. One that has outgrown its slab, and whose blocks come back, gets at once what lasts; else
    /// slabs grow by doublings, for most of what a stripe has would never be used.
    fn slots_wanted(&self) -> u32 {
        if self.outgrown && self.old.came_back {
            self.wanted.max(self.lasting)
        } else {
            self.wanted
        }
    }
}

impl Core {
    /// Whether hardly any page is free.
    pub(crate) fn are_pages_rare(&self) -> bool {
        are_rare(self.free_pages().count(), self.admitted_hint())
    }

    /// Whether few pages are free.
    pub(crate) fn are_pages_scarce(&self) -> bool {
        are_scarce(self.free_pages().count(), self.admitted_hint())
    }

    /// Whether many pages are free.
    pub(crate) fn are_pages_plentiful(&self) -> bool {
        are_plentiful(self.free_pages().count(), self.admitted_hint())
    }

    /// Whether so many slots of a class, which a launch wants of each stripe, are more than a slab has where memory is in pieces: the pages of a word.
    pub(crate) fn outlasts_slabs(&self, class: u32, slots: u32) -> bool {
        let bytes = u64::from(slots) * u64::from(class::slot_bytes(class));
        bytes >> self.page_shift > u64::from(WORD_PAGES)
    }

    /// Reads all hints for a slab of a class at once; `seen` is the word of the stripe that it is for.
    #[inline(always)]
    pub(crate) fn hints(&self, class: u32, seen: Ticket) -> Hints {
        let (free, epoch) = self.free_pages().count_and_epoch();
        let listed = self.listed(class).count();
        let admitted = self.admitted_hint();
        // Relaxed: a hint.
        let installed = self.globals().shared.installed.load(Ordering::Relaxed);
        let stripes = self.stripes_of(class).count;
        let slot_log2 = log2_up(class::slot_bytes(class));
        let page_log2 = u32::from(self.page_shift);
        Hints {
            info: self.class_info(class),
            slot_log2,
            page_log2,
            free,
            epoch,
            admitted,
            listed,
            installed,
            stripes,
            is_class_small: (class + 1) * stripes <= admitted / SMALL_SHARE
                && has_small_slots(class, page_log2),
            wanted: seen.left().min(0).unsigned_abs(),
            lasting: 0,
            burst: false,
            outgrown: false,
            old: OldSlab::default(),
        }
    }
}

/// Whether so many lanes of a warp want the same that others will too, and soon.
pub(crate) fn is_burst(count: u32) -> bool {
    count >= SEARCHING_LANES
}

/// Whether so few pages are free, of all, that they are rare.
fn are_rare(free: u32, admitted: u32) -> bool {
    free < admitted / RARE_SHARE
}

/// Whether so few pages are free, of all, that they are scarce.
fn are_scarce(free: u32, admitted: u32) -> bool {
    free < admitted / 16 * SCARCE_SIXTEENTHS
}

/// Whether slots of a class are small, where a page has `2^page_log2` bytes.
pub(crate) fn has_small_slots(class: u32, page_log2: u32) -> bool {
    log2_up(class::slot_bytes(class)) + SMALL_SLOTS_LOG2 <= page_log2
}

/// Whether so many pages are free, of all, that they are plentiful.
pub(crate) fn are_plentiful(free: u32, admitted: u32) -> bool {
    free > admitted / PLENTY_SHARE
}

/// Whether hardly any of all pages is in use.
fn is_young(free: u32, admitted: u32) -> bool {
    free > admitted - admitted / YOUNG_SHARE
}

/// Whether the stripe whose word was `before` was refilled several times. (The generation begins anew after 16 refills. It is a guess.)
pub(crate) fn is_of_many(before: Ticket) -> bool {
    before.generation() >= REFILLS_OF_A_LAUNCH
}

/// Warps of the grid that each of a class's stripes is taken to serve.
#[inline(always)]
pub(crate) fn warps_of_stripe(stripes: u32) -> u32 {
    ((thread::grid_threads() / warp::LANES) >> log2(stripes)).min(MOST_WARPS)
}

/// Slots of a slab that a stripe whose word was `before` hardly uses up.
pub(crate) fn enough_slots(before: Ticket) -> u32 {
    ENOUGH_SLOTS << (2 * u32::from(is_of_many(before)))
}

/// Binary logarithm, rounded up; 0 of 0.
fn log2_up(number: u32) -> u32 {
    log2(number.saturating_sub(1) << 1 | 1)
}

/// Binary logarithm, rounded down; 0 of 0.
#[allow(clippy::manual_ilog2, reason = "ilog2 would bring a panic")]
pub(crate) fn log2(number: u32) -> u32 {
    31 - (number | 1).leading_zeros()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use simt::emulation::{Position, set_position};

    /// Slots of 8 MiB and of 16 B, in pages of 64 KiB (binary logarithms).
    const LARGE: u32 = 23;
    const SMALL: u32 = 4;

    /// What a stripe sees of which a group of `lanes` wants units, where `free` of 6,400 pages are free.
    fn hints(slot_log2: u32, free: u32, lanes: u32) -> Hints {
        let info = ClassInfo {
            least_order: 0,
            usual_order: 0,
            largest_order: 8,
            padding: 0,
        };
        let before = Hints {
            info,
            slot_log2,
            page_log2: 16,
            free,
            admitted: 6400,
            epoch: 0,
            listed: 0,
            installed: 1,
            stripes: 1,
            is_class_small: false,
            wanted: 0,
            lasting: 0,
            burst: false,
            outgrown: false,
            old: OldSlab::default(),
        };
        before.for_group_of(Ticket::empty(0), lanes)
    }

    #[test]
    fn bursts_may_take_pages_where_they_are_scarce_but_not_the_last() {
        for (free, few, many) in [(1200, true, true), (1199, false, true), (24, false, false)] {
            assert_eq!(hints(LARGE, free, 1).may_take_pages(), few, "{free}");
            assert_eq!(
                hints(LARGE, free, BURST_LANES - 1).may_take_pages(),
                few,
                "{free}"
            );
            assert_eq!(
                hints(LARGE, free, BURST_LANES).may_take_pages(),
                many,
                "{free}"
            );
        }
        // A 256th is not the last.
        assert!(hints(LARGE, 25, warp::LANES).may_take_pages());
    }

    #[test]
    fn a_search_takes_what_a_burst_wants_but_not_of_the_last_pages() {
        for (free, lanes, expected) in [
            (6400, BURST_LANES, 77),
            (25, BURST_LANES, 77),
            (24, BURST_LANES, 0),
            (25, BURST_LANES - 1, 0),
        ] {
            let hints = Hints {
                wanted: 77,
                ..hints(LARGE, free, lanes)
            };
            let wanted = hints.wanted_by_burst();
            assert_eq!(wanted, expected, "{free} {lanes}");
            let wanting = hints.of_burst(wanted);
            assert_eq!((wanting.wanted, wanting.burst), (wanted, wanted > 0));
        }
    }

    #[test]
    fn small_classes_prefer_pages_until_few_are_free() {
        for (free, small, large) in [(2134, true, true), (2133, true, false), (213, false, false)] {
            for (is_small, prefers) in [(true, small), (false, large)] {
                let hints = Hints {
                    is_class_small: is_small,
                    ..hints(LARGE, free, 1)
                };
                assert_eq!(hints.prefers_pages(), prefers, "{free} {is_small}");
            }
        }
    }

    #[test]
    fn what_is_outgrown_is_replaced_by_what_others_can_get_too() {
        // Pages are plentiful from 2,134 on.
        for (free, lanes, order) in [(4096, 1, 8), (2048, 1, 8), (4096, BURST_LANES, 10)] {
            let order_found = hints(LARGE, free, lanes).outgrown_order(8);
            assert_eq!(order_found, order, "{free} {lanes}");
        }
    }

    #[test]
    fn fewer_lanes_are_a_burst_where_that_takes_little() {
        for (slot, few) in [(SMALL, true), (LARGE, false)] {
            assert_eq!(hints(slot, 1199, FEW_LANES).may_take_pages(), few, "{slot}");
            assert!(!hints(slot, 1199, FEW_LANES - 1).may_take_pages(), "{slot}");
        }
    }

    #[test]
    fn first_slabs_have_places_in_large_launches_in_large_heaps_that_are_young() {
        let first = Ticket::empty(0);
        let later = Ticket::new(0, 0, 0, 0, 1);
        // 2 GiB, of pages of 64 KiB.
        let large = 1 << 15;
        for (before, admitted, free, stripes, blocks, expected) in [
            (first, large, large, STRIPES_WITHOUT_PLACES + 1, 1000, true),
            (later, large, large, STRIPES_WITHOUT_PLACES + 1, 1000, false),
            (
                first,
                large - 1,
                large - 1,
                STRIPES_WITHOUT_PLACES + 1,
                1000,
                false,
            ),
            (
                first,
                large,
                large / 2,
                STRIPES_WITHOUT_PLACES + 1,
                1000,
                false,
            ),
            (first, large, large, STRIPES_WITHOUT_PLACES, 1000, false),
            (first, large, large, 200, 201, true),
            (first, large, large, 200, 200, false),
        ] {
            set_position(Position {
                grid_dim: blocks,
                ..Position::default()
            });
            let hints = Hints {
                admitted,
                stripes,
                ..hints(SMALL, free, 1)
            };
            let found = hints.is_first_of_many(before);
            set_position(Position::default());
            assert_eq!(
                found, expected,
                "{free} of {admitted} pages, {stripes} stripes, {blocks} blocks"
            );
        }
    }

    #[test]
    fn logarithms_are_rounded() {
        for (number, down, up) in [
            (0, 0, 0),
            (1, 0, 0),
            (2, 1, 1),
            (3, 1, 2),
            (4, 2, 2),
            (5, 2, 3),
        ] {
            assert_eq!((log2(number), log2_up(number)), (down, up), "{number}");
        }
    }
}
