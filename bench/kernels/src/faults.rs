//! Counters of what a kernel of a test found wrong.

use simt::atomic::{DeviceAtomicU32, Ordering};

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
