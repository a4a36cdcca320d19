//! How a heap of a given capacity is laid out: page size, classes, stripes, and where each array
//! of the metadata begins.
//!
//! The number of pages is bounded ([`MAX_PAGES`]), so the page size follows the capacity and
//! everything that is kept per page has a bounded size; only the slots' bitmap, one bit for each
//! 16 bytes, grows with the heap.

use crate::class::{self, MAX_CLASSES};
use crate::counters::ClassCounters;
use crate::entry::PageEntry;
use crate::heap::Globals;
use crate::page_set::{SetState, WORD_PAGES};
use crate::slab::SlabState;
use crate::stripe::{ChurnNote, ROW_WORDS, Stripe};
use bytemuck::{Pod, Zeroable};
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64};

/// Pages of a heap at most.
pub const MAX_PAGES: u32 = 1 << 17;
/// Smallest page size in bytes.
pub const MIN_PAGE_BYTES: u64 = 1 << 10;
/// Smallest capacity in bytes.
pub const MIN_CAPACITY: u64 = 16 * MIN_PAGE_BYTES;
/// Largest capacity in bytes (1 TiB: words of the slots' bitmap are counted in 32 bits).
pub const MAX_CAPACITY: u64 = 1 << 40;
/// Slabs have at most `2^MAX_ORDER` pages, in a heap of 2 GiB or more half as many.
pub const MAX_ORDER: u32 = 10;
/// But those that have [`MANY_SLOTS`] with fewer pages have at most `2^MANY_ORDER`.
const MANY_ORDER: u32 = 8;
/// More than one launch that fills a GPU takes of a stripe, so that the slab can be rewound between such launches.
const MANY_SLOTS: u64 = 1 << 14;
/// A heap of fewer bytes is small. (Under exploration heaps are tiny, and like large ones.)
const SMALL_CAPACITY: u64 = if cfg!(any(loom, shuttle)) { 0 } else { 2 << 30 };
/// Stripes of a class at most.
pub const MAX_STRIPES: u32 = 255;
/// The same in a small heap, where what stripes hold is soon missed. (With 48 a launch may want three eighths of 1 GiB in blocks of one size before it comes to
/// the end of the largest slabs; with more of them the heap fills less.)
const FEW_STRIPES: u32 = 48;
/// Slots of the largest size in a slab of `2^MANY_ORDER` pages.
const FEWEST_SLOTS: u64 = 8;
/// Slots that a slab has at least, where the heap is large enough.
const WISHED_SLOTS: u64 = 8;
/// If more than this part of such a slab is left over behind its last slot, the usual one is twice as large.
const LEFT_OVER_SHARE: u64 = 24;
/// Slots of a slab at most, where a page does not have more.
pub const MAX_SLOTS: u64 = 1 << 16;
/// Each array begins at a multiple of this, the size of two L2 lines.
const ARRAY_ALIGNMENT: u64 = 256;

/// Pages of so many bytes (binary logarithm) have their slabs' words 64 bytes apart, and not 32: that is a 500th of a heap of 2 GiB.
const SPACED_PAGE_SHIFT: u32 = 14;

/// The slabs of [`WISHED_SLOTS`] of all stripes of a class take at most this share of the heap.
#[cfg(not(any(loom, shuttle)))]
const STRIPES_SHARE: u64 = 1024;
/// Under exploration the tiny heaps have several stripes too.
#[cfg(any(loom, shuttle))]
const STRIPES_SHARE: u64 = 4;

/// How many stripes each eight classes use, in three bits each: all of them, or fewer, as a binary logarithm.
/// The first two eights, which are one octave, have the same. For the 22nd, which only heaps above 512 GiB have, there is one bit; it is 0, because
/// eight of its slots are more than the share of the heap that stripes may take.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct StripeTable(u64);

impl StripeTable {
    /// Stands for all stripes. Where there are fewer, there are 64 at most.
    const ALL: u32 = 7;

    /// Stripes of a class in use, of `all` that some classes use.
    #[inline(always)]
    #[must_use]
    pub const fn count(self, class: u32, all: u32) -> u32 {
        match self.log2(class) {
            Some(log2) => 1 << log2,
            None => all,
        }
    }

    /// Binary logarithm of the stripes of a class in use, if these are not all that some classes use.
    #[inline(always)]
    #[must_use]
    pub const fn log2(self, class: u32) -> Option<u32> {
        // Not `octave`, which takes an instruction more. A damaged entry may have any class.
        let log2 = (self.0.wrapping_shr(3 * (class / class::OCTAVE)) & 7) as u32;
        if log2 == Self::ALL { None } else { Some(log2) }
    }
}

/// Slots of a slab of `2^order` pages of `2^page_shift` bytes; any number for a slab that no heap has.
#[inline(always)]
#[must_use]
pub const fn slots(page_shift: u32, class: u32, order: u32) -> u32 {
    // In units of 8 bytes both fit 32 bits: slabs are at most 2 GiB.
    let slab = 1_u32.wrapping_shl(page_shift + order - 3);
    let slot = class::slot_bytes(class) >> 3;
    match slab.checked_div(slot) {
        Some(slots) => slots,
        None => 0,
    }
}

/// Shape of a heap. Plain old data, computed alike by the host and the device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Layout {
    /// Bytes that can be allocated: pages times page size.
    pub capacity: u64,
    /// Binary logarithm of the page size in bytes.
    pub page_shift: u32,
    /// Number of pages.
    pub page_count: u32,
    /// Number of size classes.
    pub class_count: u32,
    /// Largest slot in bytes; larger requests get runs of pages.
    pub largest_slot: u32,
    /// Stripes per class in the stripe array: no more than some class uses.
    pub stripes: u32,
    /// Largest order of a slab.
    pub max_order: u32,
    /// Offsets of the arrays from the metadata's first byte.
    pub offsets: Offsets,
    /// Size of the metadata in bytes.
    pub metadata_bytes: u64,
}

/// Offsets in bytes of the arrays of the metadata; the notes of rows ([`Layout::churn_notes`]) come behind them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Offsets {
    /// The globals that change: one [`Globals`].
    pub globals: u64,
    /// [`ClassInfo`] by class.
    pub classes: u64,
    /// [`ClassCounters`] by class; the last is for runs.
    pub counters: u64,
    /// What each page set counts: the free pages, then the listed slabs by class.
    pub set_states: u64,
    /// Summaries of the sets.
    pub set_summaries: u64,
    /// Words of the sets.
    pub set_words: u64,
    /// Stripes: [row](Layout::stripe_row) after row.
    pub stripes: u64,
    /// Entries by page.
    pub entries: u64,
    /// Slab states by [place](Layout::slab_place).
    pub slabs: u64,
    /// The slots' bitmap.
    pub slot_words: u64,
}

/// What a class is like in this heap; constant.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ClassInfo {
    /// Smallest order at which a slab has a slot at all.
    pub least_order: u32,
    /// Order that slabs have at least, while there are pages enough.
    pub usual_order: u32,
    /// Largest order of its slabs.
    pub largest_order: u32,
    /// Zero.
    pub padding: u32,
}

/// Why a heap cannot have the capacity asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Below [`MIN_CAPACITY`].
    TooSmall,
    /// Above [`MAX_CAPACITY`].
    TooLarge,
}

struct Cursor(u64);

impl Cursor {
    fn array<T>(&mut self, length: u64) -> u64 {
        let start = self.0.next_multiple_of(ARRAY_ALIGNMENT);
        self.0 = start + length * size_of::<T>() as u64;
        start
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "bounded by MAX_CAPACITY and MAX_PAGES"
)]
impl Layout {
    /// Lays out a heap of at least `capacity` bytes (rounded up to pages), scattered over at most
    /// `stripes` stripes a class, and over 48 at most if it is below 2 GiB: the number of streaming multiprocessors is a good choice.
    ///
    /// # Errors
    ///
    /// When the capacity is out of bounds.
    pub fn new(capacity: u64, stripes: u32) -> Result<Self, LayoutError> {
        if capacity < MIN_CAPACITY {
            return Err(LayoutError::TooSmall);
        }
        if capacity > MAX_CAPACITY {
            return Err(LayoutError::TooLarge);
        }
        let page_bytes = capacity
            .div_ceil(u64::from(MAX_PAGES))
            .next_power_of_two()
            .max(MIN_PAGE_BYTES);
        let page_count = capacity.div_ceil(page_bytes) as u32;
        // A slab is at most a 64th of the heap, and has at most 2 GiB: offsets in it have 32 bits.
        let fitting = (page_count / 64).max(1).ilog2();
        let is_small = is_small(u64::from(page_count) * page_bytes);
        let most_order = MAX_ORDER - u32::from(!is_small);
        let max_order = fitting.min(most_order).min(31 - page_bytes.ilog2());
        let largest_slot =
            ((page_bytes << max_order.min(MANY_ORDER)) / FEWEST_SLOTS).max(128) as u32;
        let class_count = class::class_of(largest_slot) + 1;
        debug_assert!(class_count <= MAX_CLASSES);
        let mut layout = Self {
            capacity: u64::from(page_count) * page_bytes,
            page_shift: page_bytes.ilog2(),
            page_count,
            class_count,
            largest_slot,
            stripes: stripes.clamp(1, if is_small { FEW_STRIPES } else { MAX_STRIPES }),
            max_order,
            offsets: Offsets::zeroed(),
            metadata_bytes: 0,
        };
        layout.stripes = (0..class_count)
            .map(|class| layout.stripe_count(class))
            .fold(1, u32::max);
        layout.place_arrays();
        Ok(layout)
    }

    fn place_arrays(&mut self) {
        let classes = u64::from(self.class_count);
        let pages = u64::from(self.page_count);
        let sets = u64::from(self.set_count());
        // The core comes first.
        let mut cursor = Cursor(size_of::<crate::Core>() as u64);
        self.offsets = Offsets {
            globals: cursor.array::<Globals>(1),
            classes: cursor.array::<ClassInfo>(classes),
            counters: cursor.array::<ClassCounters>(classes + 1),
            set_states: cursor.array::<SetState>(sets),
            set_summaries: cursor.array::<DeviceAtomicU64>(sets * u64::from(self.summary_words())),
            set_words: cursor.array::<DeviceAtomicU64>(sets * u64::from(self.set_words())),
            stripes: cursor.array::<Stripe>(self.stripe_words().into()),
            entries: cursor.array::<PageEntry>(pages),
            slabs: cursor.array::<SlabState>(self.slab_places()),
            slot_words: cursor.array::<DeviceAtomicU32>(self.slot_word_count()),
        };
        let notes = cursor.array::<ChurnNote>(self.stripes.into());
        debug_assert_eq!(notes, self.churn_notes());
        self.metadata_bytes = cursor.0.next_multiple_of(ARRAY_ALIGNMENT);
    }

    /// Page size in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    /// Words of each page set.
    #[must_use]
    pub fn set_words(&self) -> u32 {
        self.page_count.div_ceil(WORD_PAGES)
    }

    /// Summary words of each page set.
    #[must_use]
    pub fn summary_words(&self) -> u32 {
        self.set_words().div_ceil(WORD_PAGES)
    }

    /// Page sets: the free pages, and the listed slabs of each class.
    #[must_use]
    pub fn set_count(&self) -> u32 {
        1 + self.class_count
    }

    /// Words of the slots' bitmap.
    #[must_use]
    pub fn slot_word_count(&self) -> u64 {
        slot_word_count(self.capacity)
    }

    /// Slots of a slab of `2^order` pages.
    #[must_use]
    pub fn slots(&self, class: u32, order: u32) -> u32 {
        slots(self.page_shift, class, order)
    }

    /// What class `class` is like in this heap.
    #[must_use]
    pub fn class_info(&self, class: u32) -> ClassInfo {
        let slot = u64::from(class::slot_bytes(class));
        let order_for = |slots: u64| {
            (slot * slots)
                .div_ceil(self.page_bytes())
                .next_power_of_two()
                .ilog2()
                .min(self.max_order)
        };
        let many_slots = MANY_SLOTS << u32::from(is_small(self.capacity));
        let most_order = order_for(many_slots).max(MANY_ORDER.min(self.max_order));
        let wished_order = order_for(WISHED_SLOTS);
        let wished = self.page_bytes() << wished_order;
        let is_much_left = wished % slot > wished / LEFT_OVER_SHARE;
        let usual_order = (wished_order + u32::from(is_much_left)).min(most_order);
        let largest_order = (MAX_SLOTS * slot / self.page_bytes())
            .max(1)
            .ilog2()
            .clamp(usual_order, most_order);
        ClassInfo {
            least_order: order_for(1),
            usual_order,
            largest_order,
            padding: 0,
        }
    }

    /// Stripes of all classes: as many as the heap has, if as many as the power of two below, in a small heap the one above, have slabs that fit the
    /// share of the heap that they may take.
    #[must_use]
    pub fn stripe_table(&self) -> StripeTable {
        let budget_log2 = (self.capacity / STRIPES_SHARE).max(1).ilog2();
        let all_log2 = if is_small(self.capacity) {
            self.stripes.next_power_of_two().ilog2()
        } else {
            self.stripes.ilog2()
        };
        let mut table = 0;
        for place in 0..=(self.class_count - 1) / class::OCTAVE {
            let octave = place.max(1);
            let slots_log2 = class::slot_log2(octave * class::OCTAVE) + WISHED_SLOTS.ilog2();
            let fitting = budget_log2.saturating_sub(slots_log2.max(self.page_shift));
            // The last field can say 0 alone.
            let log2 = if self.stripes == 1 {
                0
            } else if fitting < all_log2 {
                fitting
            } else {
                StripeTable::ALL
            };
            table |= u64::from(log2) << (3 * place);
        }
        StripeTable(table)
    }

    /// Largest slot of a class that has all stripes, in bytes. All smaller classes have them too.
    #[must_use]
    pub fn fast_limit(&self) -> u32 {
        (0..self.class_count)
            .take_while(|class| self.stripe_count(*class) == self.stripes)
            .map(class::slot_bytes)
            .last()
            .unwrap_or(0)
    }

    /// What of a page's slab changes lies at a [place](Self::slab_place) that is the page's number shifted by so much: every other one where that costs hardly anything.
    ///
    /// What a launch frees changes the uses of one slab of each stripe and class, which begin at pages side by side if they have a page or two each: the closer these words lie, the fewer slices of L2
    /// all changes wait for (measured in `docs/experiments.md`, as of [entries](crate::entry::PageEntry)).
    #[must_use]
    pub fn slab_shift(&self) -> u32 {
        u32::from(self.page_shift >= SPACED_PAGE_SHIFT)
    }

    /// Place of what changes of the slab that begins at a page.
    #[must_use]
    pub fn slab_place(&self, page: u32) -> u32 {
        page << self.slab_shift()
    }

    /// Places of all pages' slabs.
    #[must_use]
    pub fn slab_places(&self) -> u64 {
        u64::from(self.page_count) << self.slab_shift()
    }

    /// Words of a row of stripes, which has one of each class: up to whole cache lines. Those beyond the last class are
    /// those of no stripe.
    #[must_use]
    pub fn stripe_row(&self) -> u32 {
        self.class_count.next_multiple_of(ROW_WORDS)
    }

    /// Offset in bytes of the [notes](ChurnNote) of the rows from the metadata's first byte: behind all else.
    #[must_use]
    pub fn churn_notes(&self) -> u64 {
        after_slot_words(self.offsets.slot_words, self.capacity)
    }

    /// Words of all rows.
    #[must_use]
    pub fn stripe_words(&self) -> u32 {
        self.stripes * self.stripe_row()
    }

    /// Place of stripe `index` of a class among these.
    #[must_use]
    pub fn stripe_place(&self, class: u32, index: u32) -> u32 {
        index * self.stripe_row() + class
    }

    /// Class and index of the stripe at a place, if there is one.
    #[must_use]
    pub fn stripe_at(&self, place: u32) -> Option<(u32, u32)> {
        // Not `/` and `%`, which may panic.
        let index = place.checked_div(self.stripe_row())?;
        let class = place - self.stripe_place(0, index);
        (class < self.class_count && index < self.stripes).then_some((class, index))
    }

    /// Stripes of a class in use.
    #[must_use]
    pub fn stripe_count(&self, class: u32) -> u32 {
        self.stripe_table().count(class, self.stripes)
    }
}

/// Words of the slots' bitmap of a heap of a capacity in bytes: a bit for each 16.
#[inline(always)]
const fn slot_word_count(capacity: u64) -> u64 {
    capacity / 16 / 32
}

/// Where the array begins that follows the slots' bitmap of a heap of a capacity in bytes, which begins at `slot_words`.
#[inline(always)]
pub(crate) fn after_slot_words(slot_words: u64, capacity: u64) -> u64 {
    // As many words as [`slot_word_count`] says, 4 bytes each, or more where they are explored; but in one shift of the capacity, a multiple of 512.
    // (And not `next_multiple_of`, which may panic.)
    let bytes = capacity / 128 * (size_of::<DeviceAtomicU32>() as u64 / 4);
    (slot_words + bytes + ARRAY_ALIGNMENT - 1) & !(ARRAY_ALIGNMENT - 1)
}

/// Whether a heap of a capacity, in bytes, is small: then it has fewer stripes, which hold less, but may have larger slabs instead, and no places for first slabs.
pub(crate) const fn is_small(capacity: u64) -> bool {
    capacity < SMALL_CAPACITY
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::PUNCHED;

    #[test]
    fn capacities_keep_their_promises() {
        for capacity in [
            MIN_CAPACITY,
            1 << 20,
            (1 << 20) + 1,
            1 << 26,
            1 << 30,
            (2 << 30) - 1,
            2 << 30,
            16 << 30,
            100 << 30,
            141 << 30,
            MAX_CAPACITY,
        ] {
            let layout = Layout::new(capacity, 132).expect("in bounds");
            assert!(layout.capacity >= capacity && layout.page_count <= MAX_PAGES);
            assert!(layout.capacity - capacity < layout.page_bytes());
            assert!(layout.class_count <= MAX_CLASSES);
            assert!(layout.page_bytes() << layout.max_order <= 1 << 31);
            assert_eq!(
                class::slot_bytes(layout.class_count - 1),
                layout.largest_slot
            );
            assert!(layout.stripes <= MAX_STRIPES);
            assert_eq!(Layout::new(capacity, layout.stripes), Ok(layout));
            for stripes in [1, 2, 3, 64, 100, 255] {
                let layout = Layout::new(capacity, stripes).expect("in bounds");
                assert!((1..=stripes).contains(&layout.stripes));
                assert_eq!(Layout::new(capacity, layout.stripes), Ok(layout));
            }
            for class in 0..layout.class_count {
                let info = layout.class_info(class);
                assert!(info.least_order <= info.usual_order);
                assert!(info.usual_order <= info.largest_order);
                assert!(layout.slots(class, info.least_order) >= 1);
                assert!(layout.slots(class, info.largest_order) < PUNCHED / 2);
                let first_of_octave = class::octave(class) * class::OCTAVE;
                let stripes = layout.stripe_count(class);
                assert_eq!(stripes, layout.stripe_count(first_of_octave));
                assert!((1..=layout.stripes).contains(&stripes));
                assert!(class / class::OCTAVE < 21 || stripes == 1);
            }
        }
    }

    #[test]
    fn metadata_is_a_small_share_of_a_large_heap() {
        let layout = Layout::new(16 << 30, 132).expect("in bounds");
        assert!(layout.metadata_bytes < layout.capacity / 64);
    }

    #[test]
    fn out_of_bounds_is_refused() {
        assert_eq!(Layout::new(0, 1), Err(LayoutError::TooSmall));
        assert_eq!(Layout::new(u64::MAX, 1), Err(LayoutError::TooLarge));
    }
}
