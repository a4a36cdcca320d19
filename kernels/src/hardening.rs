//! What the host asks of hardened heaps between launches: poison, and an empty quarantine.

use bytemuck::{Pod, Zeroable};
use heap::{Heap, Share};
use simt::{kernel, thread};

/// Arguments of the kernels of this module.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct HardeningArguments {
    /// The heap.
    pub heap: Heap,
    /// First of the pages to poison.
    pub first_page: u32,
    /// How many there are.
    pub pages: u32,
}

/// The calling thread's share.
fn share() -> Share {
    Share {
        index: thread::index_1d(),
        count: thread::grid_threads(),
    }
}

kernel! {
    /// Fills pages that nobody uses with poison; any grid will do.
    pub struct PoisonPages = "scatterheap_kernel_poison_pages";
    fn body(arguments: &HardeningArguments) {
        // SAFETY: the host says that nobody uses the pages.
        unsafe { arguments.heap.poison_pages(share(), arguments.first_page, arguments.pages) };
    }
}

kernel! {
    /// Gives back all that is in the quarantine; any grid will do.
    pub struct DrainQuarantine = "scatterheap_kernel_drain_quarantine";
    fn body(arguments: &HardeningArguments) {
        arguments.heap.drain_quarantine(share());
    }
}
