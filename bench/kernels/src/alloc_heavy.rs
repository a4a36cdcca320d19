//! Blocks that grow: every thread doubles a block by `realloc`, from few bytes to many, and marks
//! each part that is new.

use crate::allocator::{DeviceAllocator, Native};
use crate::faults::{Fault, report};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use kernels::sizes::mix;
use simt::{kernel, thread};

/// What grows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Growth {
    /// Address of `count` addresses, where each thread leaves its last block's, or NULL if it could
    /// not grow that far.
    pub blocks: u64,
    /// Threads.
    pub count: u64,
    /// Bytes of a first block, at least 16.
    pub least: u64,
    /// Bytes of a last block: `least` doubled some times.
    pub most: u64,
    /// Address of the counters of [`Fault`].
    pub faults: u64,
}

/// Arguments of the kernels that allocate.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GrowthArguments<A> {
    /// The allocator.
    pub allocator: A,
    /// What grows.
    pub growth: Growth,
}

// SAFETY: all zeroes are an allocator's and a growth's.
unsafe impl<A: DeviceAllocator> Zeroable for GrowthArguments<A> {}
// SAFETY: both parts are plain old data, aligned to 8 bytes and a multiple of 8 long, the allocator as its trait wants it, so there is
// no padding between them nor behind them.
unsafe impl<A: DeviceAllocator> Pod for GrowthArguments<A> {}

/// The words at both ends of the bytes from `begin` to `end`: where they lie, and what they hold.
#[inline(always)]
fn marks(thread: u64, begin: u64, end: u64) -> [(usize, u64); 2] {
    [begin, end - 8].map(|offset| (offset as usize, mix(thread << 32 | offset)))
}

/// Marks a part of a block.
///
/// # Safety
///
/// The block must reach to `end`, and be aligned to 16.
#[inline(always)]
unsafe fn mark(block: *mut u8, thread: u64, begin: u64, end: u64) {
    for (offset, word) in marks(thread, begin, end) {
        // SAFETY: as the caller promises.
        unsafe { block.add(offset).cast::<u64>().write(word) };
    }
}

/// Whether a part of a block still has its marks.
///
/// # Safety
///
/// As for [`mark`].
#[inline(always)]
unsafe fn is_marked(block: *const u8, thread: u64, begin: u64, end: u64) -> bool {
    marks(thread, begin, end)
        .into_iter()
        // SAFETY: as the caller promises.
        .all(|(offset, word)| unsafe { block.add(offset).cast::<u64>().read() } == word)
}

/// Grows the calling thread's block.
///
/// # Safety
///
/// There must be a place for each thread's address.
#[inline(always)]
unsafe fn grow<A: DeviceAllocator>(allocator: &A, growth: &Growth) {
    let thread = u64::from(thread::index_1d());
    if thread >= growth.count {
        return;
    }
    let mut bytes = growth.least;
    let mut block = allocator.malloc(bytes);
    // SAFETY: the block has `bytes` bytes, of which all parts are marked, and is this thread's.
    unsafe {
        if !block.is_null() {
            mark(block, thread, 0, bytes);
        }
        while bytes < growth.most && !block.is_null() {
            let larger = allocator.realloc(block, bytes, bytes * 2);
            if larger.is_null() {
                allocator.free(block);
            } else {
                mark(larger, thread, bytes, bytes * 2);
            }
            block = larger;
            bytes *= 2;
        }
        (growth.blocks as *mut u64)
            .add(thread as usize)
            .write(block as u64);
    }
}

kernel! {
    /// Every thread grows a block of the heap.
    pub struct Grow = "scatterheap_bench_heap_alloc_heavy";
    fn body(arguments: &GrowthArguments<Heap>) {
        // SAFETY: as the host promised.
        unsafe { grow(&arguments.allocator, &arguments.growth) };
    }
}

kernel! {
    /// Every thread grows a block of the device's own allocator.
    pub struct NativeGrow = "scatterheap_bench_native_alloc_heavy";
    fn body(arguments: &GrowthArguments<Native>) {
        // SAFETY: as the host promised.
        unsafe { grow(&arguments.allocator, &arguments.growth) };
    }
}

kernel! {
    /// Every thread looks whether its block has grown and has all marks.
    pub struct CheckGrown = "scatterheap_bench_alloc_heavy_check";
    fn body(growth: &Growth) {
        let thread = u64::from(thread::index_1d());
        if thread >= growth.count {
            return;
        }
        // SAFETY: the host gave an address for each thread; a block has `most` bytes.
        unsafe {
            let block = (growth.blocks as *const u64).add(thread as usize).read() as *const u8;
            if block.is_null() {
                report(growth.faults, Fault::Null, 1);
                return;
            }
            let mut intact = is_marked(block, thread, 0, growth.least);
            let mut bytes = growth.least;
            while bytes < growth.most {
                intact &= is_marked(block, thread, bytes, bytes * 2);
                bytes *= 2;
            }
            report(growth.faults, Fault::Corrupt, u32::from(!intact));
        }
    }
}
