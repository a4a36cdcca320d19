//! Counts calls and bytes.
//!
//! Each thread has counters of its own, but for the bytes that are handed out, whose highest number
//! is of all threads together.

use super::super::{DevicePointer, Live, MemoryResource, Result};
use super::HandedOut;
use crate::device::{Device, MemoryInfo, Stream};
use crate::thread_slots::SharedSlots;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what goes through it.
#[derive(Debug)]
pub struct Statistics<U> {
    upstream: U,
    threads: SharedSlots<Own>,
    bytes: AtomicU64,
    peak_bytes: AtomicU64,
    handed_out: HandedOut,
}

/// What a thread counted, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Own {
    allocations: AtomicU64,
    deallocations: AtomicU64,
    failures: AtomicU64,
    total_bytes: AtomicU64,
}

/// What a [`Statistics`] adaptor counted. Bytes are those that were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that allocated.
    pub allocations: u64,
    /// Calls that took a block back.
    pub deallocations: u64,
    /// Calls that did neither.
    pub failures: u64,
    /// Bytes that were handed out through it, and are.
    pub bytes: u64,
    /// The most that were, at once.
    pub peak_bytes: u64,
    /// All that ever were.
    pub total_bytes: u64,
}

impl<U: MemoryResource> Statistics<U> {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(upstream: U) -> Self {
        Self {
            upstream,
            threads: SharedSlots::default(),
            bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            handed_out: HandedOut::new("statistics"),
        }
    }

    /// The resource below.
    pub fn upstream(&self) -> &U {
        &self.upstream
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        // Relaxed, here and below: each number is exact in itself, and nothing is read through them.
        let mut counts = Counts {
            bytes: self.bytes.load(Ordering::Relaxed),
            peak_bytes: self.peak_bytes.load(Ordering::Relaxed),
            ..Counts::default()
        };
        for own in self.threads.iter() {
            counts.allocations += own.allocations.load(Ordering::Relaxed);
            counts.deallocations += own.deallocations.load(Ordering::Relaxed);
            counts.failures += own.failures.load(Ordering::Relaxed);
            counts.total_bytes += own.total_bytes.load(Ordering::Relaxed);
        }
        counts
    }
}

// SAFETY: the blocks are those of the upstream.
unsafe impl<U: MemoryResource> MemoryResource for Statistics<U> {
    fn device(&self) -> &Device {
        self.upstream.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let allocated = self.upstream.allocate(bytes, alignment, stream);
        let own = self.threads.own();
        let Ok(block) = allocated else {
            own.failures.fetch_add(1, Ordering::Relaxed);
            return allocated;
        };
        self.handed_out.insert(block, bytes, alignment)?;
        own.allocations.fetch_add(1, Ordering::Relaxed);
        own.total_bytes.fetch_add(bytes, Ordering::Relaxed);
        let now = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Looked at first, as it seldom rises, and a look disturbs no other thread.
        if now > self.peak_bytes.load(Ordering::Relaxed) {
            self.peak_bytes.fetch_max(now, Ordering::Relaxed);
        }
        allocated
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let (blocks, upstream) = (&self.handed_out, &self.upstream);
        // SAFETY: as the caller promises.
        let (is_gone, deallocated) =
            unsafe { blocks.deallocate(upstream, pointer, bytes, alignment, stream) };
        let own = self.threads.own();
        match &deallocated {
            Ok(()) => own.deallocations.fetch_add(1, Ordering::Relaxed),
            Err(_) => own.failures.fetch_add(1, Ordering::Relaxed),
        };
        if is_gone {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        deallocated
    }

    fn live(&self) -> Live {
        self.upstream.live()
    }

    fn trim(&self) -> Result<u64> {
        self.upstream.trim()
    }

    fn memory(&self) -> Result<MemoryInfo> {
        self.upstream.memory()
    }
}
