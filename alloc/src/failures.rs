//! What is left of a launch that ran out of memory: a trap takes everything on the device with it, so this lies
//! in memory of the host.

use core::alloc::Layout;
use simt::atomic::{DeviceAtomicU64, Ordering, SystemAtomicU64};
use simt::thread;

/// Requests that had to be served and could not. Valid if all bytes are zero.
#[repr(C)]
pub struct Failures {
    /// One device counts, and the host reads after the launch has ended: device scope will do.
    count: DeviceAtomicU64,
    bytes: SystemAtomicU64,
    thread: SystemAtomicU64,
}

/// Requests that had to be served and could not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// How many.
    pub count: u64,
    /// Bytes that one of them asked for; the last to be noted.
    pub bytes: u64,
    /// Index in the grid of a thread that asked.
    pub thread: u32,
}

impl Failures {
    /// Takes note of a request of the calling thread.
    pub fn note(&self, request: Layout) {
        // Relaxed: the stores that follow release it to the host.
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.store(request.size() as u64, Ordering::Release);
        self.thread
            .store(u64::from(thread::index_1d()), Ordering::Release);
    }

    /// What was noted, if anything.
    #[must_use]
    pub fn failed(&self) -> Option<Failed> {
        let thread = self.thread.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Acquire);
        // Acquire: pairs with the stores of `note`, as the loads before do.
        let count = self.count.load(Ordering::Acquire);
        (count > 0).then(|| Failed {
            count,
            bytes,
            thread: u32::try_from(thread).unwrap_or(u32::MAX),
        })
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_and_the_last_is_kept() {
        let failures = Failures {
            count: DeviceAtomicU64::new(0),
            bytes: SystemAtomicU64::new(0),
            thread: SystemAtomicU64::new(0),
        };
        assert_eq!(failures.failed(), None);
        for bytes in [24, 4096] {
            failures.note(Layout::from_size_align(bytes, 8).expect("a layout"));
        }
        let expected = Failed {
            count: 2,
            bytes: 4096,
            thread: 0,
        };
        assert_eq!(failures.failed(), Some(expected));
    }
}
