//! What was asked of a device for memory: calls of its driver, and bytes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// Calls that this thread made, of all devices.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what is asked of a device.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    calls: AtomicU64,
    bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

/// What was asked of a device through one handle and its clones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUsage {
    /// Calls of the driver that allocated, freed, mapped or unmapped memory, recorded events or
    /// waited for them. On the CPU, calls of the system in their place.
    pub driver_calls: u64,
    /// Bytes of memory that are taken.
    pub bytes: u64,
    /// The most that were, at once.
    pub peak_bytes: u64,
}

impl Traffic {
    /// Takes note of calls.
    pub fn called(&self, times: u64) {
        // Relaxed, here and below: each number is exact in itself, and nothing is read through them.
        self.calls.fetch_add(times, Ordering::Relaxed);
        CALLS.set(CALLS.get() + times);
    }

    /// Takes note of memory that was allocated.
    pub fn took(&self, bytes: u64) {
        let now = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_bytes.fetch_max(now, Ordering::Relaxed);
    }

    /// Takes note of memory that was given back.
    pub fn gave(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Forgets the most that was taken before.
    pub fn reset_peak(&self) {
        self.peak_bytes
            .store(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// What was counted.
    pub fn usage(&self) -> DeviceUsage {
        DeviceUsage {
            driver_calls: self.calls.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            peak_bytes: self.peak_bytes.load(Ordering::Relaxed),
        }
    }
}

/// Calls as in [`DeviceUsage::driver_calls`] that the calling thread made so far, of all devices.
#[must_use]
pub fn driver_calls_of_thread() -> u64 {
    CALLS.get()
}
