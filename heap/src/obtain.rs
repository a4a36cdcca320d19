//! Where a refill gets a slab from: one of its class that is listed, or free pages, and how many of
//! them.
//!
//! What was freed is used before fresh pages, the sooner the fewer of these are left: slabs that
//! nobody refills from drain, and become pages again; but while pages are plentiful, looking for anything else is a waste of time.
//! Slabs are as large as what the grid seems to want, and grow with what their stripe uses up.
//! Bursts, where the lanes of a warp want the same, fill what they get: they may have fresh pages where these are scarce, and many. Small classes,
//! which need few, take them first.
//! Searches begin apart, and each time elsewhere, so that they do not find the same.

use crate::heap::Core;
use crate::hints::{Hints, enough_slots, is_of_many, log2};
use crate::layout;
use crate::pages::Found;
use crate::refill::Glance;
use crate::slab::Slab;
use crate::ticket::Ticket;
use simt::{thread, warp};

/// Odd, and 2^32 over the golden ratio: multiples of it lie far apart modulo 2^32.
pub(crate) const GOLDEN: u32 = 0x9e37_79b9;
/// Warps that a block has at most.
const MOST_WARPS_OF_BLOCK: u32 = 32;
/// By how many stripes each class begins later than the one before.
const CLASS_TURN: u32 = 37;
/// How often a few listed slabs are looked at before fresh pages are preferred.
const LOOKS: u32 = 8;
/// The same for a refill before it searches.
const LOOKS_AT_HAND: u32 = 1;
/// A slab of pages at hand may be smaller than wished by this power of two.
const LESS_LOG2: u32 = 2;

/// How often more a burst that has outgrown its slab reads some words of pages for one as large as it wishes, if a word of pages would last a launch: else it is back in the next one. Of the words of an aged
/// heap one in ten is free, and where each stripe wants one, soon one in forty.
const ROUNDS_TO_INSIST: u32 = 24;
/// The same if not even a word of pages would last: then it is back in this launch.
const ROUNDS_TO_INSIST_ON_A_PART: u32 = 3;

/// Every so many refills a stripe's slabs double: then what a stripe has not used yet of its slab is
/// a small part of what it has used. While the heap is young each time up to [`enough_slots`], and beyond only where blocks come back: what is refilled
/// again and again is soon refilled seldom, and the blocks of a first launch lie near each other. Each time, too, in a heap that is not young any more
/// while its pages are plentiful, and those of small classes, which take little.
const REFILLS_TO_GROW: u32 = 4;
/// A stripe's slabs grow until all stripes of its class could get this many.
const SLABS_OF_CLASS: u32 = 2;
/// Where pages are not plentiful this part of all stripes that have slabs could get as many, if that are more (binary logarithm).
const PART_OF_ALL_LOG2: u32 = 2;
/// A slab for what will soon be wanted is so small that each stripe that has a slab could get this many (binary
/// logarithm).
const SLABS_OF_ALL_LOG2: u32 = 5;
/// For so many classes slabs are taken to be sought at the same time, in a large launch in a large heap that is young, for stripes that have none ([`Hints::is_first_of_many`]): who looks first does not see the others yet. (If it takes what it sees instead, that is
/// none, the first slabs of a launch of many sizes have more than half of a heap of 16 GiB; their pages come back late, and aged heaps lack them.)
const CLASSES_OF_FIRST_SLABS: u32 = 16;
/// The same for a small class: where its first slabs are as small as those of others, a heap that is used for long has the stripes of such classes refilled in each launch (`docs/experiments.md`). All small
/// classes together may wish for more than a quarter of the heap so, which then is not young any more: a launch that wants so much of each uses it up.
const SMALL_CLASSES_OF_FIRST_SLABS: u32 = 4;
/// A slab for a burst is so small that each stripe of its class could get this many (binary logarithm).
const SLABS_OF_BURST_LOG2: u32 = 2;

/// What a search for a slab gave: a slab that the caller owns and where it came from, or why
/// there is none. One word, so that it travels in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Search(u32);

impl Search {
    /// Flag beside a slab: it was made of free pages; otherwise it comes from its class's set.
    const FROM_PAGES: u32 = 1 << Slab::BITS;
    /// No slab, no page.
    pub const EXHAUSTED: Self = Self(u32::MAX);
    /// No slab; pages are free, but not side by side.
    pub const FRAGMENTED: Self = Self(u32::MAX - 1);
    /// No slab, but something was on its way.
    pub const UNSETTLED: Self = Self(u32::MAX - 2);

    pub fn listed(slab: Slab) -> Self {
        Self(slab.0)
    }

    fn of_pages(slab: Slab) -> Self {
        Self(slab.0 | Self::FROM_PAGES)
    }

    /// The slab.
    pub fn slab(self) -> Option<Slab> {
        (self.0 < Self::FROM_PAGES << 1).then_some(Slab(self.0 & (Self::FROM_PAGES - 1)))
    }

    pub fn is_of_pages(self) -> bool {
        self.0 & Self::FROM_PAGES != 0
    }
}

/// How hard to look for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Where the summaries show some. None there means nothing.
    Little,
    /// Everywhere.
    All,
}

impl Core {
    /// A slab that is found by a few accesses, while the stripe keeps its old one: one of the class's listed slabs
    /// with room, or free pages, unless they are too scarce.
    pub(crate) fn take_at_hand(&self, before: Ticket, hints: &Hints) -> Search {
        let pages_first = hints.prefers_pages();
        // Twice the same code, which is seldom in the instruction caches. (By numbers: an array would lie in local memory.)
        for turn in 0..2 {
            let found = if pages_first == (turn == 0) {
                self.make_at_hand(before, hints, pages_first)
            } else {
                self.take_listed_at_hand(before.class(), hints)
            };
            // Who has outgrown a slab that cannot be replaced by a larger one comes again as if it had not.
            if found.slab().is_some() || hints.outgrown {
                return found;
            }
        }
        Search::UNSETTLED
    }

    /// One of the listed slabs of a class with room, unless pages are plentiful.
    fn take_listed_at_hand(&self, class: u32, hints: &Hints) -> Search {
        if hints.listed == 0 || hints.are_pages_plentiful() {
            return Search::UNSETTLED;
        }
        self.take_roomy(class, LOOKS_AT_HAND)
            .map_or(Search::UNSETTLED, Search::listed)
    }

    /// A slab of free pages, unless they are too scarce: as large as is good now, or hardly smaller; of any size if pages are scarce and nothing else was
    /// found, so they are not the `first` choice.
    #[inline(never)]
    fn make_at_hand(&self, before: Ticket, hints: &Hints, first: bool) -> Search {
        if !hints.may_take_pages() {
            return Search::UNSETTLED;
        }
        let class = before.class();
        let order = self.wished_order(before, hints);
        let least = least_order(before, order, hints, first);
        let sizes = (least, order);
        let near = if hints.is_first_of_many(before) {
            self.first_place(class, order, hints.admitted)
        } else {
            self.scatter(class, order, hints)
        };
        let block = if hints.are_pages_plentiful() {
            let step = self.scatter_pages(class, order, hints);
            self.take_block_at(sizes, (near, step, hints.admitted))
        } else {
            self.take_best_block(sizes, near, self.rounds_to_insist(class, hints))
        };
        if let Some((page, order)) = block {
            return self.make_slab(page, class, order);
        }
        Search::UNSETTLED
    }

    /// How many rounds of a search for pages want just what the stripe wishes for.
    fn rounds_to_insist(&self, class: u32, hints: &Hints) -> u32 {
        if !(hints.outgrown && hints.burst) {
            0
        } else if self.outlasts_slabs(class, hints.wanted) {
            ROUNDS_TO_INSIST_ON_A_PART
        } else {
            ROUNDS_TO_INSIST
        }
    }

    /// Finds a slab of a class with slots free, for the caller to own: a listed one with room,
    /// or else fresh pages, for a burst that will soon want so many slots if `wanted` is not 0, or else any listed one.
    #[inline(never)]
    pub(crate) fn obtain(&self, class: u32, effort: Effort, wanted: u32) -> Search {
        let listed = self.listed(class);
        if listed.count() > 0
            && let Some(slab) = self.take_roomy(class, LOOKS)
        {
            return Search::listed(slab);
        }
        let pages = self.take_pages(class, effort, wanted);
        if pages.slab().is_some() || listed.count() == 0 {
            return pages;
        }
        self.take_any(class)
            .map_or(Search::UNSETTLED, Search::listed)
    }

    /// Makes a slab of free pages: as large as is good now, and smaller if there is none. For a burst that will soon want `wanted` slots, if these are not 0:
    /// who waits for a slab that only one warp can draw from waits for the next one, and so for as many as there are warps.
    pub(crate) fn take_pages(&self, class: u32, effort: Effort, wanted: u32) -> Search {
        let count = self.free_pages().count();
        let hints = self.hints(class, Ticket::empty(class));
        let (least, usual) = (hints.info.least_order, hints.info.usual_order);
        if count >= 1 << least {
            let order = self.wished_order(Ticket::empty(class), &hints.of_burst(wanted));
            // Not where a burst begins, nor where a first slab has its place: who comes here has just looked there.
            let near = self.scatter(class, order, &hints);
            let block = self.take_best_block((usual, order), near, 0);
            if let Some((page, order)) = block.or_else(|| self.take_block((least, order), near)) {
                return self.make_slab(page, class, order);
            }
        }
        if effort == Effort::Little {
            return Search::UNSETTLED;
        }
        let found = self.take_block_anywhere(least);
        match found.page() {
            Some(page) => self.make_slab(page, class, least),
            None if found == Found::UNSETTLED => Search::UNSETTLED,
            None if count >= 1 << least => Search::FRAGMENTED,
            None => Search::EXHAUSTED,
        }
    }

    /// Order that a new slab for a stripe should have: what is wanted much is refilled seldom, and
    /// what is wanted little takes little.
    ///
    /// As large as what will soon be wanted, within what all stripes that have slabs, or are about to have their first one ([`CLASSES_OF_FIRST_SLABS`], [`SMALL_CLASSES_OF_FIRST_SLABS`]), can get
    /// ([`SLABS_OF_ALL_LOG2`]), or in a burst those of the class ([`SLABS_OF_BURST_LOG2`]), or those that outgrow theirs
    /// ([`Hints::outgrown_order`]). At least the usual one, and larger for a stripe that was refilled often
    /// ([`REFILLS_TO_GROW`]), as long as others can get [`SLABS_OF_CLASS`]: all stripes of the class, and where pages are not plentiful a part of all stripes
    /// that have slabs.
    fn wished_order(&self, before: Ticket, hints: &Hints) -> u32 {
        let info = hints.info;
        let class = before.class();
        let stripes = self.stripes_of(class).count;
        let drawing = if hints.burst {
            stripes
        } else if hints.is_first_of_many(before) {
            let classes = if hints.is_class_small {
                SMALL_CLASSES_OF_FIRST_SLABS
            } else {
                CLASSES_OF_FIRST_SLABS
            };
            hints.installed.max(stripes * classes)
        } else {
            hints.installed.max(stripes)
        };
        let share = if hints.outgrown {
            hints.outgrown_order(drawing)
        } else {
            let each_log2 = if hints.burst {
                SLABS_OF_BURST_LOG2
            } else {
                SLABS_OF_ALL_LOG2
            };
            log2(hints.free).saturating_sub(log2(drawing) + each_log2)
        };
        let mut order = hints.wanted_order().min(share);
        if before.has_slab() {
            let others = if hints.are_pages_plentiful() {
                stripes
            } else {
                stripes.max(drawing >> PART_OF_ALL_LOG2)
            };
            let affordable = log2(hints.free).saturating_sub(log2(SLABS_OF_CLASS * others));
            let slots = layout::slots(u32::from(self.page_shift), class, before.order());
            let is_soon_used_up = slots < enough_slots(before);
            // Not by turns: what a launch does again and again must not keep in step with it.
            let by_chance = || self.random_below(REFILLS_TO_GROW, hints.epoch) == 0;
            let grows = hints.outgrown
                || if hints.is_heap_young() {
                    is_soon_used_up || hints.old.came_back && by_chance()
                } else {
                    hints.are_pages_plentiful() || hints.is_class_small || by_chance()
                };
            // Who needs more within a launch than a slab has comes to its end in each launch.
            let most = if hints.outgrown {
                affordable.max(share)
            } else {
                affordable
            };
            order = order.max((before.order() + u32::from(grows)).min(most));
        }
        // Not `clamp`, which may panic.
        order.max(info.usual_order).min(info.largest_order)
    }

    /// Whether a stripe of a young heap, or one of which a burst wants units, should get a larger slab, rather than its own `again` or another one: because blocks come
    /// back while it draws, or because it came to the end of its slab again and again. From four times of what lives at once on its own can always be
    /// offered again, which is the cheapest refill, or is rewound; and the larger it is, the fewer refills there are.
    pub(crate) fn is_outgrown(
        &self,
        before: Ticket,
        glance: Glance,
        again: Ticket,
        hints: &Hints,
    ) -> bool {
        let is_used_up = again.left() <= 0;
        let is_small = glance.slots < hints.lasting;
        let wants_more = if glance.came_back() {
            is_used_up || is_small
        } else {
            is_used_up && is_small && before.has_slab() && is_of_many(before)
        };
        wants_more && self.may_grow(before.class(), before.order(), hints)
    }

    /// Whether a stripe of a class that has a slab of an order may get a larger one when that is used up.
    fn may_grow(&self, class: u32, order: u32, hints: &Hints) -> bool {
        let stripes = self.stripes_of(class).count;
        let largest = hints.outgrown_order(stripes);
        (hints.is_heap_young() || hints.burst) && order < largest.min(hints.info.largest_order)
    }

    /// Whether a stripe whose word was `before` keeps a slab that it gets now.
    pub(crate) fn keeps(&self, slab: Slab, before: Ticket, hints: &Hints) -> bool {
        let (class, order) = (slab.class(), slab.order());
        // If it looked for a larger one in vain it keeps what it has.
        let found_none = hints.outgrown && order <= before.order();
        self.slots(slab) >= hints.lasting || found_none || !self.may_grow(class, order, hints)
    }

    /// Where in the pages to begin to look for a slab of a class: the searchers of all stripes spread over as many
    /// pages as they need in all.
    fn scatter(&self, class: u32, order: u32, hints: &Hints) -> u32 {
        let pages = self.scatter_pages(class, order, hints);
        if hints.burst && hints.are_pages_plentiful() {
            // Each stripe of the class elsewhere, as evenly as can be: all of them refill at the same time.
            let stripes = self.stripes_of(class);
            let turn = stripes.of(class * CLASS_TURN);
            let place = stripes.after(stripes.of(thread::block_number()), turn);
            let offset = place.wrapping_mul(pages >> order);
            // Not `/`, which may panic.
            return offset.checked_div(stripes.count).unwrap_or(0) << order;
        }
        // Elsewhere each time where the heap is not young: what is near may be small pieces for ever. Anywhere for bursts, and where pages are scarce;
        // before that small slabs are kept together, so that there is room for large ones.
        let turn = if hints.is_heap_young() {
            0
        } else {
            hints.epoch
        };
        let pages = if hints.burst || hints.are_pages_scarce() {
            hints.admitted
        } else {
            pages.min(hints.admitted)
        };
        // Not the upper bits of the product first: by these it may have been decided that a slab grows.
        let place = turn.wrapping_add(self.place()).wrapping_mul(GOLDEN);
        let place = place.rotate_left(8) ^ class.wrapping_mul(0x85eb_ca6b);
        // Where a block of the order begins.
        share_of(place, pages) >> order << order
    }

    /// Where the first slab of the stripe that the calling thread's block draws from should lie, of a heap of `admitted` pages: each stripe of each class has a place of its own, if there is room, since in a launch
    /// of many sizes that is the first in its heap all stripes look for one at the same time. (In a small launch few do. Their slabs are kept together, so that the largest block that fits stays large.) Classes of larger slots, of which slabs have as many pages or more, come later, as long as they have as many stripes,
    /// so what is one's place is seldom part of another's (behind the small classes, whose slabs may have more pages, some are, in launches that want much of each of these: who comes second finds another near); and the places of a class follow one another, so that what one launch allocates lies together.
    fn first_place(&self, class: u32, order: u32, admitted: u32) -> u32 {
        let stripes = self.stripes_of(class);
        let places = admitted >> order;
        let after_all = places.saturating_sub(stripes.count) + 1;
        // Not `%`, which may panic.
        let first = (class * stripes.count).checked_rem(after_all).unwrap_or(0);
        let place = first + stripes.of(thread::block_number());
        place.checked_rem(places).unwrap_or(0) << order
    }

    /// Over how many pages to scatter: a block for each stripe that has a slab, or for each that the grid's
    /// blocks may draw from at once.
    fn scatter_pages(&self, class: u32, order: u32, hints: &Hints) -> u32 {
        let begun = thread::grid_dim().min(self.stripes_of(class).count);
        hints.installed.max(begun) << order
    }

    /// A number below `end` that looks random.
    pub(crate) fn at_random(&self, end: u32) -> u32 {
        self.random_below(end, self.free_pages().count_and_epoch().1)
    }

    /// A number below `end` that looks random, from one that always changes.
    fn random_below(&self, end: u32, changing: u32) -> u32 {
        let place = changing.wrapping_add(self.place()).wrapping_mul(GOLDEN);
        share_of(place, end)
    }

    fn make_slab(&self, page: u32, class: u32, order: u32) -> Search {
        let slab = Slab::new(page, class, order);
        self.found_slab(slab);
        Search::of_pages(slab)
    }
}

/// The least order of a slab of free pages that will do for a stripe that wishes for `order`; see `Core::make_at_hand`.
fn least_order(before: Ticket, order: u32, hints: &Hints, first: bool) -> u32 {
    let usual = hints.info.usual_order;
    let is_any_welcome = if hints.outgrown {
        // Another slab of the same size is no gain, unless the stripe needs one.
        !hints.old.may_stay
    } else {
        hints.are_pages_scarce() && !first
    };
    if hints.outgrown && hints.is_heap_young() {
        order
    } else if is_any_welcome {
        usual
    } else if hints.outgrown {
        order.min(before.order() + 1)
    } else {
        order.saturating_sub(LESS_LOG2).max(usual)
    }
}

/// A number of the calling warp that no other of its grid has, as far as its blocks have one dimension. A hint.
pub(crate) fn warp_number() -> u32 {
    let before = thread::block_number().wrapping_mul(MOST_WARPS_OF_BLOCK);
    before.wrapping_add(thread::thread_index() / warp::LANES)
}

/// `place / 2^32 * length`: the upper half of the product.
pub(crate) fn share_of(place: u32, length: u32) -> u32 {
    ((u64::from(place) * u64::from(length)) >> 32) as u32
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::class::class_of;
    use crate::simulated::host_heap::HostHeap;
    use simt::emulation::{Position, set_position};
    use std::collections::HashSet;

    /// Stripes of a class.
    const STRIPES: u32 = 132;

    /// Where the first slabs of a class's stripes should lie, if they have an order.
    fn first_places(core: &Core, class: u32, order: u32) -> Vec<u32> {
        let place = |block_index| {
            set_position(Position {
                block_index,
                ..Position::default()
            });
            core.first_place(class, order, core.admitted_hint())
        };
        let places = (0..STRIPES).map(place).collect();
        set_position(Position::default());
        places
    }

    #[test]
    fn first_slabs_of_usual_orders_have_places_of_their_own() {
        let host = HostHeap::new(16 << 30, STRIPES, 0);
        let core = host.heap().core();
        let mut pages = HashSet::new();
        for class in 0..=class_of(8192) {
            let order = core.class_info(class).usual_order;
            for first in first_places(core, class, order) {
                let slab = first..first + (1 << order);
                assert!(slab.end <= core.admitted_hint(), "class {class}: {slab:?}");
                for page in slab {
                    assert!(pages.insert(page), "class {class}: page {page} twice");
                }
            }
        }
    }

    #[test]
    fn first_slabs_of_all_stripes_leave_most_of_a_heap() {
        let host = HostHeap::new(16 << 30, STRIPES, 0);
        let core = host.heap().core();
        let warps = 90_000;
        set_position(Position {
            block_dim: warp::LANES,
            grid_dim: warps,
            ..Position::default()
        });
        let (mut wished, mut of_small, mut wanted) = (0, 0, 0);
        let mut orders = Vec::new();
        for class in 0..=class_of(8192) {
            let before = Ticket::empty(class);
            // None has a slab yet, and some lanes of each warp want one.
            let hints = core.hints(class, before).for_group_of(before, 5);
            assert!(!hints.burst);
            let stripes = core.stripes_of(class).count;
            let order = core.wished_order(before, &hints);
            wished += stripes << order;
            if hints.is_class_small {
                of_small += stripes << order;
            }
            orders.push(order);
            wanted += stripes << hints.wanted_order();
        }
        set_position(Position::default());
        let all = core.admitted_hint();
        let of_others = wished - of_small;
        assert!(
            wanted > all && wished <= all / 3 && of_others <= all / 8,
            "{of_small} and {of_others} of {all} pages"
        );
        // Those of small classes, which want less, may have more of it.
        let [small, other] = [512, 2048].map(|bytes| orders[class_of(bytes) as usize]);
        assert!(small > other, "{orders:?}");
    }

    #[test]
    fn first_slabs_of_a_class_follow_one_another() {
        let host = HostHeap::new(16 << 30, STRIPES, 0);
        let core = host.heap().core();
        for class in 0..=class_of(8192) {
            for order in 0..=9 {
                let places = first_places(core, class, order);
                let is_next = |pair: &[u32]| pair[1] == pair[0] + (1 << order);
                assert!(places.windows(2).all(is_next), "class {class}: {places:?}");
                assert!(
                    places[0].is_multiple_of(1 << order),
                    "class {class}: {places:?}"
                );
            }
        }
    }

    #[test]
    fn places_lie_among_the_pages_that_a_damaged_word_tells() {
        let host = HostHeap::new(16 << 30, STRIPES, 0);
        let core = host.heap().core();
        for admitted in [0, 1, 63, 1 << 17, u32::MAX] {
            for class in [0, class_of(4096), core.layout().class_count - 1] {
                for order in 0..=15 {
                    let place = core.first_place(class, order, admitted);
                    assert!(place < admitted.max(1), "{place} of {admitted} pages");
                }
            }
        }
    }

    #[test]
    fn places_lie_in_heaps_that_have_none_for_all() {
        let host = HostHeap::new(64 << 20, STRIPES, 0);
        let core = host.heap().core();
        let pages = core.admitted_hint();
        for class in [0, class_of(4096)] {
            for order in 0..=pages.ilog2() {
                let places = first_places(core, class, order);
                let are_inside = places.iter().all(|page| page + (1 << order) <= pages);
                assert!(are_inside, "class {class}: {places:?}");
            }
            // Where there is no place at all searches begin at the first page.
            let places = first_places(core, class, pages.ilog2() + 1);
            assert!(places.iter().all(|page| *page == 0), "{places:?}");
        }
    }
}
