//! Kernels to be timed: each thread allocates or frees one block, and does nothing else but store
//! or load its 8-byte address. The floor is the same launch without an allocation.

use crate::sizes::Sizes;
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::{kernel, thread, warp};

/// Arguments of the kernels of this module.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct BenchArguments {
    /// The heap.
    pub heap: Heap,
    /// Address of `count` addresses of blocks.
    pub blocks: u64,
    /// Threads that work, or warps of which lane 0 works.
    pub count: u64,
    /// Sizes asked for.
    pub sizes: Sizes,
}

impl BenchArguments {
    /// Where the calling thread stores its block's address.
    #[inline(always)]
    fn place(&self) -> Option<*mut u64> {
        let index = u64::from(thread::index_1d());
        (index < self.count).then(|| (self.blocks as *mut u64).wrapping_add(index as usize))
    }

    /// Where the calling lane stores its block's address, if it is the first of its warp.
    #[inline(always)]
    fn place_of_warp(&self) -> Option<*mut u64> {
        let index = u64::from(thread::index_1d() / warp::LANES);
        let first = thread::thread_index().is_multiple_of(warp::LANES);
        (first && index < self.count)
            .then(|| (self.blocks as *mut u64).wrapping_add(index as usize))
    }
}

kernel! {
    /// The floor: every thread stores 8 bytes.
    pub struct StoreFloor = "scatterheap_bench_store";
    fn body(arguments: &BenchArguments) {
        if let Some(place) = arguments.place() {
            // SAFETY: the host gave an array with a place for each thread.
            unsafe { place.write(u64::from(thread::index_1d()) * 16) };
        }
    }
}

kernel! {
    /// The floor of one lane a warp.
    pub struct StoreFloorOfWarps = "scatterheap_bench_store_warp";
    fn body(arguments: &BenchArguments) {
        if let Some(place) = arguments.place_of_warp() {
            // SAFETY: the host gave an array with a place for each warp.
            unsafe { place.write(u64::from(thread::index_1d()) * 16) };
        }
    }
}

kernel! {
    /// Every thread allocates a block of the least size.
    pub struct AllocateUniform = "scatterheap_bench_allocate_uniform";
    fn body(arguments: &BenchArguments) {
        if let Some(place) = arguments.place() {
            // SAFETY: the host gave a heap, and an array with a place for each thread.
            unsafe { place.write(arguments.heap.malloc(arguments.sizes.least) as u64) };
        }
    }
}

kernel! {
    /// Every thread allocates a block of a size of the range.
    pub struct AllocateMixed = "scatterheap_bench_allocate_mixed";
    fn body(arguments: &BenchArguments) {
        if let Some(place) = arguments.place() {
            let bytes = arguments.sizes.of(u64::from(thread::index_1d()), 0);
            // SAFETY: the host gave a heap, and an array with a place for each thread.
            unsafe { place.write(arguments.heap.malloc(bytes) as u64) };
        }
    }
}

kernel! {
    /// Lane 0 of every warp allocates a block of the least size.
    pub struct AllocateOfWarps = "scatterheap_bench_allocate_warp";
    fn body(arguments: &BenchArguments) {
        if let Some(place) = arguments.place_of_warp() {
            // SAFETY: the host gave a heap, and an array with a place for each warp.
            unsafe { place.write(arguments.heap.malloc(arguments.sizes.least) as u64) };
        }
    }
}

kernel! {
    /// Every thread frees its block.
    pub struct Free = "scatterheap_bench_free";
    fn body(arguments: &BenchArguments) {
        if let Some(place) = arguments.place() {
            // SAFETY: the host gave a heap, and an array with a block or NULL for each thread.
            unsafe { arguments.heap.free(place.read() as *mut u8) };
        }
    }
}

kernel! {
    /// Lane 0 of every warp frees its block.
    pub struct FreeOfWarps = "scatterheap_bench_free_warp";
    fn body(arguments: &BenchArguments) {
        if let Some(place) = arguments.place_of_warp() {
            // SAFETY: the host gave a heap, and an array with a block or NULL for each warp.
            unsafe { arguments.heap.free(place.read() as *mut u8) };
        }
    }
}
