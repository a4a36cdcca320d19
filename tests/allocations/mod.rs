//! Blocks that a test allocates by the kernels that come along, and then looks at.

#![allow(dead_code, reason = "each test file uses its part")]

use scatterheap::kernels::blocks::{Allocate, Block, BlocksArguments, CheckAndFree, Fill, Release};
use scatterheap::kernels::sizes::Sizes;
use scatterheap::kernels::tally::{COUNTS, Count};
use scatterheap::simt::kernel::Kernel;
use scatterheap::{Grid, Heap, Memory};

/// Blocks of a heap, one for each thread that asked.
pub struct Allocations<'a> {
    heap: &'a Heap,
    threads: u32,
    blocks: Memory,
    tally: Memory,
    sizes: Sizes,
}

/// Sizes from `least` to `most` bytes.
pub fn sizes(least: u64, most: u64) -> Sizes {
    Sizes {
        least,
        most,
        seed: 7,
    }
}

impl<'a> Allocations<'a> {
    /// Lets `threads` threads allocate a block each.
    pub fn new(heap: &'a Heap, threads: u32, sizes: Sizes) -> Self {
        let device = heap.device();
        let memory = |bytes: usize| {
            let memory = device.allocate(bytes as u64).expect("device memory");
            memory.clear().expect("the device works");
            memory
        };
        let allocations = Self {
            heap,
            threads,
            blocks: memory(threads as usize * size_of::<Block>()),
            tally: memory(COUNTS * size_of::<u64>()),
            sizes,
        };
        allocations.launch::<Allocate>(heap);
        allocations
    }

    /// Fills every block with the pattern of its thread.
    pub fn fill(&self) {
        self.launch::<Fill>(self.heap);
    }

    /// Checks the blocks' content and frees them; gives how many were corrupt.
    pub fn check_and_free(&self) -> u64 {
        let before = self.counted(Count::Corrupt);
        self.launch::<CheckAndFree>(self.heap);
        self.counted(Count::Corrupt) - before
    }

    /// Frees the blocks without a look at them.
    pub fn free(&self) {
        self.free_through(self.heap);
    }

    /// Frees the blocks, as if they were those of `heap`.
    pub fn free_through(&self, heap: &Heap) {
        self.launch::<Release>(heap);
    }

    /// The blocks; those that were refused have the address 0.
    pub fn blocks(&self) -> Vec<Block> {
        self.blocks
            .read(0, self.threads as usize)
            .expect("the device works")
    }

    /// Replaces the blocks, for example by some that were freed before.
    pub fn set_blocks(&self, blocks: &[Block]) {
        self.blocks.write(0, blocks).expect("the device works");
    }

    /// What the kernels counted.
    pub fn counted(&self, count: Count) -> u64 {
        let counts: Vec<u64> = self.tally.read(0, COUNTS).expect("the device works");
        counts[count as usize]
    }

    /// Threads that got NULL.
    pub fn nulls(&self) -> u64 {
        self.counted(Count::Nulls)
    }

    fn launch<K: Kernel<Arguments = BlocksArguments>>(&self, heap: &Heap) {
        let arguments = BlocksArguments {
            heap: heap.handle().expect("the heap is there"),
            blocks: self.blocks.address(),
            count: u64::from(self.threads),
            tally: self.tally.address(),
            first_owner: self.blocks.address(),
            sizes: self.sizes,
            stride: 1,
        };
        // SAFETY: the array has a block for each thread, and like the tally it lives until the
        // launch has ended. A block that the heap does not own is refused, not touched.
        unsafe {
            heap.launch::<K>(Grid::of(self.threads), &arguments)
                .expect("the kernel starts");
        }
        heap.device().synchronize().expect("the kernel ends");
    }
}

/// Whether one request takes the whole heap.
pub fn takes_whole(heap: &Heap) -> bool {
    let capacity = heap.capacity();
    let whole = Allocations::new(heap, 1, sizes(capacity, capacity));
    let taken = whole.nulls() == 0;
    whole.free();
    taken
}

/// Checks that a heap is empty, sound, and one piece.
pub fn assert_empty(heap: &Heap) {
    let snapshot = heap.snapshot().expect("the heap is there");
    assert!(snapshot.is_empty(), "{:?}", snapshot.leaks());
    assert_eq!(snapshot.violations(), []);
    assert!(takes_whole(heap), "{:?}", snapshot.occupancy());
}
