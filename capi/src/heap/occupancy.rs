//! How full a heap is, and its blocks, as C structures.

use scatterheap_host::inspect::{self, LiveBlock, SiteLeak};

/// How full a heap is; sizes in bytes. The order and meaning of the fields is that of `scatterheap_occupancy` in the
/// header.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Occupancy {
    /// Bytes that can be allocated now.
    pub capacity: u64,
    /// Bytes that can be allocated once the heap has grown as far as it may.
    pub largest_capacity: u64,
    /// Blocks that are handed out.
    pub used_blocks: u64,
    /// Their bytes, as they were rounded up.
    pub used_bytes: u64,
    /// The largest request that would be served.
    pub largest_request: u64,
    /// Size of a page.
    pub page_bytes: u64,
    /// Free pages.
    pub free_pages: u64,
    /// Pages of slabs.
    pub slab_pages: u64,
    /// Pages of large blocks.
    pub run_pages: u64,
    /// Requests that got NULL since the heap was made or reset.
    pub failures: u64,
    /// Calls that were refused: double frees, foreign addresses and the like.
    pub misuses: u64,
    /// Share of the free bytes that does not lie in the longest free run, 0 to 1.
    pub fragmentation: f64,
}

impl Occupancy {
    pub(super) fn of(occupancy: &inspect::Occupancy) -> Self {
        let of_classes = occupancy.classes.iter().map(|class| class.failures.total());
        Self {
            capacity: occupancy.capacity,
            largest_capacity: occupancy.largest_capacity,
            used_blocks: occupancy.used_blocks,
            used_bytes: occupancy.used_bytes,
            largest_request: occupancy.largest_request,
            page_bytes: occupancy.page_bytes,
            free_pages: occupancy.pages.free,
            slab_pages: occupancy.pages.in_slabs,
            run_pages: occupancy.pages.in_runs,
            failures: of_classes.sum::<u64>() + occupancy.runs.failures.total(),
            misuses: occupancy.misuses.total(),
            fragmentation: occupancy.external_fragmentation,
        }
    }
}

/// A block that is handed out: `scatterheap_block` in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Block {
    /// Its address on the device.
    pub address: u64,
    /// Its bytes, at least as many as were asked for.
    pub bytes: u64,
}

/// Blocks of a site and size class: `scatterheap_leak` in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Leak {
    /// The site, as `malloc_tagged` was told; 0 of other calls.
    pub site: u32,
    /// Their size class; -1 for runs of pages.
    pub size_class: i32,
    /// How many there are.
    pub blocks: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// The lowest of their addresses, as the program has it.
    pub example: u64,
}

impl Leak {
    pub(super) fn of(leak: &SiteLeak) -> Self {
        let class = leak.class.and_then(|class| i32::try_from(class).ok());
        Self {
            site: leak.site,
            size_class: class.unwrap_or(-1),
            blocks: leak.blocks,
            bytes: leak.bytes,
            example: leak.example,
        }
    }
}

impl Block {
    pub(super) fn of(block: LiveBlock) -> Self {
        Self {
            address: block.address,
            bytes: block.bytes,
        }
    }
}
