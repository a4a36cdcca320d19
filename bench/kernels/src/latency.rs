//! How long single calls take: every thread allocates some blocks and frees them, and notes the ticks of each call.
//!
//! Ticks are turned into nanoseconds by a second clock, which is too coarse for a call, and read when a thread
//! begins and when it ends.

use crate::allocator::{DeviceAllocator, Native};
use crate::faults::{Fault, report};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use kernels::sizes::Sizes;
use simt::{kernel, thread, time};

/// What is timed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Watch {
    /// Threads.
    pub count: u64,
    /// Blocks of each thread, below 2^20.
    pub rounds: u64,
    /// Sizes asked for, at least 16 bytes.
    pub sizes: Sizes,
    /// Address of `rounds * count` numbers of 4 bytes, for one round after the other: one more than the ticks of each call of `malloc`.
    pub mallocs: u64,
    /// The same for `free`, by the round of its block; 0 where there was no block.
    pub frees: u64,
    /// Address of a [`Span`] for each thread.
    pub spans: u64,
    /// Address of the counters of [`Fault`].
    pub faults: u64,
}

/// How long a thread was at work, by two clocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Span {
    /// Ticks of the clock of its multiprocessor.
    pub ticks: u64,
    /// Nanoseconds of the device's clock.
    pub nanoseconds: u64,
}

/// Arguments of the kernels of this module.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LatencyArguments<A> {
    /// The allocator.
    pub allocator: A,
    /// What is timed.
    pub watch: Watch,
}

// SAFETY: all zeroes are an allocator's and a watch's.
unsafe impl<A: DeviceAllocator> Zeroable for LatencyArguments<A> {}
// SAFETY: both parts are plain old data, aligned to 8 bytes and a multiple of 8 long, the allocator as its trait wants it, so there is
// no padding between them nor behind them.
unsafe impl<A: DeviceAllocator> Pod for LatencyArguments<A> {}

/// The first 16 bytes of a block.
#[repr(C)]
struct Link {
    /// The thread's block before, or NULL.
    before: *mut Link,
    /// Whose it is, and of which round.
    mark: u64,
}

const ROUND_BITS: u32 = 20;

/// Calls, and gives what the call gave. Notes one more than the ticks that it took, or what 32 bits hold.
///
/// # Safety
///
/// There must be a number of 4 bytes at `index` of `notes`.
#[inline(always)]
unsafe fn timed<T>(notes: u64, index: u64, call: impl FnOnce() -> T) -> T {
    let start = time::ticks();
    let given = call();
    let ticks = time::ticks().wrapping_sub(start);
    let note = ticks.min(u64::from(u32::MAX) - 1) as u32 + 1;
    // SAFETY: as the caller promises.
    unsafe { (notes as *mut u32).add(index as usize).write(note) };
    given
}

/// What a thread does.
///
/// # Safety
///
/// The arguments must be valid, and the arrays as long as they say.
#[inline(always)]
unsafe fn watch_calls<A: DeviceAllocator>(allocator: &A, watch: &Watch) {
    let thread = u64::from(thread::index_1d());
    if thread >= watch.count {
        return;
    }
    let (ticks, nanoseconds) = (time::ticks(), time::now());
    let mut last: *mut Link = core::ptr::null_mut();
    for round in 0..watch.rounds {
        let bytes = watch.sizes.of(thread, round);
        let index = round * watch.count + thread;
        // SAFETY: there is a number for each round of each thread.
        let block = unsafe { timed(watch.mallocs, index, || allocator.malloc(bytes)) };
        if block.is_null() {
            // SAFETY: as the caller promises.
            unsafe { report(watch.faults, Fault::Null, 1) };
            continue;
        }
        let (before, mark) = (last, thread << ROUND_BITS | round);
        last = block.cast();
        // SAFETY: the block has 16 bytes, and is this thread's.
        unsafe { last.write(Link { before, mark }) };
    }
    while !last.is_null() {
        // SAFETY: the block is this thread's until it is freed.
        let Link { before, mark } = unsafe { last.read() };
        let round = mark & ((1 << ROUND_BITS) - 1);
        if mark >> ROUND_BITS != thread || round >= watch.rounds {
            // Where the one before lies is not known either. SAFETY: as the caller promises.
            unsafe { report(watch.faults, Fault::Corrupt, 1) };
            break;
        }
        let index = round * watch.count + thread;
        // SAFETY: there is a number for each round of each thread, and nobody uses the block any more.
        unsafe { timed(watch.frees, index, || allocator.free(last.cast())) };
        last = before;
    }
    let span = Span {
        ticks: time::ticks().wrapping_sub(ticks),
        nanoseconds: time::now().wrapping_sub(nanoseconds),
    };
    // SAFETY: there is a place for each thread.
    unsafe { (watch.spans as *mut Span).add(thread as usize).write(span) };
}

kernel! {
    /// Every thread times its calls to the heap.
    pub struct Latency = "scatterheap_bench_heap_latency";
    fn body(arguments: &LatencyArguments<Heap>) {
        // SAFETY: as the host promised.
        unsafe { watch_calls(&arguments.allocator, &arguments.watch) };
    }
}

kernel! {
    /// Every thread times its calls to the device's own allocator.
    pub struct NativeLatency = "scatterheap_bench_native_latency";
    fn body(arguments: &LatencyArguments<Native>) {
        // SAFETY: as the host promised.
        unsafe { watch_calls(&arguments.allocator, &arguments.watch) };
    }
}
