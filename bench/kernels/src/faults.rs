//! Counters of what a kernel of a test found wrong.

use bytemuck::{Pod, Zeroable};
use simt::atomic::{DeviceAtomicU32, Ordering};
use simt::{kernel, thread};

/// The counters, by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Fault {
    /// NULL instead of a block.
    Null,
    /// A block that does not hold what was written.
    Corrupt,
}

/// Number of counters.
pub const COUNTERS: usize = 2;

/// Adds to the counter of a fault.
///
/// # Safety
///
/// `counters` must be the address of [`COUNTERS`] counters of 4 bytes.
#[inline(always)]
pub unsafe fn report(counters: u64, fault: Fault, count: u32) {
    if count != 0 {
        // SAFETY: as the caller promises.
        let counter = unsafe { &*(counters as *const DeviceAtomicU32).add(fault as usize) };
        // Relaxed: read by the host after the launch.
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// Arguments of [`CountNulls`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct NullsArguments {
    /// Address of `count` addresses of blocks, or NULL.
    pub blocks: u64,
    /// Number of blocks.
    pub count: u64,
    /// Address of the counters of [`Fault`].
    pub faults: u64,
}

kernel! {
    /// Counts the requests that got NULL.
    pub struct CountNulls = "scatterheap_bench_count_nulls";
    fn body(arguments: &NullsArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.count {
            return;
        }
        // SAFETY: the host gave an address for each thread, and counters.
        unsafe {
            let block = (arguments.blocks as *const u64).add(thread as usize).read();
            report(arguments.faults, Fault::Null, u32::from(block == 0));
        }
    }
}
