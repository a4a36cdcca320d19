//! Why requests failed, and how often: counted on the device, read by the host.
//!
//! Counters are relaxed: they carry no other data, and are read when the device is idle.

use simt::atomic::{DeviceAtomicU64, Ordering};

/// Why `malloc` returned NULL.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No slot of this class or a larger one, and no page to make one of.
    Exhausted = 0,
    /// Enough pages are free, but not side by side as asked.
    Fragmented = 1,
    /// The request is larger than the heap may ever be, overflows, or has an alignment that is no
    /// power of two, or larger than that of any place for it in the heap.
    Impossible = 2,
    /// Metadata that a stray write has changed: what they say cannot be, or keeps a request
    /// searching for what is not there. Counted where the allocator comes upon them, so it may be
    /// more or less than the requests that got NULL for that. A free that is refused because its
    /// page's entry is damaged is counted here too, under the runs.
    Damaged = 3,
}

/// Number of [`Failure`] kinds.
pub const FAILURES: usize = 4;

/// Counters of a class; the last of the array is for runs of pages.
#[repr(C, align(64))]
pub struct ClassCounters {
    /// Failed requests by [`Failure`].
    pub failures: [DeviceAtomicU64; FAILURES],
    /// Requests served, if the heap counts them.
    pub served: DeviceAtomicU64,
    /// Bytes asked for by the requests served, if the heap counts them.
    pub asked: DeviceAtomicU64,
}

impl ClassCounters {
    /// All zero.
    #[must_use]
    pub fn zero() -> Self {
        Self {
            failures: core::array::from_fn(|_| DeviceAtomicU64::new(0)),
            served: DeviceAtomicU64::new(0),
            asked: DeviceAtomicU64::new(0),
        }
    }

    /// Counts `count` failed requests.
    pub fn count_failures(&self, failure: Failure, count: u32) {
        self.failures[failure as usize].fetch_add(u64::from(count), Ordering::Relaxed);
    }

    /// Whether a failure was counted.
    pub fn has_failed(&self, failure: Failure) -> bool {
        // Relaxed: a hint.
        self.failures[failure as usize].load(Ordering::Relaxed) != 0
    }

    /// Counts a request of `bytes` that was served.
    #[inline(always)]
    pub fn count_served(&self, bytes: u64) {
        self.served.fetch_add(1, Ordering::Relaxed);
        self.asked.fetch_add(bytes, Ordering::Relaxed);
    }
}
