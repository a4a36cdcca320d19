//! A heap in this process's memory, for the tests of the allocator.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::cast_ptr_alignment,
    reason = "the metadata is aligned to 4096 bytes"
)]

#[path = "../packing/mod.rs"]
mod packing;

pub use packing::pack;
use scatterheap_heap::growth::Growth;
use scatterheap_heap::hardened::Hardening;
use scatterheap_heap::layout::Layout;
use scatterheap_heap::stripe::Stripe;
use scatterheap_heap::ticket::Ticket;
use scatterheap_heap::{Core, Heap, Share};
use scatterheap_simt::atomic::{DeviceAtomicU32, DeviceAtomicU64};
use std::alloc::{Layout as Request, alloc, dealloc};
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// Places of a quarantine.
pub const QUARANTINED: u64 = 16;
/// Everything is one thread's share.
const WHOLE: Share = Share { index: 0, count: 1 };

/// Owns metadata and pages; pages are aligned to 2 MiB or the page size.
pub struct HostHeap {
    metadata: *mut u8,
    pages: *mut u8,
    layout: Layout,
    flags: u32,
    growth: Option<Growth>,
    resets: Cell<u32>,
    /// The ring of the quarantine.
    ring: Vec<DeviceAtomicU64>,
}

// SAFETY: the heap is meant to be used by any threads.
unsafe impl Send for HostHeap {}
// SAFETY: as above.
unsafe impl Sync for HostHeap {}

impl HostHeap {
    pub fn new(capacity: u64, stripes: u32, flags: u32) -> Self {
        Self::made(capacity, stripes, flags, None, QUARANTINED)
    }

    /// A heap whose quarantine has `places` places, a power of two.
    pub fn with_quarantine(capacity: u64, flags: u32, places: u64) -> Self {
        Self::made(capacity, 1, flags, None, places)
    }

    /// A heap that grows up to `capacity`.
    pub fn growing(capacity: u64, stripes: u32, growth: Growth) -> Self {
        Self::made(capacity, stripes, 0, Some(growth), QUARANTINED)
    }

    fn made(capacity: u64, stripes: u32, flags: u32, growth: Option<Growth>, places: u64) -> Self {
        let layout = Layout::new(capacity, stripes).expect("capacity in bounds");
        let (metadata_request, pages_request) = requests(&layout);
        // SAFETY: neither request is of size zero.
        let (metadata, pages) = unsafe { (alloc(metadata_request), alloc(pages_request)) };
        assert!(
            !metadata.is_null() && !pages.is_null(),
            "no memory for the test"
        );
        let host = Self {
            metadata,
            pages,
            layout,
            flags,
            growth,
            resets: Cell::new(0),
            ring: (0..places).map(|_| DeviceAtomicU64::new(0)).collect(),
        };
        host.make_empty();
        host
    }

    fn make_empty(&self) {
        let (metadata, pages) = (self.metadata as u64, self.pages as u64);
        let head = Core::new(self.layout, metadata, pages, self.flags);
        // SAFETY: the metadata has room for a head, and for what the layout says.
        unsafe {
            let head = head.of_generation(self.resets.get());
            let head = self.growth.map_or(head, |growth| head.growing(growth));
            let head = head.with_quarantine(self.ring.as_ptr() as u64, self.ring.len() as u64);
            self.metadata.cast::<Core>().write(head);
            Heap::at(metadata).initialise(WHOLE);
            if Hardening::of_flags(self.flags).contains(Hardening::POISON) {
                Heap::at(metadata).poison_pages(WHOLE, 0, self.layout.page_count);
            }
        }
    }

    /// Makes the heap empty, in the next generation; gives the handle from before.
    ///
    /// # Safety
    ///
    /// Nobody may use the heap meanwhile, nor what `heap` gave before.
    pub unsafe fn reset(&self) -> Heap {
        let stale = *self.heap();
        self.resets.set(self.resets.get() + 1);
        for place in &self.ring {
            place.store(0, Ordering::Relaxed);
        }
        self.make_empty();
        stale
    }

    /// Has requests give up after `2^attempts_log2` searches in vain. Nobody may use the heap meanwhile.
    pub fn give_up_after(&self, attempts_log2: u8) {
        let head = self.metadata.cast::<Core>();
        // SAFETY: the head is there, and nobody uses it.
        unsafe { head.write(head.read().with_attempts_log2(attempts_log2)) };
    }

    /// Has slots packed in launch 0: the word of the first stripe of a class.
    pub fn pack(&self, class: u32) -> Ticket {
        pack(self.heap());
        self.stripe(class).look()
    }

    /// The first stripe of a class.
    pub fn stripe(&self, class: u32) -> &Stripe {
        let stripes = (self.metadata as u64 + self.layout.offsets.stripes) as *const Stripe;
        let place = self.layout.stripe_place(class, 0);
        // SAFETY: a heap has a stripe of each class.
        unsafe { &*stripes.add(place as usize) }
    }

    /// The block in slot `slot`, of `bytes` bytes, of the slab that units were drawn of with a ticket, for one of these; none if another has it. It may lie anywhere, as blocks do that
    /// outlive others.
    pub fn occupy(&self, drawn: Ticket, slot: u32, bytes: u32) -> Option<u64> {
        let begin = u64::from(drawn.page()) * self.layout.page_bytes();
        let words =
            (self.metadata as u64 + self.layout.offsets.slot_words) as *const DeviceAtomicU32;
        let index = usize::try_from(begin / 512).expect("a small heap") + slot as usize / 32;
        // SAFETY: the bitmap has a word for each 512 bytes of the heap.
        let word = unsafe { &*words.add(index) };
        let bit = 1 << (slot % 32);
        // Acquire: as in `malloc`.
        let was_free = word.fetch_or(bit, Ordering::Acquire) & bit == 0;
        was_free.then(|| self.heap().base() + begin + u64::from(slot * bytes))
    }

    pub fn heap(&self) -> &Heap {
        // SAFETY: initialised in `new`.
        unsafe { Heap::at(self.metadata as u64) }
    }
}

impl Drop for HostHeap {
    fn drop(&mut self) {
        let (metadata, pages) = requests(&self.layout);
        // SAFETY: allocated in `new` by the same requests.
        unsafe {
            dealloc(self.metadata, metadata);
            dealloc(self.pages, pages);
        }
    }
}

fn requests(layout: &Layout) -> (Request, Request) {
    let size = |bytes: u64| usize::try_from(bytes).expect("fits");
    let alignment = size(layout.page_bytes()).max(1 << 21);
    (
        Request::from_size_align(size(layout.metadata_bytes), 4096).expect("valid"),
        Request::from_size_align(size(layout.capacity), alignment).expect("valid"),
    )
}
