//! What a refill knows: what it looks at before it does anything, and what that says of the heap, the launch and the stripe.

use crate::heap::Core;
use crate::layout::{ClassInfo, MAX_SLOTS};
use crate::ticket::Ticket;
use simt::atomic::Ordering;
use simt::{thread, warp};

/// Pages are scarce if less than this part of them is free.
const SCARCE_SHARE: u32 = 8;
/// Pages are rare if less than this part of them is free: then bursts get none at hand either.
const RARE_SHARE: u32 = 64;
/// Pages are plentiful if more than this part of them is free.
const PLENTY_SHARE: u32 = 2;
/// A heap is young while less than this part of its pages is in use.
const YOUNG_SHARE: u32 = 4;
/// So many lanes of a group are a burst: hardly ever those of a warp that asks for sizes at random.
const BURST_LANES: u32 = 10;

/// Slots of a slab that serves a large launch: 256 warps of a multiprocessor.
const ENOUGH_SLOTS: u32 = 256 * warp::LANES;
/// From so many refills on a stripe's slabs grow beyond [`ENOUGH_SLOTS`], to four times as many: launches of that size that are repeated would else come
/// to the end of a slab at their own end each time, where all its blocks live, and never find it free.
const REFILLS_OF_A_LAUNCH: u32 = 3;
/// Where blocks come back, a stripe gets a slab that lasts for so many launches: then it is rewound between them ([`crate::rewind`]), or can
/// be offered again, and nobody waits for pages.
const LAUNCHES_OF_SLAB: u32 = 4;
/// The most warps of a grid that a stripe is taken to serve: with 32 lanes each they want as many slots as a slab
/// has at most.
const MOST_WARPS: u32 = 1 << (MAX_SLOTS.ilog2() - warp::LANES.ilog2());

/// What a refill looks at before it does anything: guesses, that what it then does verifies.
#[derive(Clone, Copy)]
pub(crate) struct Hints {
    pub(crate) info: ClassInfo,
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
    /// Slots that the stripe will soon be asked for.
    pub(crate) wanted: u32,
    /// Slots of a slab that lasts: for several launches, whatever part of what these want is of the class, and for
    /// [`enough_slots`].
    pub(crate) lasting: u32,
    /// Whether much of the class is wanted at once, and not much else.
    pub(crate) burst: bool,
    /// Whether the stripe has outgrown its slab, see `Core::is_outgrown`.
    pub(crate) outgrown: bool,
}

impl Hints {
    /// Whether so few pages are free that what other stripes have left should be used up first.
    pub(crate) fn are_pages_scarce(&self) -> bool {
        self.free < self.admitted / SCARCE_SHARE
    }

    /// Whether the stripe may have fresh pages.
    pub(crate) fn may_take_pages(&self) -> bool {
        let are_rare = self.free < self.admitted / RARE_SHARE;
        !self.are_pages_scarce() || self.burst && !are_rare
    }

    /// Whether so many pages are free that to look for anything else would be a waste of time.
    pub(crate) fn are_pages_plentiful(&self) -> bool {
        self.free > self.admitted / PLENTY_SHARE
    }

    /// Whether hardly any page is in use.
    pub(crate) fn is_heap_young(&self) -> bool {
        self.free > self.admitted - self.admitted / YOUNG_SHARE
    }

    /// The same for a stripe, one of `stripes`, whose crosser asked for `count` slots: the other warps of the
    /// grid may ask for as many as the crosser's mates do. (Not for as many as all lanes of the group: that one asked is why we are
    /// here, and says nothing about other warps.)
    pub(crate) fn for_group_of(self, before: Ticket, count: u32, stripes: u32) -> Self {
        Self {
            wanted: self
                .wanted
                .max((count.max(1) - 1) * warps_of_stripe(stripes)),
            lasting: enough_slots(before).max(lasting_slots(stripes)),
            burst: count >= BURST_LANES,
            ..self
        }
    }

    /// The same for a stripe that has outgrown its slab, or not. Where blocks come back it gets at once what lasts; else
    /// slabs grow by doublings, for most of what a stripe has would never be used.
    pub(crate) fn of_stripe(self, has_outgrown: bool, came_back: bool) -> Self {
        let lasting = if has_outgrown && came_back {
            self.lasting
        } else {
            0
        };
        Self {
            wanted: self.wanted.max(lasting),
            outgrown: has_outgrown,
            ..self
        }
    }
}

impl Core {
    /// Reads all hints for a slab of a class at once; `seen` is the word of the stripe that it is for.
    #[inline(always)]
    pub(crate) fn hints(&self, class: u32, seen: Ticket) -> Hints {
        let (free, epoch) = self.free_pages().count_and_epoch();
        let listed = self.listed(class).count();
        let admitted = self.admitted_hint();
        // Relaxed: a hint.
        let installed = self.globals().shared.installed.load(Ordering::Relaxed);
        Hints {
            info: self.class_info(class),
            free,
            epoch,
            admitted,
            listed,
            installed,
            wanted: seen.left().min(0).unsigned_abs(),
            lasting: 0,
            burst: false,
            outgrown: false,
        }
    }
}

/// Whether the stripe whose word was `before` was refilled several times. (The generation begins anew after 16 refills. It is a guess.)
pub(crate) fn is_of_many(before: Ticket) -> bool {
    before.generation() >= REFILLS_OF_A_LAUNCH
}

/// Warps of the grid that each of a class's stripes is taken to serve.
#[inline(always)]
fn warps_of_stripe(stripes: u32) -> u32 {
    ((thread::grid_threads() / warp::LANES) >> log2(stripes)).min(MOST_WARPS)
}

/// Slots of a slab that lasts for several launches like this one, whatever share of what these want is of its class.
fn lasting_slots(stripes: u32) -> u32 {
    warps_of_stripe(stripes) * warp::LANES * LAUNCHES_OF_SLAB
}

/// Slots of a slab that a stripe whose word was `before` hardly uses up.
pub(crate) fn enough_slots(before: Ticket) -> u32 {
    ENOUGH_SLOTS << (2 * u32::from(is_of_many(before)))
}

/// Binary logarithm, rounded up; 0 of 0.
pub(crate) fn log2_up(number: u32) -> u32 {
    log2(number.saturating_sub(1) << 1 | 1)
}

/// Binary logarithm, rounded down; 0 of 0.
#[allow(clippy::manual_ilog2, reason = "ilog2 would bring a panic")]
pub(crate) fn log2(number: u32) -> u32 {
    31 - (number | 1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a stripe sees of which a group of `lanes` wants units, where `free` of 6,400 pages are free.
    fn hints(free: u32, lanes: u32) -> Hints {
        let info = ClassInfo {
            least_order: 0,
            usual_order: 0,
            largest_order: 8,
            padding: 0,
        };
        let before = Hints {
            info,
            free,
            admitted: 6400,
            epoch: 0,
            listed: 0,
            installed: 1,
            wanted: 0,
            lasting: 0,
            burst: false,
            outgrown: false,
        };
        before.for_group_of(Ticket::empty(0), lanes, 1)
    }

    #[test]
    fn bursts_may_take_pages_where_they_are_scarce_but_not_the_last() {
        for (free, few, many) in [(800, true, true), (799, false, true), (99, false, false)] {
            assert_eq!(hints(free, 1).may_take_pages(), few, "{free}");
            assert_eq!(hints(free, BURST_LANES - 1).may_take_pages(), few, "{free}");
            assert_eq!(hints(free, BURST_LANES).may_take_pages(), many, "{free}");
        }
        // A 64th is not the last.
        assert!(hints(100, warp::LANES).may_take_pages());
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
