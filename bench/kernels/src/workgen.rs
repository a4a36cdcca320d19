//! Threads that produce outputs of different lengths: each allocates what it needs and writes it.
//! Against that stand *two passes*, which need no allocator: a pass that counts, a prefix sum that
//! makes places of the counts, and a pass that writes.
//!
//! The prefix sum has levels: each thread of a launch makes the counts of a chunk exclusive sums
//! and leaves the chunk's total for the next level, until one total is left. A place is the sum of
//! one number from each level.

use crate::allocator::{DeviceAllocator, Native};
use crate::faults::{Fault, report};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::{kernel, thread};

/// Counts that a thread sums up.
pub const CHUNK: u64 = 32;

/// What is to be produced.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Work {
    /// Address of `count` lengths of the outputs, in bytes, 4 bytes each, which are rounded down to
    /// words of 4.
    pub sizes: u64,
    /// Address of `count` addresses, where each thread leaves its output's.
    pub outputs: u64,
    /// Number of outputs.
    pub count: u64,
}

/// Arguments of the kernels that allocate.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WorkArguments<A> {
    /// The allocator.
    pub allocator: A,
    /// What is to be produced.
    pub work: Work,
}

// SAFETY: all zeroes are an allocator's and a piece of work's.
unsafe impl<A: DeviceAllocator> Zeroable for WorkArguments<A> {}
// SAFETY: both parts are plain old data, aligned to 8 bytes and a multiple of 8 long, the allocator as its trait wants it, so there is
// no padding between them nor behind them.
unsafe impl<A: DeviceAllocator> Pod for WorkArguments<A> {}

impl Work {
    /// The calling thread's output and its length in words of 4 bytes.
    ///
    /// # Safety
    ///
    /// The lengths must be as many as said.
    #[inline(always)]
    unsafe fn output(&self) -> Option<(usize, u32)> {
        let index = thread::index_1d() as usize;
        if index as u64 >= self.count {
            return None;
        }
        // SAFETY: as the caller promises.
        let bytes = unsafe { (self.sizes as *const u32).add(index).read() };
        Some((index, bytes / 4))
    }

    /// Writes an output, and leaves its address.
    ///
    /// # Safety
    ///
    /// There must be a place for the address, and `block` must be NULL or have that many words.
    #[inline(always)]
    unsafe fn produce(&self, index: usize, block: *mut u32, words: u32) {
        // SAFETY: as the caller promises.
        unsafe {
            if !block.is_null() {
                for place in 0..words {
                    block.add(place as usize).write(word(index, place));
                }
            }
            (self.outputs as *mut u64).add(index).write(block as u64);
        }
    }
}

/// What an output holds.
#[inline(always)]
fn word(index: usize, place: u32) -> u32 {
    (index as u32).wrapping_mul(0x9e37_79b1) ^ place
}

/// Makes the kernel of an allocator.
macro_rules! produce_kernel {
    ($allocator:ty: $produce:ident = $name:literal) => {
        kernel! {
            /// Every thread allocates its output and writes it.
            pub struct $produce = $name;
            fn body(arguments: &WorkArguments<$allocator>) {
                let work = &arguments.work;
                // SAFETY: as the host promised; a block has the words that were asked for.
                unsafe {
                    if let Some((index, words)) = work.output() {
                        let block = arguments.allocator.malloc(u64::from(words) * 4);
                        work.produce(index, block.cast(), words);
                    }
                }
            }
        }
    };
}

produce_kernel! { Heap: Produce = "scatterheap_bench_heap_workgen" }
produce_kernel! { Native: NativeProduce = "scatterheap_bench_native_workgen" }

/// Arguments of the two passes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct PassArguments {
    /// What is to be produced.
    pub work: Work,
    /// Address of the counts, 4 bytes each: those of the outputs in words, then those of each
    /// further level; see [`levels`].
    pub counts: u64,
    /// Address of room for all outputs.
    pub room: u64,
}

/// The levels of the prefix sum of `count` counts: where each begins and how long it is. The last
/// has one count.
pub fn levels(count: u64) -> impl Iterator<Item = (u64, u64)> {
    let next = |(begin, length): &(u64, u64)| {
        (*length > 1).then(|| (begin + length, length.div_ceil(CHUNK)))
    };
    core::iter::successors(Some((0, count)), next)
}

kernel! {
    /// The first pass: every thread counts the words of its output.
    pub struct CountWords = "scatterheap_bench_workgen_count";
    fn body(arguments: &PassArguments) {
        // SAFETY: the host gave a length and a count for each thread.
        unsafe {
            if let Some((index, words)) = arguments.work.output() {
                (arguments.counts as *mut u32).add(index).write(words);
            }
        }
    }
}

/// Arguments of [`SumChunks`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SumArguments {
    /// Address of the counts of a level, 4 bytes each.
    pub counts: u64,
    /// Number of them.
    pub count: u64,
    /// Address of the counts of the next level.
    pub sums: u64,
}

kernel! {
    /// Every thread turns the counts of its chunk into the sums of those before, and leaves the
    /// chunk's sum.
    pub struct SumChunks = "scatterheap_bench_workgen_sum";
    fn body(arguments: &SumArguments) {
        let chunk = u64::from(thread::index_1d());
        let begin = chunk * CHUNK;
        if begin >= arguments.count {
            return;
        }
        let mut sum = 0_u32;
        for index in begin..(begin + CHUNK).min(arguments.count) {
            // SAFETY: the chunk is this thread's.
            unsafe {
                let place = (arguments.counts as *mut u32).add(index as usize);
                let count = place.read();
                place.write(sum);
                sum += count;
            }
        }
        // SAFETY: the next level has a count for each chunk.
        unsafe { (arguments.sums as *mut u32).add(chunk as usize).write(sum) };
    }
}

kernel! {
    /// The second pass: every thread writes its output to its place.
    pub struct WriteOutputs = "scatterheap_bench_workgen_write";
    fn body(arguments: &PassArguments) {
        let work = &arguments.work;
        // SAFETY: as the host promised; the levels' counts are sums by now, and the room has all
        // outputs.
        unsafe {
            let Some((index, words)) = work.output() else { return };
            let counts = arguments.counts as *const u32;
            let (mut begin, mut length, mut chunk, mut first) = (0, work.count, index as u64, 0);
            while length > 1 {
                first += u64::from(counts.add((begin + chunk) as usize).read());
                (begin, length, chunk) = (begin + length, length.div_ceil(CHUNK), chunk / CHUNK);
            }
            let place = (arguments.room as *mut u32).add(first as usize);
            work.produce(index, place, words);
        }
    }
}

/// Arguments of [`CheckOutputs`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct CheckArguments {
    /// What was produced.
    pub work: Work,
    /// Address of the counters of [`Fault`].
    pub faults: u64,
}

kernel! {
    /// Every thread looks whether its output is there and right.
    pub struct CheckOutputs = "scatterheap_bench_workgen_check";
    fn body(arguments: &CheckArguments) {
        let work = &arguments.work;
        // SAFETY: as the host promised; outputs have the lengths that were asked for.
        unsafe {
            let Some((index, words)) = work.output() else { return };
            let output = (work.outputs as *const u64).add(index).read() as *const u32;
            if output.is_null() {
                report(arguments.faults, Fault::Null, 1);
                return;
            }
            let mut wrong = 0;
            for place in 0..words {
                wrong |= output.add(place as usize).read() ^ word(index, place);
            }
            report(arguments.faults, Fault::Corrupt, u32::from(wrong != 0));
        }
    }
}
