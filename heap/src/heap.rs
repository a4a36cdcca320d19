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
use crate::counters::ClassCounters;
use crate::damage::ATTEMPTS_LOG2;
use crate::doubts::Doubts;
use crate::entry::{Entry, PageEntry};
use crate::growth::Growth;
use crate::hints::warps_of_stripe;
use crate::layout::{ClassInfo, Layout, StripeTable, after_slot_words};
use crate::misuse::{KEPT_ADDRESSES, MISUSES};
use crate::page_set::{PageSet, Sets};
use crate::slab::SlabState;
use crate::stripe::{ChurnNote, Stripe, Stripes};
use bytemuck::{Pod, Zeroable};
use core::ops::Deref;
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering};
use simt::{thread, warp};

/// First word of every heap: "SCTRHEAP".
pub const MAGIC: u64 = u64::from_le_bytes(*b"SCTRHEAP");

/// Count the bytes asked for, by class.
pub const COUNT_BYTES: u32 = 1;

/// What the entry of a slab's page has in a heap of a generation, in the bits of [`Mark::FIELDS`].
///
/// The generation counts the heap's resets modulo 256. A handle has the mark of its time, so that one
/// comparison with it tells `free` both that a page is in a slab and that the handle is no older
/// than the last reset. In a heap with flags the mark is *closed*: the allocator writes no entry that has it, so the fast
/// path frees nothing.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Mark(pub(crate) u32);

impl Mark {
    const GENERATION_SHIFT: u32 = 14;
    pub(crate) const GENERATION: u32 = 0xff << Self::GENERATION_SHIFT;
    /// The bits of an entry that are compared: its kind and its generation.
    pub const FIELDS: u32 = Self::GENERATION | Entry::KIND;

    /// The mark of a generation, of which the low 8 bits are kept.
    #[must_use]
    pub const fn of_generation(generation: u32) -> Self {
        Self(generation << Self::GENERATION_SHIFT & Self::GENERATION | Entry::SLAB)
    }

    /// The same, in a heap with flags.
    const fn closed(self) -> Self {
        Self(self.0 | Entry::KIND)
    }

    /// The same as if the heap had no flags.
    #[inline(always)]
    pub(crate) const fn opened(self) -> Self {
        Self(self.generation_bits() | Entry::SLAB)
    }

    /// The generation, modulo 256.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation_bits() >> Self::GENERATION_SHIFT
    }

    /// The generation where it stands in an entry.
    #[inline(always)]
    pub(crate) const fn generation_bits(self) -> u32 {
        self.0 & Self::GENERATION
    }
}

/// A heap: what the fast paths need, small enough to travel by value.
///
/// Pass it to kernels as a part of their arguments: then its fields are read from constant
/// memory. Read through an address they come from global memory, where every acquire throws the
/// cached copy away and all threads of the chip ask for the same line again. Copies are the same
/// heap.
///
/// # What nothing enforces
///
/// It is plain data, since that is what kernels' arguments are: it borrows nothing, and any bytes make one. Its
/// methods, the safe ones too, take it at its word: it must be the handle of a heap that lives, on the device whose
/// threads call. Who makes the heap keeps it until the last kernel has ended; its `handle` says so again. A call
/// through a handle of a heap that is gone, or through one that no heap gave, such as one of zeroes, reads and writes
/// wherever the handle's addresses lead. That is undefined behaviour: at best a fault, which takes all that is on a
/// GPU with it. Only a handle from before a reset of a living heap is noticed ([`Misuse::Stale`](crate::misuse::Misuse::Stale)).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Heap {
    pub(crate) base: u64,
    pub(crate) capacity: u64,
    pub(crate) entries: Array<PageEntry>,
    pub(crate) slabs: Array<SlabState>,
    pub(crate) slot_words: Array<DeviceAtomicU32>,
    pub(crate) stripes: Array<Stripe>,
    core: Array<Core>,
    stripe_table: StripeTable,
    /// Requests of 1 to so many bytes are served by the fast path: those for classes that have all stripes, in a heap without flags.
    pub(crate) fast_limit: u32,
    /// Stripes of the classes that have most, and their [step](Stripes::of).
    most_stripes: u32,
    stripe_step: u32,
    pub(crate) page_shift: u8,
    /// The [place](Layout::slab_place) of a page's slab among the slabs is the page's number shifted by so much.
    pub(crate) slab_shift: u8,
    /// Words of a [row](Layout::stripe_row) of stripes.
    stripe_row: u16,
    pub(crate) mark: Mark,
    pub(crate) flags: u32,
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
    quarantine: Array<DeviceAtomicU64>,
    quarantine_places: u64,
    attempts_log2: u64,
    padding: [u64; CORE_PADDING],
}

/// Words of the head up to its alignment.
const CORE_PADDING: usize = 24;

/// What changes and belongs to no class and no page.
#[repr(C)]
pub struct Globals {
    /// What refills look at.
    pub shared: Shared,
    /// Misuses by [`Misuse`](crate::misuse::Misuse).
    pub misuses: [DeviceAtomicU64; MISUSES],
    /// The first addresses of each kind.
    pub misused: [[DeviceAtomicU64; KEPT_ADDRESSES]; MISUSES],
    /// Blocks that were put into the quarantine.
    pub quarantined: DeviceAtomicU64,
    /// How often something was to be taken out of it.
    pub drains_begun: DeviceAtomicU64,
    /// How often that was done.
    pub drains_done: DeviceAtomicU64,
    /// Frees whose slab was on its way.
    pub doubts: Doubts,
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
    /// The limit that it read there last, see [`Mailbox::refuse`](crate::growth::Mailbox::refuse): a hint.
    pub limit: DeviceAtomicU32,
}

impl Shared {
    /// Pages that can be used, as a hint.
    pub(crate) fn admitted_hint(&self) -> u32 {
        // Relaxed: a hint.
        self.admitted.load(Ordering::Relaxed)
    }
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
                limit: DeviceAtomicU32::new(0),
            },
            misuses: core::array::from_fn(|_| DeviceAtomicU64::new(0)),
            misused: core::array::from_fn(|_| core::array::from_fn(|_| DeviceAtomicU64::new(0))),
            quarantined: DeviceAtomicU64::new(0),
            drains_begun: DeviceAtomicU64::new(0),
            drains_done: DeviceAtomicU64::new(0),
            doubts: Doubts::none(),
        }
    }
}

impl Core {
    /// The head of a heap of shape `layout` whose metadata is to begin at address `metadata` and
    /// whose pages begin at address `base`. `flags` are [`COUNT_BYTES`] and those of
    /// [`Hardening`](crate::hardened::Hardening). Its generation is 0, and it has no quarantine.
    #[must_use]
    pub fn new(layout: Layout, metadata: u64, base: u64, flags: u32) -> Self {
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
                fast_limit: if flags == 0 { layout.fast_limit() } else { 0 },
                most_stripes: layout.stripes,
                stripe_step: Stripes::step_of(layout.stripes),
                page_shift: log2_in_byte(layout.page_shift),
                slab_shift: log2_in_byte(layout.slab_shift()),
                stripe_row: row_in_half(layout.stripe_row()),
                mark: mark_of(0, flags),
                flags,
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
            quarantine: Array::new(0),
            quarantine_places: 0,
            attempts_log2: ATTEMPTS_LOG2.into(),
            padding: [0; CORE_PADDING],
        }
    }

    /// The same head, of a heap that grows.
    #[must_use]
    pub fn growing(self, growth: Growth) -> Self {
        Self { growth, ..self }
    }

    /// How the heap grows.
    #[must_use]
    pub fn growth(&self) -> &Growth {
        &self.growth
    }

    /// The same head, of a heap that was reset `generation` times, modulo 256.
    #[must_use]
    pub fn of_generation(mut self, generation: u32) -> Self {
        self.heap.mark = mark_of(generation, self.heap.flags);
        self
    }

    /// The same head, of a heap with [`QUARANTINE`](crate::hardened::Hardening::QUARANTINE), whose ring
    /// is `places` words of zero at address `ring`; a power of two of them.
    #[must_use]
    pub fn with_quarantine(mut self, ring: u64, places: u64) -> Self {
        self.quarantine = Array::new(ring);
        self.quarantine_places = places;
        self
    }

    /// The same head, with the quarantine of another.
    #[cfg(feature = "inspect")]
    #[allow(dead_code, reason = "explorers do not inspect")]
    pub(crate) fn with_quarantine_of(self, other: &Self) -> Self {
        let ring = other.quarantine.pointer(0) as u64;
        self.with_quarantine(ring, other.quarantine_places)
    }

    /// The ring of the quarantine.
    pub(crate) fn quarantine_ring(&self) -> Array<DeviceAtomicU64> {
        self.quarantine
    }

    /// Places of the ring.
    pub(crate) fn quarantine_places(&self) -> u64 {
        self.quarantine_places
    }

    /// The same head, but requests give up after `2^attempts_log2` searches in vain (at most 2^31),
    /// see [`ATTEMPTS_LOG2`]. For tests of damaged heaps: in a healthy heap too few give NULL for
    /// contention.
    #[must_use]
    pub fn with_attempts_log2(mut self, attempts_log2: u8) -> Self {
        self.attempts_log2 = attempts_log2.into();
        self
    }

    /// Binary logarithm of the searches in vain after which a request gives up, see
    /// [`ATTEMPTS_LOG2`].
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "a byte was stored")]
    pub fn attempts_log2(&self) -> u8 {
        self.attempts_log2 as u8
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
}

impl Deref for Core {
    type Target = Heap;

    fn deref(&self) -> &Heap {
        &self.heap
    }
}

/// The mark of a generation of a heap with `flags`.
const fn mark_of(generation: u32, flags: u32) -> Mark {
    let mark = Mark::of_generation(generation);
    if flags == 0 { mark } else { mark.closed() }
}

/// A logarithm in 8 bits.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a logarithm of a 64-bit number"
)]
fn log2_in_byte(number: u32) -> u8 {
    number as u8
}

/// The words of a row in 16 bits.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a little more than the number of classes"
)]
fn row_in_half(number: u32) -> u16 {
    number as u16
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
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// The handle's generation.
    #[inline(always)]
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.mark
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
    #[allow(
        clippy::cast_possible_truncation,
        reason = "at most 2^31, in a heap of MAX_CAPACITY"
    )]
    pub(crate) fn slot_word_count(&self) -> u32 {
        (self.capacity >> 9) as u32
    }

    /// Entry of a page below the page count.
    #[inline(always)]
    pub(crate) fn entry(&self, page: u32) -> &DeviceAtomicU64 {
        // SAFETY: as for `core`.
        unsafe { &self.entries.get(page).0 }
    }

    /// Stripe `index` of a class, an index of at most the class's mask.
    #[inline(always)]
    pub(crate) fn stripe(&self, class: u32, index: u32) -> &Stripe {
        self.stripe_of_place(index * u32::from(self.stripe_row) + class)
    }

    /// Places for stripes, of all classes: those of each [row](Layout::stripe_row), one row after the other.
    #[inline(always)]
    pub(crate) fn stripe_places(&self) -> u32 {
        self.most_stripes * u32::from(self.stripe_row)
    }

    /// The stripe at one of these, or what lies there behind the last class.
    #[inline(always)]
    pub(crate) fn stripe_of_place(&self, place: u32) -> &Stripe {
        // SAFETY: as for `core`.
        unsafe { self.stripes.get(place) }
    }

    /// The row of a place.
    pub(crate) fn row_of_place(&self, place: u32) -> u32 {
        // Not `/`, which may panic.
        place.checked_div(self.stripe_row.into()).unwrap_or(0)
    }

    /// The note of row `index` of the stripes.
    #[inline(always)]
    pub(crate) fn churn_note(&self, index: u32) -> &ChurnNote {
        let notes = after_slot_words(self.slot_words.pointer(0) as u64, self.capacity);
        // SAFETY: as for `core`.
        unsafe { Array::new(notes).get(index) }
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
        index < self.slot_word_count()
    }

    /// Address of a page.
    #[inline(always)]
    pub(crate) fn page_address(&self, page: u32) -> u64 {
        self.base + (u64::from(page) << self.page_shift)
    }

    /// The stripes of the classes that have most.
    #[inline(always)]
    pub(crate) fn most_stripes(&self) -> Stripes {
        Stripes::stepping(self.most_stripes, self.stripe_step)
    }

    /// A number by which the searches of different stripes begin elsewhere: that of the caller's, of a class that has most.
    pub(crate) fn place(&self) -> u32 {
        self.most_stripes().of(thread::block_number())
    }

    /// The stripes of a class.
    pub(crate) fn stripes_of(&self, class: u32) -> Stripes {
        match self.stripe_table.log2(class) {
            Some(log2) => Stripes::power_of_two(log2),
            None => self.most_stripes(),
        }
    }

    /// About how many slots a launch of this grid draws of each of a class's stripes, if each of its lanes wants one.
    pub(crate) fn slots_of_launch(&self, class: u32) -> u32 {
        warps_of_stripe(self.stripes_of(class).count) * warp::LANES
    }

    /// Whether a class has fewer stripes than others, since its slots are large.
    #[inline(always)]
    pub(crate) fn has_few_stripes(&self, class: u32) -> bool {
        let log2 = self.stripe_table.log2(class);
        // In a heap of one stripe no class has fewer.
        log2.is_some_and(|log2| 1 << log2 < self.most_stripes)
    }
}

/// The block of the leader of a group, by which it has [a stripe](Stripes::of) of each class; its `zero` is 0. In other lanes any
/// number.
///
/// One lane draws for all. But ptxas takes lanes for as many that draw from one address, and gathers what they draw: 14
/// instructions, and two shuffles more to wait for. An address that depends on the lane it leaves alone.
#[inline(always)]
pub(crate) fn block_of_leader(zero: u32) -> u32 {
    thread::block_number() | zero
}
