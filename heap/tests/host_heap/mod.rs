//! A heap in this process's memory, for the tests of the allocator.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::cast_ptr_alignment,
    reason = "the metadata is aligned to 4096 bytes"
)]

use scatterheap_heap::growth::Growth;
use scatterheap_heap::layout::Layout;
use scatterheap_heap::{Core, Heap, Share};
use std::alloc::{Layout as Request, alloc, dealloc};

/// Owns metadata and pages; pages are aligned to 2 MiB or the page size.
pub struct HostHeap {
    metadata: *mut u8,
    pages: *mut u8,
    layout: Layout,
}

// SAFETY: the heap is meant to be used by any threads.
unsafe impl Send for HostHeap {}
// SAFETY: as above.
unsafe impl Sync for HostHeap {}

impl HostHeap {
    pub fn new(capacity: u64, stripes: u32, flags: u8) -> Self {
        Self::made(capacity, stripes, flags, None)
    }

    /// A heap that grows up to `capacity`.
    pub fn growing(capacity: u64, stripes: u32, growth: Growth) -> Self {
        Self::made(capacity, stripes, 0, Some(growth))
    }

    fn made(capacity: u64, stripes: u32, flags: u8, growth: Option<Growth>) -> Self {
        let layout = Layout::new(capacity, stripes).expect("capacity in bounds");
        let (metadata_request, pages_request) = requests(&layout);
        // SAFETY: neither request is of size zero.
        let (metadata, pages) = unsafe { (alloc(metadata_request), alloc(pages_request)) };
        assert!(
            !metadata.is_null() && !pages.is_null(),
            "no memory for the test"
        );
        let head = Core::new(layout, metadata as u64, pages as u64, flags);
        let head = growth.map_or(head, |growth| head.growing(growth));
        // SAFETY: the metadata has room for a head, and for what the layout says.
        unsafe {
            metadata.cast::<Core>().write(head);
            Heap::at(metadata as u64).initialise(Share { index: 0, count: 1 });
        }
        Self {
            metadata,
            pages,
            layout,
        }
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
