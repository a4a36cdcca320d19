//! Short lives: every thread allocates a block, writes its first and last 8 bytes, reads them and frees it, again and
//! again. Only these: 64 rounds of whole blocks of 16 to 4096 bytes are 17 GB, and would time the memory.

use crate::allocator::{DeviceAllocator, Native};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use kernels::sizes::Sizes;
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering};
use simt::{kernel, thread};

/// Arguments of the kernels of this module.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChurnArguments<A> {
    /// The allocator.
    pub allocator: A,
    /// What is to be done.
    pub rounds: Rounds,
}

/// How much is done.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Rounds {
    /// Threads that work.
    pub count: u64,
    /// Rounds of each thread.
    pub rounds: u64,
    /// Sizes asked for.
    pub sizes: Sizes,
    /// Address of two counters of 4 bytes: NULLs, and blocks that did not hold what was written.
    pub faults: u64,
}

// SAFETY: all zeroes are an allocator's and a number of rounds.
unsafe impl<A: DeviceAllocator> Zeroable for ChurnArguments<A> {}
// SAFETY: both parts are plain old data, aligned to 8 bytes and a multiple of 8 long, the allocator as its trait wants it, so there is
// no padding between them nor behind them.
unsafe impl<A: DeviceAllocator> Pod for ChurnArguments<A> {}

/// What a thread does.
///
/// # Safety
///
/// The arguments must be valid, and there must be two counters.
#[inline(always)]
unsafe fn churn<A: DeviceAllocator>(allocator: &A, rounds: &Rounds) {
    let thread = u64::from(thread::index_1d());
    if thread >= rounds.count {
        return;
    }
    let (mut nulls, mut corrupt) = (0_u32, 0_u32);
    for round in 0..rounds.rounds {
        let words = rounds.sizes.of(thread, round).div_ceil(8);
        let block = allocator.malloc(words * 8).cast::<u64>();
        if block.is_null() {
            nulls += 1;
            continue;
        }
        let mark = thread << 20 ^ round;
        // SAFETY: the block has that many words, and is this thread's until it is freed.
        unsafe {
            let first = &*block.cast::<DeviceAtomicU64>();
            let last = &*block.add(words as usize - 1).cast::<DeviceAtomicU64>();
            // Relaxed: nobody else has the block. Atomic, so that both are written and read.
            first.store(mark, Ordering::Relaxed);
            last.store(!mark, Ordering::Relaxed);
            let wrong = last.load(Ordering::Relaxed) != !mark
                || words > 1 && first.load(Ordering::Relaxed) != mark;
            corrupt += u32::from(wrong);
            allocator.free(block.cast());
        }
    }
    for (index, count) in [nulls, corrupt].into_iter().enumerate() {
        if count != 0 {
            // SAFETY: as the caller promises.
            let counter = unsafe { &*(rounds.faults as *const DeviceAtomicU32).add(index) };
            // Relaxed: read by the host after the launch.
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }
}

kernel! {
    /// Every thread churns on the heap.
    pub struct Churn = "scatterheap_bench_heap_churn";
    fn body(arguments: &ChurnArguments<Heap>) {
        // SAFETY: as the host promised.
        unsafe { churn(&arguments.allocator, &arguments.rounds) };
    }
}

kernel! {
    /// Every thread churns on the device's own allocator.
    pub struct NativeChurn = "scatterheap_bench_native_churn";
    fn body(arguments: &ChurnArguments<Native>) {
        // SAFETY: as the host promised.
        unsafe { churn(&arguments.allocator, &arguments.rounds) };
    }
}
