//! How long single calls take: a histogram in device memory, in ticks of the multiprocessor's clock.
//!
//! Buckets are a quarter of a power of two wide, so a time is known to a quarter of itself. Each multiprocessor counts
//! in one of several copies, so that lanes seldom meet at a counter.

use core::cell::Cell;
use simt::atomic::{DeviceAtomicU64, Ordering};
use simt::{thread, time};

/// A call that is timed.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `malloc`, `calloc` and `aligned_alloc`.
    Malloc,
    /// `realloc`.
    Realloc,
    /// `free`.
    Free,
}

/// Number of calls.
pub const CALLS: usize = 3;
/// Buckets of a call; the last has all that took longer.
pub const BUCKETS: usize = 160;
/// Copies of [`Latencies`] that there must be, side by side.
pub const COPIES: usize = 64;

/// A copy of the histogram.
#[repr(C, align(64))]
pub struct Latencies {
    calls: [[DeviceAtomicU64; BUCKETS]; CALLS],
    /// Ticks and nanoseconds that the same threads took, to know how long a tick is.
    ticks: DeviceAtomicU64,
    nanoseconds: DeviceAtomicU64,
}

/// The bucket of a number of ticks.
#[must_use]
pub const fn bucket(ticks: u64) -> usize {
    if ticks < 4 {
        return ticks as usize;
    }
    let log = ticks.ilog2();
    let bucket = (log as usize - 1) * 4 + ((ticks >> (log - 2)) & 3) as usize;
    if bucket < BUCKETS {
        bucket
    } else {
        BUCKETS - 1
    }
}

/// The least number of ticks in a bucket.
#[must_use]
pub const fn least_of(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    (4 + bucket as u64 % 4) << (bucket / 4 - 1)
}

/// Times calls, or does not.
pub trait Clock {
    /// A call begins.
    fn start(&self) -> u64;
    /// A call that began at `start` ended, and gave a block at this address if it gives one.
    fn stop(&self, call: Call, start: u64, address: u64);
}

/// Times nothing, and costs nothing.
pub struct NoClock;

impl Clock for NoClock {
    #[inline(always)]
    fn start(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn stop(&self, _: Call, _: u64, _: u64) {}
}

/// Times a thread's calls.
pub struct CallClock {
    latencies: *const Latencies,
    begin_ticks: u64,
    begin: u64,
    /// Where results are put before the clock is read: the hardware waits for what it stores, not for what it has
    /// only ordered.
    result: Cell<u64>,
}

impl CallClock {
    /// A clock that counts in the histogram at an address.
    ///
    /// # Safety
    ///
    /// [`COPIES`] of [`Latencies`] must lie there, and outlive the clock.
    #[must_use]
    pub unsafe fn at(address: u64) -> Self {
        let copy = thread::sm_id() as usize % COPIES;
        Self {
            // SAFETY: as the caller promises.
            latencies: unsafe { (address as *const Latencies).add(copy) },
            begin_ticks: time::ticks(),
            begin: time::now(),
            result: Cell::new(0),
        }
    }

    fn latencies(&self) -> &Latencies {
        // SAFETY: as whoever made the clock promised.
        unsafe { &*self.latencies }
    }

    /// Tells how long the thread's work took, by both clocks.
    pub fn finish(self) {
        let latencies = self.latencies();
        let ticks = time::ticks() - self.begin_ticks;
        let nanoseconds = time::now() - self.begin;
        // Relaxed: read by the host after the launch.
        latencies.ticks.fetch_add(ticks, Ordering::Relaxed);
        latencies
            .nanoseconds
            .fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Clock for CallClock {
    #[inline(always)]
    fn start(&self) -> u64 {
        time::ticks()
    }

    #[inline(always)]
    fn stop(&self, call: Call, start: u64, address: u64) {
        // SAFETY: the cell is this thread's own.
        unsafe { self.result.as_ptr().write_volatile(address) };
        let ticks = time::ticks() - start;
        let counters = &self.latencies().calls[call as usize];
        // There is one for each bucket, but the compiler does not know, and a panic has no place in a kernel.
        if let Some(counter) = counters.get(bucket(ticks)) {
            // Relaxed: read by the host after the launch.
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        for bucket_number in 0..BUCKETS {
            let least = least_of(bucket_number);
            assert_eq!(bucket(least), bucket_number);
            if bucket_number > 0 {
                assert_eq!(bucket(least - 1), bucket_number - 1);
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_bucket_is_narrow() {
        for number in 4..BUCKETS - 1 {
            let (least, next) = (least_of(number), least_of(number + 1));
            assert!((next - least) * 4 <= least, "{least} {next}");
        }
    }
}
