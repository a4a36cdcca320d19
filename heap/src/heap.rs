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
use crate::counters::{ClassCounters, MISUSES, Misuse};
use crate::growth::Growth;
use crate::layout::{ClassInfo, Layout, StripeTable};
use crate::page_set::{PageSet, Sets};
use crate::slab::SlabState;
use crate::stripe::Stripe;
use bytemuck::{Pod, Zeroable};
use core::ops::Deref;
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering};
use simt::thread;

/// First word of every heap: "SCTRHEAP".
pub const MAGIC: u64 = u64::from_le_bytes(*b"SCTRHEAP");

/// Count the bytes asked for, by class.
pub const COUNT_BYTES: u8 = 1;

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
    padding: u8,
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
    growth: Growth,
    layout: Layout,
    padding: [u64; 29],
}

/// What changes and belongs to no class and no page.
#[repr(C)]
pub struct Globals {
    /// What refills look at.
    pub shared: Shared,
    /// Refused frees by [`Misuse`].
    pub misuses: [DeviceAtomicU64; MISUSES],
    /// The first refused address of each kind.
    pub first_misused: [DeviceAtomicU64; MISUSES],
}

/// What refills look at, alone on a cache line.
#[repr(C, align(128))]
pub struct Shared {
    /// Stripes that have a slab.
    pub installed: DeviceAtomicU32,
    /// Pages that have memory and can be used, see [`crate::growth`].
    pub admitted: DeviceAtomicU32,
    /// Pages that the heap should have.
    pub wanted: DeviceAtomicU32,
    /// 1 while a thread reads the mailbox.
    pub lease: DeviceAtomicU32,
}

impl Globals {
    /// Those of an empty heap with `pages` pages.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        Self {
            shared: Shared {
                installed: DeviceAtomicU32::new(0),
                admitted: DeviceAtomicU32::new(pages),
                wanted: DeviceAtomicU32::new(0),
                lease: DeviceAtomicU32::new(0),
            },
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
                padding: 0,
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
            growth: Growth::none(layout.page_count),
            layout,
            padding: [0; 29],
        }
    }

    /// The head of a heap that grows.
    #[must_use]
    pub fn growing(self, growth: Growth) -> Self {
        Self { growth, ..self }
    }

    /// How the heap grows.
    #[must_use]
    pub fn growth(&self) -> &Growth {
        &self.growth
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
        // SAFETY: as for `core`; there is one more than there are classes.
        unsafe { self.counters.get(class) }
    }

    /// Counters of the requests for runs of pages.
    pub(crate) fn run_counters(&self) -> &ClassCounters {
        self.counters(self.layout.class_count)
    }

    pub(crate) fn class_info(&self, class: u32) -> ClassInfo {
        // SAFETY: as for `core`; every class below the count has one.
        *unsafe { self.classes.get(class) }
    }

    fn set(&self, index: u32) -> PageSet {
        // SAFETY: as for `core`.
        unsafe { self.sets.set(index) }
    }

    /// The free pages.
    pub(crate) fn free_pages(&self) -> PageSet {
        self.set(0)
    }

    /// The listed slabs of a class, by their first pages.
    pub(crate) fn listed(&self, class: u32) -> PageSet {
        self.set(1 + class)
    }

    /// Counts refused frees.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_misuse(&self, misuse: Misuse, address: u64, count: u32) {
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

    /// Word of the slots' bitmap with slot `slot` of the slab that begins at page `head`.
    #[inline(always)]
    pub(crate) fn slot_word_index(&self, head: u32, slot: u32) -> u32 {
        // A page of 2^n bytes has 2^n / 16 bits, that is 2^(n - 9) words.
        (head << (u32::from(self.page_shift) - 9)) + (slot >> 5)
    }

    #[inline(always)]
    pub(crate) fn slot_word(&self, index: u32) -> &DeviceAtomicU32 {
        // SAFETY: as for `core`.
        unsafe { self.slot_words.get(index) }
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
