//! What litmus tests count.

use simt::atomic::{DeviceAtomicU64, Ordering};

/// What is counted.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LitmusCount {
    /// Rounds that were played.
    Tries,
    /// Calls that gave NULL.
    Nulls,
    /// Blocks in which another thread of the same launch had been last.
    Meetings,
    /// Pairs of rounds in which two threads freed a block each and then got each other's.
    Crossings,
    /// Forbidden: the content of a granule was not what its last owner wrote before `free`.
    StaleBlock,
    /// Forbidden: what the last owner wrote elsewhere before `free` was not there.
    StaleElsewhere,
    /// Forbidden: `realloc` copied something else than the caller had written.
    StaleCopy,
    /// Forbidden: a granule had an owner already.
    Shared,
    /// Cells that gave NULL when they were prepared: then the test tests nothing.
    Unprepared,
}

/// Number of counts.
pub const LITMUS_COUNTS: usize = 9;

/// Counters in device memory.
#[repr(C, align(64))]
pub struct LitmusTally([DeviceAtomicU64; LITMUS_COUNTS]);

/// A thread's own counts, added to the tally once at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct LitmusCounts(pub [u64; LITMUS_COUNTS]);

impl LitmusCounts {
    /// Adds to a count.
    pub fn add(&mut self, count: LitmusCount, amount: u64) {
        self.0[count as usize] += amount;
    }

    /// Adds everything to the tally at an address.
    ///
    /// # Safety
    ///
    /// A [`LitmusTally`] must lie there.
    pub unsafe fn report(&self, tally: u64) {
        // SAFETY: as the caller promises.
        let tally = unsafe { &*(tally as *const LitmusTally) };
        for (counter, amount) in tally.0.iter().zip(self.0) {
            if amount != 0 {
                // Relaxed: read by the host after the launch.
                counter.fetch_add(amount, Ordering::Relaxed);
            }
        }
    }
}
