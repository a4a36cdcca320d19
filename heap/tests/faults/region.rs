//! A heap whose metadata and pages end where memory does: who goes beyond faults.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use scatterheap_heap::growth::{Answer, Growth, Mailbox};
use scatterheap_heap::hardened::Hardening;
use scatterheap_heap::layout::Layout;
use scatterheap_heap::{Core, Heap, Share};
use scatterheap_simt::atomic::{DeviceAtomicU64, Ordering};
use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::null_mut;

/// Bytes before, between and after the two parts that nobody may touch.
const GUARD: usize = 64 << 20;
/// Parts end at multiples of this, which pages of the heap and of the machine divide.
const ALIGNMENT: usize = 1 << 16;
/// What the bytes are filled with that lie before a part in its first machine page.
const CANARY: u8 = 0xa5;
/// Places of a quarantine.
const PLACES: usize = 16;
/// Binary logarithm of the searches after which a request gives up: few, as the heap is damaged.
const ATTEMPTS_LOG2: u8 = 7;
/// Nanoseconds for which a request waits for a heap to grow.
const PATIENCE: u64 = 1_000_000;

/// Whether a heap grows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Growing {
    No,
    /// It begins with half of its pages, and may have three quarters of them.
    Yes,
}

/// An empty heap between guards.
pub struct GuardedHeap {
    /// Of a heap that grows.
    mailbox: Option<Box<Mailbox>>,
    mapping: *mut c_void,
    mapped: usize,
    metadata: Part,
    pages: Part,
    /// The ring of the quarantine, which a heap with the mode uses.
    ring: Vec<DeviceAtomicU64>,
}

/// Bytes that can be used, and those before them that only alignment made accessible.
#[derive(Clone, Copy)]
struct Part {
    opened: usize,
    start: usize,
    end: usize,
}

impl Part {
    /// The part of `bytes` bytes that ends before the first multiple of the alignment that leaves
    /// room for it and a guard.
    fn after(previous_end: usize, bytes: usize) -> Self {
        let end = (previous_end + GUARD + bytes).next_multiple_of(ALIGNMENT);
        let start = end - bytes;
        let opened = start & !(ALIGNMENT - 1);
        Self { opened, start, end }
    }

    fn open(self) {
        let (address, length) = (self.opened as *mut c_void, self.end - self.opened);
        // SAFETY: the range lies in the mapping, and nobody uses it yet.
        unsafe { mprotect(address, length, MprotectFlags::READ | MprotectFlags::WRITE) }
            .expect("the guard can be opened");
        // SAFETY: just opened, and used by nothing else.
        unsafe { (self.opened as *mut u8).write_bytes(CANARY, self.start - self.opened) };
    }

    /// The bytes before what can be used.
    fn canary(&self) -> &[u8] {
        // SAFETY: opened, and used by nothing else.
        unsafe { std::slice::from_raw_parts(self.opened as *const u8, self.start - self.opened) }
    }
}

impl GuardedHeap {
    pub fn new(capacity: u64, stripes: u32, modes: Hardening, growing: Growing) -> Self {
        let layout = Layout::new(capacity, stripes).expect("in bounds");
        let size = |bytes: u64| usize::try_from(bytes).expect("fits");
        let (metadata, pages) = (size(layout.metadata_bytes), size(layout.capacity));
        let mapped = 3 * GUARD + metadata + pages + 4 * ALIGNMENT;
        // SAFETY: a new mapping, wherever there is room.
        let mapping =
            unsafe { mmap_anonymous(null_mut(), mapped, ProtFlags::empty(), MapFlags::PRIVATE) };
        let mapping = mapping.expect("addresses can be reserved");
        let metadata = Part::after(mapping as usize, metadata);
        let pages = Part::after(metadata.end, pages);
        assert!(pages.end + GUARD <= mapping as usize + mapped);
        metadata.open();
        pages.open();
        let ring: Vec<_> = (0..PLACES).map(|_| DeviceAtomicU64::new(0)).collect();
        let mailbox = (growing == Growing::Yes).then(|| {
            Box::new(Mailbox::new(Answer {
                pages: layout.page_count / 4 * 3,
                closed: true,
            }))
        });
        let mut core = Core::new(
            layout,
            metadata.start as u64,
            pages.start as u64,
            modes.flags(),
        )
        .with_attempts_log2(ATTEMPTS_LOG2)
        .with_quarantine(ring.as_ptr() as u64, PLACES as u64);
        if let Some(mailbox) = &mailbox {
            core = core.growing(Growth {
                mailbox: &raw const **mailbox as u64,
                patience: PATIENCE,
                pages: layout.page_count / 2,
                low_water: 8,
            });
        }
        let heap = Self {
            mailbox,
            mapping,
            mapped,
            metadata,
            pages,
            ring,
        };
        // SAFETY: the metadata has room for a head, and for what the layout says.
        unsafe {
            (metadata.start as *mut Core).write(core);
            heap.heap().initialise(Share { index: 0, count: 1 });
        }
        heap
    }

    pub fn heap(&self) -> &Heap {
        // SAFETY: initialised in `new`.
        unsafe { Heap::at(self.metadata.start as u64) }
    }

    /// The head as it was made.
    pub fn core(&self) -> Core {
        // SAFETY: written in `new`; plain old data.
        unsafe { (self.metadata.start as *const Core).read() }
    }

    /// A copy of the metadata; nobody may use the heap meanwhile.
    pub fn metadata(&self) -> Vec<u8> {
        let length = self.metadata.end - self.metadata.start;
        // SAFETY: these bytes are the heap's metadata, and nobody uses it.
        unsafe { std::slice::from_raw_parts(self.metadata.start as *const u8, length) }.to_vec()
    }

    /// What is in the quarantine; nobody may use the heap meanwhile.
    pub fn quarantined(&self) -> Vec<u64> {
        // Relaxed, as below: no thread runs beside the caller.
        let place = |place: &DeviceAtomicU64| place.load(Ordering::Relaxed);
        self.ring.iter().map(place).collect()
    }

    /// Replaces the metadata after the head, and what is in the quarantine; nobody may use the heap meanwhile.
    pub fn restore(&self, metadata: &[u8], quarantined: &[u64]) {
        if let Some(mailbox) = &self.mailbox {
            mailbox.clear_request();
        }
        for (place, block) in self.ring.iter().zip(quarantined) {
            place.store(*block, Ordering::Relaxed);
        }
        assert_eq!(metadata.len(), self.metadata.end - self.metadata.start);
        let behind_head = &metadata[size_of::<Core>()..];
        let start = (self.metadata.start + size_of::<Core>()) as *mut u8;
        // SAFETY: as many bytes as there are, and nobody uses the heap.
        unsafe { start.copy_from_nonoverlapping(behind_head.as_ptr(), behind_head.len()) };
    }

    /// Checks that `bytes` bytes from an address on lie in the heap.
    pub fn assert_inside(&self, address: u64, bytes: u64) {
        let inside = address >= self.pages.start as u64
            && address
                .checked_add(bytes)
                .is_some_and(|end| end <= self.pages.end as u64);
        assert!(
            inside,
            "a block of {bytes} bytes at {address:#x} is outside"
        );
    }

    /// Checks that nobody wrote to the bytes before the parts.
    pub fn assert_whole(&self) {
        for part in [&self.metadata, &self.pages] {
            assert!(
                part.canary().iter().all(|byte| *byte == CANARY),
                "bytes before the heap were written"
            );
        }
    }
}

// SAFETY: a heap is used by any threads.
unsafe impl Sync for GuardedHeap {}

impl Drop for GuardedHeap {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nobody has it any more.
        let unmapped = unsafe { munmap(self.mapping, self.mapped) };
        assert!(unmapped.is_ok(), "the mapping is ours");
    }
}
