//! The head of a heap: where everything is.
//!
//! A heap is two pieces of device memory: *metadata*, which begins with this head, and the user's
//! pages. They lie apart, so that a stray write of a user cannot corrupt the allocator, and so
//! that the host can read the metadata alone. The head never changes while the heap lives; what
//! changes is in the arrays that it points to.

use crate::array::Array;
use crate::counters::{ClassCounters, MISUSES, Misuse};
use crate::layout::{ClassInfo, Layout};
use crate::page_set::PageSet;
use crate::slab::SlabState;
use crate::stripe::Stripe;
use bytemuck::{Pod, Zeroable};
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering};
use simt::thread;

/// First word of every heap: "SCTRHEAP".
pub const MAGIC: u64 = u64::from_le_bytes(*b"SCTRHEAP");

/// Count the bytes asked for, by class.
pub const COUNT_BYTES: u32 = 1;

/// A heap, as it lies at the beginning of its metadata.
#[repr(C, align(128))]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Heap {
    pub(crate) base: u64,
    pub(crate) capacity: u64,
    pub(crate) entries: Array<DeviceAtomicU64>,
    pub(crate) slabs: Array<SlabState>,
    pub(crate) slot_words: Array<DeviceAtomicU32>,
    pub(crate) stripes: Array<Stripe>,
    pub(crate) classes: Array<ClassInfo>,
    pub(crate) page_shift: u32,
    pub(crate) largest_slot: u32,
    pub(crate) stripe_count: u32,
    pub(crate) flags: u32,
    globals: Array<Globals>,
    counters: Array<ClassCounters>,
    sets: Array<PageSet>,
    magic: u64,
    layout: Layout,
    padding: [u64; 4],
}

/// What changes and belongs to no class and no page.
#[repr(C)]
pub struct Globals {
    /// Raised whenever memory became findable: pages freed, a slab listed, a stripe refilled.
    pub epoch: Padded,
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
            epoch: Padded(DeviceAtomicU32::new(0)),
            installed: Padded(DeviceAtomicU32::new(0)),
            misuses: core::array::from_fn(|_| DeviceAtomicU64::new(0)),
            first_misused: core::array::from_fn(|_| DeviceAtomicU64::new(0)),
        }
    }
}

impl Heap {
    /// The head of a heap of shape `layout` whose metadata is to begin at address `metadata` and
    /// whose pages begin at address `base`. `flags` is 0 or [`COUNT_BYTES`].
    #[must_use]
    pub fn new(layout: Layout, metadata: u64, base: u64, flags: u32) -> Self {
        let at = |offset| metadata + offset;
        Self {
            base,
            capacity: layout.capacity,
            entries: Array::new(at(layout.offsets.entries)),
            slabs: Array::new(at(layout.offsets.slabs)),
            slot_words: Array::new(at(layout.offsets.slot_words)),
            stripes: Array::new(at(layout.offsets.stripes)),
            classes: Array::new(at(layout.offsets.classes)),
            page_shift: layout.page_shift,
            largest_slot: layout.largest_slot,
            stripe_count: layout.stripes,
            flags,
            globals: Array::new(at(layout.offsets.globals)),
            counters: Array::new(at(layout.offsets.counters)),
            sets: Array::new(at(layout.offsets.sets)),
            magic: MAGIC,
            layout,
            padding: [0; 4],
        }
    }

    /// The heap at an address.
    ///
    /// # Safety
    ///
    /// A heap initialised for this device must begin at `address`, and outlive `'a`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn at<'a>(address: u64) -> &'a Self {
        // SAFETY: as the caller promises.
        unsafe { &*(address as *const Self) }
    }

    /// Shape of the heap.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether the head is one of ours.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.magic == MAGIC
    }

    /// Address of the first page.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Flags given at creation.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.flags
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

    pub(crate) fn globals(&self) -> &Globals {
        // SAFETY: the arrays of a heap are initialised and live as long as it does.
        unsafe { self.globals.get(0) }
    }

    pub(crate) fn counters(&self, class: u32) -> &ClassCounters {
        // SAFETY: as for `globals`; there is one more than there are classes.
        unsafe { self.counters.get(class) }
    }

    /// Counters of the requests for runs of pages.
    pub(crate) fn run_counters(&self) -> &ClassCounters {
        self.counters(self.layout.class_count)
    }

    pub(crate) fn class_info(&self, class: u32) -> ClassInfo {
        // SAFETY: as for `globals`; every class below the count has one.
        *unsafe { self.classes.get(class) }
    }

    /// Entry of a page below the page count.
    #[inline(always)]
    pub(crate) fn entry(&self, page: u32) -> &DeviceAtomicU64 {
        // SAFETY: as for `globals`.
        unsafe { self.entries.get(page) }
    }

    /// Stripe `index` of a class, an index of at most the class's mask.
    #[inline(always)]
    pub(crate) fn stripe(&self, class: u32, index: u32) -> &Stripe {
        // SAFETY: as for `globals`.
        unsafe { self.stripes.get(class * self.stripe_count + index) }
    }

    /// Word of the slots' bitmap with slot `slot` of the slab that begins at page `head`.
    #[inline(always)]
    pub(crate) fn slot_word_index(&self, head: u32, slot: u32) -> u32 {
        // A page of 2^n bytes has 2^n / 16 bits, that is 2^(n - 9) words.
        (head << (self.page_shift - 9)) + (slot >> 5)
    }

    #[inline(always)]
    pub(crate) fn slot_word(&self, index: u32) -> &DeviceAtomicU32 {
        // SAFETY: as for `globals`.
        unsafe { self.slot_words.get(index) }
    }

    fn set(&self, index: u32) -> &PageSet {
        // SAFETY: as for `globals`.
        unsafe { self.sets.get(index) }
    }

    /// The free pages.
    pub(crate) fn free_pages(&self) -> &PageSet {
        self.set(0)
    }

    /// The listed slabs of a class, by their first pages.
    pub(crate) fn listed(&self, class: u32) -> &PageSet {
        self.set(1 + class)
    }

    /// Address of a page.
    #[inline(always)]
    pub(crate) fn page_address(&self, page: u32) -> u64 {
        self.base + (u64::from(page) << self.page_shift)
    }

    /// Says that memory became findable: see [`Globals::epoch`].
    pub(crate) fn raise_epoch(&self) {
        // Release: who sees the new epoch sees what was made findable before.
        self.globals().epoch.0.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn epoch(&self) -> u32 {
        // Acquire: pairs with `raise_epoch`.
        self.globals().epoch.0.load(Ordering::Acquire)
    }

    /// Counts a refused free.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_misuse(&self, misuse: Misuse, address: u64) {
        // Relaxed: diagnostics, read when the device is idle.
        let globals = self.globals();
        globals.misuses[misuse as usize].fetch_add(1, Ordering::Relaxed);
        let _first = globals.first_misused[misuse as usize].compare_exchange(
            0,
            address,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
}

/// The stripe that the calling thread draws from, before the class's mask.
#[inline(always)]
pub(crate) fn own_stripe() -> u32 {
    thread::sm_id()
}
