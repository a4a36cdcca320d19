//! Damaged metadata: what a stray write, or a broken chip, may have made of them.
//!
//! What comes from metadata is compared with the heap's bounds before it is used, so that damage
//! leads to NULL, to a refused free or to blocks that overlap, but not out of the heap, and not
//! into a search that never ends. What is noticed is counted as [`Failure::Damaged`].

use crate::counters::Failure;
use crate::entry::{Entry, Kind};
use crate::heap::Core;
use crate::layout::Layout;
use crate::slab::{Slab, USE};

/// Binary logarithm of how often a request searches in vain before it concludes that the heap is
/// damaged.
///
/// A request searches again while others are between two steps of their own, or memory moved; or after it drew units without a slot, of which a stripe has 2^15 at most (as a rule they are left after a few draws, see `vain`). A
/// GPU has fewer than 2^19 lanes at once. For each of a request's 2^24 searches in a healthy heap one of
/// them would have had to take what the request was after, or to rest in the middle of a step
/// through them all: at least seconds. (A look at blocks on their way out of the quarantine counts as a search: with the nap after it that is longer.)
pub const ATTEMPTS_LOG2: u8 = 24;

/// Searches in vain after which a request concludes the same, if its class has found damage before.
const FEW_ATTEMPTS: u32 = 1 << 12;

impl Core {
    /// Whether a slab that the metadata tell of lies in the heap and has slots.
    pub(crate) fn is_plausible(&self, slab: Slab) -> bool {
        self.plausible_slots(slab) > 0
    }

    /// Slots of a slab that the metadata tell of; none if it does not lie in the heap, or has more than can be counted.
    pub(crate) fn plausible_slots(&self, slab: Slab) -> u32 {
        let layout = self.layout();
        let is_inside = slab.order() <= layout.max_order
            && slab.page() & (slab.pages() - 1) == 0
            && slab.page() + slab.pages() <= layout.page_count
            && slab.class() < layout.class_count;
        let slots = if is_inside { self.slots(slab) } else { 0 };
        // Only of a damaged order. The units of a stripe would wrap around.
        if slots <= USE / 2 { slots } else { 0 }
    }

    /// Counts metadata that cannot be, come upon for a request of a class, or at the class count for a
    /// run or a free.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_damage(&self, class: u32) {
        self.counters(class).count_failures(Failure::Damaged, 1);
    }

    /// Whether a request of a class (of a run, at the class count) that has searched `vain` times
    /// must conclude that it would search for ever. Soon where damage was found before: then waiting long
    /// again is not worth it.
    pub(crate) fn gives_up(&self, class: u32, vain: u32) -> bool {
        vain >= 1_u32.wrapping_shl(self.attempts_log2().into())
            || (vain >= FEW_ATTEMPTS && self.counters(class).has_failed(Failure::Damaged))
    }

    /// Whether the entry of the page of an address in the heap is none that the allocator writes.
    pub(crate) fn is_entry_damaged(&self, address: u64) -> bool {
        let Some((page, entry)) = self.look_up(address) else {
            return false;
        };
        match entry.kind() {
            Kind::Slab => {
                let (class, order) = (entry.class(), entry.order());
                let slab = Slab::new(entry.head(page), class, order);
                !self.is_plausible(slab) || entry != Entry::slab(class, order).marked(self.mark())
            }
            Kind::Run => !self.is_run(page, entry),
            Kind::Blank => entry != Entry::BLANK,
        }
    }

    /// Whether an entry of a page is that of a run inside the heap.
    pub(crate) fn is_run(&self, page: u32, entry: Entry) -> bool {
        let pages = entry.run_pages();
        entry == Entry::run(pages).marked(self.mark())
            && pages != 0
            && pages <= self.layout().page_count - page
    }
}

/// [`Core::plausible_slots`] for who has read the layout, and waits for all of it at once: without a branch. (Where others ask it like this, lanes that replace
/// blocks in an aged heap are 7 % slower: `docs/experiments.md`.)
#[inline(always)]
pub(crate) fn plausible_slots(layout: &Layout, slab: Slab) -> u32 {
    // Not `&&`, nor the slots only of what lies inside.
    let is_inside = (slab.order() <= layout.max_order)
        & (slab.page() & (slab.pages() - 1) == 0)
        & (slab.page() + slab.pages() <= layout.page_count)
        & (slab.class() < layout.class_count);
    let slots = layout.slots(slab.class(), slab.order());
    // More only of a damaged order. The units of a stripe would wrap around.
    if is_inside && slots <= USE / 2 {
        slots
    } else {
        0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::layout::{Layout, MAX_CAPACITY, MIN_CAPACITY};

    #[test]
    fn slabs_that_heaps_have_are_plausible_and_those_whose_units_would_wrap_are_not() {
        for capacity in [MIN_CAPACITY, 1 << 30, 16 << 30, 128 << 30, MAX_CAPACITY] {
            let layout = Layout::new(capacity, 132).expect("in bounds");
            // Nothing is read but the shape.
            let core = Core::new(layout, 1 << 40, 1 << 41, 0);
            for class in 0..layout.class_count {
                let info = layout.class_info(class);
                for order in info.least_order..=info.largest_order {
                    assert!(
                        core.is_plausible(Slab::new(0, class, order)),
                        "{capacity} {class} {order}"
                    );
                }
            }
            let largest = Slab::new(0, 0, layout.max_order);
            assert!(core.plausible_slots(largest) <= USE / 2, "{capacity}");
        }
    }

    #[test]
    fn with_or_without_branches_the_same_is_plausible() {
        for capacity in [MIN_CAPACITY, 1 << 30, 16 << 30, MAX_CAPACITY] {
            let layout = Layout::new(capacity, 132).expect("in bounds");
            let core = Core::new(layout, 1 << 40, 1 << 41, 0);
            let mut plausible = 0;
            let pages = [0, 1, 2, 6, 64, layout.page_count - 1, layout.page_count];
            for (page, class) in pages
                .into_iter()
                .flat_map(|page| (0..256).map(move |class| (page, class)))
            {
                for order in 0..16 {
                    let slab = Slab::new(page, class, order);
                    let slots = core.plausible_slots(slab);
                    assert_eq!(plausible_slots(&layout, slab), slots, "{slab:?}");
                    plausible += u32::from(slots > 0);
                }
            }
            assert!(plausible > 0, "{capacity}");
        }
    }
}
