//! Kernels over an array of blocks, one for each thread: allocate, fill, check, free.
//!
//! They are launches of their own, so that all blocks live at once between them.

use crate::pattern;
use crate::sizes::Sizes;
use crate::tally::{Count, Counts};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::{kernel, thread};

/// An allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Block {
    /// Its address; 0 if the call gave NULL.
    pub address: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

/// Arguments of the kernels of this module.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct BlocksArguments {
    /// The heap.
    pub heap: Heap,
    /// Address of an array of `count` [`Block`]s.
    pub blocks: u64,
    /// Number of blocks; the grid has as many threads or more.
    pub count: u64,
    /// Address of the tally.
    pub tally: u64,
    /// What the blocks' owners are numbered from.
    pub first_owner: u64,
    /// Sizes asked for.
    pub sizes: Sizes,
    /// Thread `i` works on block `(i * stride) % count`.
    pub stride: u64,
}

impl BlocksArguments {
    /// Index of the calling thread's block, if it has one.
    #[inline]
    fn index(&self) -> Option<u64> {
        let thread = u64::from(thread::index_1d());
        (thread < self.count).then(|| thread * self.stride % self.count)
    }

    /// The calling thread's block.
    ///
    /// # Safety
    ///
    /// `index` must be this thread's alone, and the array as the arguments say.
    #[inline]
    unsafe fn block<'a>(&self, index: u64) -> &'a mut Block {
        // SAFETY: as the caller promises.
        unsafe { &mut *(self.blocks as *mut Block).add(index as usize) }
    }
}

kernel! {
    /// Every thread allocates a block.
    pub struct Allocate = "scatterheap_kernel_allocate";
    fn body(arguments: &BlocksArguments) {
        let Some(index) = arguments.index() else { return };
        let mut counts = Counts::default();
        // SAFETY: the host gave a heap, an array with a block for each thread, and a tally.
        unsafe {
            let heap = &arguments.heap;
            let bytes = arguments.sizes.of(index, 0);
            let block = heap.malloc(bytes);
            counts.allocated(heap, block, bytes);
            *arguments.block(index) = Block { address: block as u64, bytes };
            counts.report(arguments.tally);
        }
    }
}

kernel! {
    /// Every thread that has no block allocates one. So it can be launched again after the heap
    /// has grown.
    pub struct AllocateMissing = "scatterheap_kernel_allocate_missing";
    fn body(arguments: &BlocksArguments) {
        let Some(index) = arguments.index() else { return };
        let mut counts = Counts::default();
        // SAFETY: as in `Allocate`; the array was all zero at first.
        unsafe {
            let block = arguments.block(index);
            if block.address != 0 {
                return;
            }
            let bytes = arguments.sizes.of(index, 0);
            let address = arguments.heap.malloc(bytes);
            counts.allocated(&arguments.heap, address, bytes);
            *block = Block { address: address as u64, bytes };
            counts.report(arguments.tally);
        }
    }
}

kernel! {
    /// Every thread fills its block.
    pub struct Fill = "scatterheap_kernel_fill";
    fn body(arguments: &BlocksArguments) {
        let Some(index) = arguments.index() else { return };
        // SAFETY: as in `Allocate`; the blocks were allocated, or their address is 0.
        unsafe {
            let block = arguments.block(index);
            if block.address != 0 {
                pattern::fill(block.address as *mut u8, block.bytes, arguments.first_owner + index);
            }
        }
    }
}

kernel! {
    /// Every thread frees its block, whatever is in it.
    pub struct Release = "scatterheap_kernel_release";
    fn body(arguments: &BlocksArguments) {
        let Some(index) = arguments.index() else { return };
        // SAFETY: as in `Allocate`; nobody else uses the block.
        unsafe {
            let block = arguments.block(index);
            arguments.heap.free(block.address as *mut u8);
            block.address = 0;
        }
    }
}

kernel! {
    /// Every thread checks its block's content and frees it.
    pub struct CheckAndFree = "scatterheap_kernel_check_and_free";
    fn body(arguments: &BlocksArguments) {
        let Some(index) = arguments.index() else { return };
        let mut counts = Counts::default();
        // SAFETY: as in `Fill`; nobody else uses the block.
        unsafe {
            let block = arguments.block(index);
            if block.address == 0 {
                return;
            }
            let pointer = block.address as *mut u8;
            let intact = pattern::is_intact(pointer, block.bytes, arguments.first_owner + index);
            counts.add(Count::Corrupt, u64::from(!intact));
            arguments.heap.free(pointer);
            counts.add(Count::Operations, 1);
            block.address = 0;
            counts.report(arguments.tally);
        }
    }
}
