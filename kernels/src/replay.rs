//! A real program's allocations, by many warps at once.
//!
//! The trace is split over the 32 lanes of a warp, object by object; every warp runs a copy of
//! it. A lane's operations are an array; its live blocks are a table. Both are the lane's own, so
//! lanes never wait for each other.

use crate::latency::{Call, CallClock, Clock, NoClock};
use crate::pattern;
use crate::tally::{Count, Counts, USUAL_ALIGNMENT};
use bytemuck::{Pod, Zeroable};
use core::alloc::Layout;
use heap::Heap;
use simt::{kernel, thread};

/// What an operation does.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `malloc`, with the alignment given.
    Malloc = 0,
    /// `calloc`.
    Calloc = 1,
    /// `realloc`.
    Realloc = 2,
    /// `free`.
    Free = 3,
}

/// An operation of a lane.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Operation {
    /// Bytes asked for.
    pub bytes: u64,
    /// Place of the block in the lane's table.
    pub place: u32,
    /// A [`Kind`].
    pub kind: u8,
    /// Binary logarithm of the alignment.
    pub alignment_log2: u8,
    /// Zero.
    pub padding: u16,
}

impl Operation {
    /// What the block's address must be a multiple of: what `malloc` was asked for, and for the others what every block has.
    const fn alignment(&self) -> u64 {
        if self.kind == Kind::Malloc as u8 {
            1 << self.alignment_log2
        } else {
            USUAL_ALIGNMENT
        }
    }

    /// Counts what came of the call, and what is wrong with the block; true if it gave one.
    fn gave(&self, heap: &Heap, block: *mut u8, counts: &mut Counts) -> bool {
        counts.allocated_aligned(heap, block, self.bytes, self.alignment())
    }
}

/// A place of a lane's table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Place {
    /// Address of the block, or 0.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Arguments of [`Replay`] and [`ReplayTimed`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ReplayArguments {
    /// The heap.
    pub heap: Heap,
    /// Address of the tally.
    pub tally: u64,
    /// Threads that work: copies times lanes.
    pub count: u64,
    /// Lanes that a copy is split over.
    pub lanes: u64,
    /// Address of the operations of all lanes.
    pub operations: u64,
    /// Address of `lanes + 1` indices (u32) of the operations: lane `l` of this window runs those
    /// from element `l` to element `l + 1`.
    pub ranges: u64,
    /// Address of the tables: `places` for each thread.
    pub tables: u64,
    /// Places of a table.
    pub places: u64,
    /// Address of the [`latency`](crate::latency) histogram; [`Replay`] has none.
    pub latencies: u64,
}

impl ReplayArguments {
    /// A place of a thread's table; places of the same number lie side by side for the threads.
    ///
    /// # Safety
    ///
    /// The arguments must be as they say, the thread the caller, the place in its table.
    unsafe fn place<'a>(&self, thread: u64, place: u32) -> &'a mut Place {
        let index = u64::from(place) * self.count + thread;
        // SAFETY: as the caller promises.
        unsafe { &mut *(self.tables as *mut Place).add(index as usize) }
    }
}

/// Runs one operation on its place.
///
/// # Safety
///
/// The place must be the caller's alone.
unsafe fn run(
    heap: &Heap,
    operation: &Operation,
    place: &mut Place,
    owner: u64,
    counts: &mut Counts,
    clock: &impl Clock,
) {
    let old = place.address as *mut u8;
    let bytes = operation.bytes;
    // SAFETY: the place holds a block of this thread with a pattern, or 0.
    unsafe {
        if !old.is_null() {
            let intact = pattern::is_intact(old, place.bytes, owner);
            counts.add(Count::Corrupt, u64::from(!intact));
        }
        if operation.kind == Kind::Free as u8 {
            let start = clock.start();
            heap.free(old);
            if !old.is_null() {
                clock.stop(Call::Free, start, place.address);
                counts.add(Count::Operations, 1);
            }
            *place = Place::default();
            return;
        }
        let start = clock.start();
        let (call, block) = if operation.kind == Kind::Realloc as u8 {
            (Call::Realloc, heap.realloc(old, bytes))
        } else if operation.kind == Kind::Calloc as u8 {
            (Call::Malloc, heap.calloc(bytes, 1))
        } else {
            let alignment = operation.alignment() as usize;
            let layout = Layout::from_size_align_unchecked(bytes as usize, alignment);
            (Call::Malloc, heap.aligned_alloc(layout))
        };
        clock.stop(call, start, block as u64);
        if !operation.gave(heap, block, counts) {
            return;
        }
        if operation.kind == Kind::Realloc as u8 && !old.is_null() {
            let intact = pattern::is_intact_up_to(block, bytes, place.bytes, owner);
            counts.add(Count::Corrupt, u64::from(!intact));
        }
        pattern::fill(block, bytes, owner);
        *place = Place {
            address: block as u64,
            bytes,
        };
    }
}

/// Runs the operations of the calling thread's lane in one window.
///
/// # Safety
///
/// The arguments must be as they say, and the thread one of `count`.
#[inline(always)]
unsafe fn run_lane(arguments: &ReplayArguments, thread: u64, clock: &impl Clock) {
    let lane = (thread % arguments.lanes) as usize;
    let mut counts = Counts::default();
    // SAFETY: the host gave arrays as the arguments say; the table is this thread's.
    unsafe {
        let heap = &arguments.heap;
        let ranges = (arguments.ranges as *const u32).add(lane);
        for index in ranges.read()..ranges.add(1).read() {
            let operation = &*(arguments.operations as *const Operation).add(index as usize);
            let place = arguments.place(thread, operation.place);
            let owner = thread << 32 | u64::from(operation.place);
            run(heap, operation, place, owner, &mut counts, clock);
        }
        counts.report(arguments.tally);
    }
}

kernel! {
    /// Every thread runs its lane's operations of one window.
    pub struct Replay = "scatterheap_kernel_replay";
    fn body(arguments: &ReplayArguments) {
        let thread = u64::from(thread::index_1d());
        if thread < arguments.count {
            // SAFETY: the host gave arrays as the arguments say.
            unsafe { run_lane(arguments, thread, &NoClock) };
        }
    }
}

kernel! {
    /// [`Replay`] that times each call of the heap.
    pub struct ReplayTimed = "scatterheap_kernel_replay_timed";
    fn body(arguments: &ReplayArguments) {
        let thread = u64::from(thread::index_1d());
        if thread < arguments.count {
            // SAFETY: the host gave arrays as the arguments say, and a histogram.
            unsafe {
                let clock = CallClock::at(arguments.latencies);
                run_lane(arguments, thread, &clock);
                clock.finish();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Misaligned blocks that are counted if an operation of a kind gives a block at an address.
    fn misaligned(kind: Kind, alignment_log2: u8, address: usize) -> u64 {
        let operation = Operation {
            bytes: 100,
            place: 0,
            kind: kind as u8,
            alignment_log2,
            padding: 0,
        };
        let mut counts = Counts::default();
        // A heap without memory: the block lies outside, which is counted elsewhere.
        let block = core::ptr::without_provenance_mut(address);
        assert!(operation.gave(&Heap::zeroed(), block, &mut counts));
        counts.0[Count::Misaligned as usize]
    }

    #[test]
    fn blocks_that_are_not_aligned_as_asked_are_counted() {
        assert_eq!(misaligned(Kind::Malloc, 6, 0x1040), 0);
        assert_eq!(misaligned(Kind::Malloc, 6, 0x1010), 1);
        assert_eq!(misaligned(Kind::Malloc, 12, 0x1800), 1);
    }

    #[test]
    fn blocks_are_aligned_to_16_whatever_was_asked() {
        assert_eq!(misaligned(Kind::Malloc, 0, 0x1010), 0);
        assert_eq!(misaligned(Kind::Malloc, 0, 0x1008), 1);
        for kind in [Kind::Calloc, Kind::Realloc] {
            // The trace may say more, but these cannot be asked for it.
            assert_eq!(misaligned(kind, 6, 0x1010), 0);
            assert_eq!(misaligned(kind, 6, 0x1008), 1);
        }
    }
}
