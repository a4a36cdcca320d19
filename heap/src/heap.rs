//! A heap, and the head of its metadata: where everything is.
//!
//! The fast paths are methods of [`Heap`], which is small and travels by value. The slow paths are
//! methods of [`Core`], which never changes, so that the compiler may read it once.
//!
//! A heap is two pieces of device memory: *metadata*, which begins with this head, and the user's
//! pages. They lie apart, so that a stray write of a user cannot corrupt the allocator, and so
//! that the host can read the metadata alone. The head never changes while the heap lives; what
//! changes is in the arrays that it points to.

use crate::array::Array;
use crate::class;
use crate::counters::{ClassCounters, Failure, MISUSES, Misuse};
use crate::entry::{Entry, Kind};
use crate::layout::{ClassInfo, Layout, StripeTable};
use crate::page_set::{PageSet, Sets};
use crate::slab::{Slab, SlabState};
use crate::stripe::Stripe;
use bytemuck::{Pod, Zeroable};
use core::ops::Deref;
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering};
use simt::thread;

/// First word of every heap: "SCTRHEAP".
pub const MAGIC: u64 = u64::from_le_bytes(*b"SCTRHEAP");

/// Count the bytes asked for, by class.
pub const COUNT_BYTES: u8 = 1;

/// Binary logarithm of how often a request searches in vain before it concludes that the heap is
/// damaged.
///
/// A request searches again while others are between two steps of their own, or memory moved. A
/// GPU has fewer than 2^19 lanes at once. For each of a request's 2^24 searches in a healthy heap one of
/// them would have had to take what the request was after, or to rest in the middle of a step
/// through them all: at least seconds.
pub const ATTEMPTS_LOG2: u8 = 24;

/// Searches in vain after which a request concludes the same, if its class has found damage before.
const FEW_ATTEMPTS: u32 = 1 << 12;

/// A heap: what the fast paths need, small enough to travel by value.
///
/// Pass it to kernels as a part of their arguments: then its fields are read from constant
/// memory. Read through an address they come from global memory, where every acquire throws the
/// cached copy away and all threads of the chip ask for the same line again. Copies are the same
/// heap.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Heap {
    pub(crate) base: u64,
    pub(crate) capacity: u64,
    pub(crate) entries: Array<DeviceAtomicU64>,
    pub(crate) slabs: Array<SlabState>,
    pub(crate) slot_words: Array<DeviceAtomicU32>,
    pub(crate) stripes: Array<Stripe>,
    core: Array<Core>,
    stripe_table: StripeTable,
    pub(crate) largest_slot: u32,
    pub(crate) page_shift: u8,
    stripes_log2: u8,
    pub(crate) flags: u8,
    attempts_log2: u8,
}

/// The head of the metadata: the heap itself, and what only the slow paths and the host need.
#[repr(C, align(256))]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Core {
    heap: Heap,
    magic: u64,
    globals: Array<Globals>,
    counters: Array<ClassCounters>,
    sets: Sets,
    classes: Array<ClassInfo>,
    layout: Layout,
}

/// What changes and belongs to no class and no page.
#[repr(C)]
pub struct Globals {
    /// Stripes that have a slab.
    pub installed: Padded,
    /// Refused frees by [`Misuse`].
    pub misuses: [DeviceAtomicU64; MISUSES],
    /// The first refused address of each kind.
    pub first_misused: [DeviceAtomicU64; MISUSES],
}

/// A counter alone on its cache line.
#[repr(C, align(128))]
pub struct Padded(pub DeviceAtomicU32);

impl Globals {
    /// All zero.
    #[must_use]
    pub fn zero() -> Self {
        Self {
            installed: Padded(DeviceAtomicU32::new(0)),
            misuses: core::array::from_fn(|_| DeviceAtomicU64::new(0)),
            first_misused: core::array::from_fn(|_| DeviceAtomicU64::new(0)),
        }
    }
}

impl Core {
    /// The head of a heap of shape `layout` whose metadata is to begin at address `metadata` and
    /// whose pages begin at address `base`. `flags` is 0 or [`COUNT_BYTES`].
    #[must_use]
    pub fn new(layout: Layout, metadata: u64, base: u64, flags: u8) -> Self {
        let at = |offset| metadata + offset;
        Self {
            heap: Heap {
                base,
                capacity: layout.capacity,
                entries: Array::new(at(layout.offsets.entries)),
                slabs: Array::new(at(layout.offsets.slabs)),
                slot_words: Array::new(at(layout.offsets.slot_words)),
                stripes: Array::new(at(layout.offsets.stripes)),
                core: Array::new(metadata),
                stripe_table: layout.stripe_table(),
                largest_slot: layout.largest_slot,
                page_shift: byte(layout.page_shift),
                stripes_log2: byte(layout.stripes.ilog2()),
                flags,
                attempts_log2: ATTEMPTS_LOG2,
            },
            magic: MAGIC,
            globals: Array::new(at(layout.offsets.globals)),
            counters: Array::new(at(layout.offsets.counters)),
            sets: Sets {
                states: Array::new(at(layout.offsets.set_states)),
                summaries: Array::new(at(layout.offsets.set_summaries)),
                words: Array::new(at(layout.offsets.set_words)),
                word_count: layout.set_words(),
                summary_count: layout.summary_words(),
            },
            classes: Array::new(at(layout.offsets.classes)),
            layout,
        }
    }

    /// The same head, but requests give up after `2^attempts_log2` searches in vain (at most 2^31),
    /// see [`ATTEMPTS_LOG2`]. For tests of damaged heaps: in a healthy heap too few give NULL for
    /// contention.
    #[must_use]
    pub fn with_attempts_log2(mut self, attempts_log2: u8) -> Self {
        self.heap.attempts_log2 = attempts_log2;
        self
    }

    /// The heap.
    #[must_use]
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Whether the head is one of ours.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.magic == MAGIC
    }

    /// Shape of the heap.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn globals(&self) -> &Globals {
        // SAFETY: the arrays of a heap are initialised and live as long as it does.
        unsafe { self.globals.get(0) }
    }

    pub(crate) fn counters(&self, class: u32) -> &ClassCounters {
        // The class of a damaged ticket is counted with the runs.
        // SAFETY: as for `core`; there is one more than there are classes.
        unsafe { self.counters.get(class.min(self.layout.class_count)) }
    }

    /// Counters of the requests for runs of pages.
    pub(crate) fn run_counters(&self) -> &ClassCounters {
        self.counters(self.layout.class_count)
    }

    /// What a class is like. A stray write may have made it wrong, but no order larger than a
    /// slab may have, nor one too small for a slot.
    pub(crate) fn class_info(&self, class: u32) -> ClassInfo {
        // SAFETY: as for `core`; every class below the count has one.
        let info = *unsafe { self.classes.get(class) };
        let most = self.layout.max_order;
        let least = class::slot_log2(class)
            .saturating_sub(self.layout.page_shift)
            .min(most);
        let in_bounds = |order: u32| order.max(least).min(most);
        ClassInfo {
            least_order: in_bounds(info.least_order),
            usual_order: in_bounds(info.usual_order),
            largest_order: in_bounds(info.largest_order),
            padding: 0,
        }
    }

    fn set(&self, index: u32) -> PageSet {
        // SAFETY: as for `core`.
        unsafe { self.sets.set(index) }.of_pages(self.layout.page_count)
    }

    /// The free pages.
    pub(crate) fn free_pages(&self) -> PageSet {
        self.set(0)
    }

    /// The listed slabs of a class, by their first pages.
    pub(crate) fn listed(&self, class: u32) -> PageSet {
        self.set(1 + class)
    }

    /// Whether a slab that the metadata tell of lies in the heap and has slots.
    pub(crate) fn is_plausible(&self, slab: Slab) -> bool {
        self.plausible_slots(slab) > 0
    }

    /// Slots of a slab that the metadata tell of; none if it does not lie in the heap.
    pub(crate) fn plausible_slots(&self, slab: Slab) -> u32 {
        let layout = &self.layout;
        let is_inside = slab.order() <= layout.max_order
            && slab.page() & (slab.pages() - 1) == 0
            && slab.page() + slab.pages() <= layout.page_count
            && slab.class() < layout.class_count;
        if is_inside { self.slots(slab) } else { 0 }
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
        vain >= 1_u32.wrapping_shl(self.heap.attempts_log2.into())
            || (vain >= FEW_ATTEMPTS && self.counters(class).has_failed(Failure::Damaged))
    }

    /// Counts refused frees.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_misuse(&self, misuse: Misuse, address: u64, count: u32) {
        if misuse != Misuse::Foreign && self.is_entry_damaged(address) {
            return self.report_damage(self.layout.class_count);
        }
        // Relaxed: diagnostics, read when the device is idle.
        let globals = self.globals();
        globals.misuses[misuse as usize].fetch_add(u64::from(count), Ordering::Relaxed);
        let _first = globals.first_misused[misuse as usize].compare_exchange(
            0,
            address,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
}

impl Core {
    /// Whether the entry of the page of an address in the heap is none that the allocator writes.
    fn is_entry_damaged(&self, address: u64) -> bool {
        let Some((page, entry)) = self.look_up(address) else {
            return false;
        };
        match entry.kind() {
            Kind::Slab => {
                let (class, order) = (entry.class(), entry.order());
                let slab = Slab::new(entry.head(page), class, order);
                !self.is_plausible(slab) || entry != Entry::slab(class, order)
            }
            Kind::Run => !self.is_run(page, entry),
            Kind::Blank => entry != Entry::BLANK,
        }
    }

    /// Whether an entry of a page is that of a run inside the heap.
    pub(crate) fn is_run(&self, page: u32, entry: Entry) -> bool {
        let pages = entry.run_pages();
        entry == Entry::run(pages) && pages != 0 && pages <= self.layout.page_count - page
    }
}

impl Deref for Core {
    type Target = Heap;

    fn deref(&self) -> &Heap {
        &self.heap
    }
}

/// A logarithm or flags as a byte.
#[allow(
    clippy::cast_possible_truncation,
    reason = "logarithms of 64-bit numbers"
)]
fn byte(number: u32) -> u8 {
    number as u8
}

impl Heap {
    /// The heap at an address.
    ///
    /// # Safety
    ///
    /// A heap initialised for this device must lie at `address` (its metadata begin with it),
    /// and outlive `'a`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn at<'a>(address: u64) -> &'a Self {
        // SAFETY: as the caller promises.
        unsafe { &*(address as *const Self) }
    }

    /// The head of the metadata.
    #[inline(always)]
    pub(crate) fn core<'a>(&self) -> &'a Core {
        // SAFETY: the metadata of a heap begin with its core and live as long as it does.
        unsafe { self.core.get(0) }
    }

    /// Address of the metadata.
    #[must_use]
    pub fn metadata(&self) -> u64 {
        self.core.pointer(0) as u64
    }

    /// Shape of the heap.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.core().layout
    }

    /// Address of the first page.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Flags given at creation.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Binary logarithm of the searches in vain after which a request gives up, see
    /// [`ATTEMPTS_LOG2`].
    #[must_use]
    pub fn attempts_log2(&self) -> u8 {
        self.attempts_log2
    }

    /// Bytes that can be allocated.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether `pointer` points into the heap's pages, allocated or not.
    #[inline(always)]
    #[must_use]
    pub fn owns(&self, pointer: *const u8) -> bool {
        (pointer as u64).wrapping_sub(self.base) < self.capacity
    }

    /// Words of the slots' bitmap: a bit for each 16 bytes.
    #[inline(always)]
    pub(crate) fn slot_word_count(&self) -> u64 {
        self.capacity >> 9
    }

    /// Entry of a page below the page count.
    #[inline(always)]
    pub(crate) fn entry(&self, page: u32) -> &DeviceAtomicU64 {
        // SAFETY: as for `core`.
        unsafe { self.entries.get(page) }
    }

    /// Stripe `index` of a class, an index of at most the class's mask.
    #[inline(always)]
    pub(crate) fn stripe(&self, class: u32, index: u32) -> &Stripe {
        // SAFETY: as for `core`.
        unsafe { self.stripes.get((class << self.stripes_log2) + index) }
    }

    /// Word of the slots' bitmap with slot `slot` of the slab that begins at page `head`. Where these
    /// come from damaged metadata, it may be beyond the last.
    #[inline(always)]
    pub(crate) fn slot_word_index(&self, head: u32, slot: u32) -> u32 {
        // A page of 2^n bytes has 2^n / 16 bits, that is 2^(n - 9) words.
        (head << (u32::from(self.page_shift) - 9)).wrapping_add(slot >> 5)
    }

    #[inline(always)]
    pub(crate) fn slot_word(&self, index: u32) -> &DeviceAtomicU32 {
        // SAFETY: as for `core`.
        unsafe { self.slot_words.get(index) }
    }

    /// Whether the slots' bitmap has a word `index`.
    #[inline(always)]
    pub(crate) fn has_slot_word(&self, index: u32) -> bool {
        u64::from(index) < self.slot_word_count()
    }

    /// Address of a page.
    #[inline(always)]
    pub(crate) fn page_address(&self, page: u32) -> u64 {
        self.base + (u64::from(page) << self.page_shift)
    }

    /// Stripes of a class in use, less one.
    #[inline(always)]
    pub(crate) fn stripe_mask(&self, class: u32) -> u32 {
        self.stripe_table.mask(class)
    }
}

/// The stripe that the calling thread draws from, before the class's mask.
#[inline(always)]
pub(crate) fn own_stripe() -> u32 {
    thread::sm_id()
}
