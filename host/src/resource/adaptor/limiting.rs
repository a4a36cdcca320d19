//! Refuses more than so many bytes at once.

use super::super::{DevicePointer, Error, Live, MAX_BYTES, MemoryResource, Result};
use super::HandedOut;
use crate::device::{Device, MemoryInfo, Stream};
use std::sync::atomic::{AtomicU64, Ordering};

/// Lets no more than so many bytes be handed out at once through it. Each block counts with its bytes rounded
/// up to a multiple of 256.
#[derive(Debug)]
pub struct Limiting<U> {
    upstream: U,
    limit: u64,
    used: AtomicU64,
    handed_out: HandedOut,
}

fn size(bytes: u64) -> u64 {
    bytes.min(MAX_BYTES).next_multiple_of(256)
}

impl<U: MemoryResource> Limiting<U> {
    /// Lets `limit` bytes through.
    #[must_use]
    pub fn new(upstream: U, limit: u64) -> Self {
        Self {
            upstream,
            limit,
            used: AtomicU64::new(0),
            handed_out: HandedOut::new("a limit"),
        }
    }

    /// The resource below.
    pub fn upstream(&self) -> &U {
        &self.upstream
    }

    /// Bytes that may be handed out at once.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that are handed out.
    #[must_use]
    pub fn used(&self) -> u64 {
        // Relaxed: a number of no moment in particular.
        self.used.load(Ordering::Relaxed)
    }
}

// SAFETY: the blocks are those of the upstream.
unsafe impl<U: MemoryResource> MemoryResource for Limiting<U> {
    fn device(&self) -> &Device {
        self.upstream.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let within = |used: u64| {
            let sum = used.checked_add(size(bytes))?;
            (sum <= self.limit).then_some(sum)
        };
        // Relaxed, here and below: an update sees the newest number, and nothing is read through it.
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map_err(|used| Error::LimitReached {
                asked: bytes,
                used,
                limit: self.limit,
            })?;
        let allocated = self.upstream.allocate(bytes, alignment, stream);
        match &allocated {
            Ok(block) => self.handed_out.insert(*block, bytes, alignment)?,
            Err(_) => _ = self.used.fetch_sub(size(bytes), Ordering::Relaxed),
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
        if is_gone {
            self.used.fetch_sub(size(bytes), Ordering::Relaxed);
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
        let below = self.upstream.memory()?;
        Ok(MemoryInfo {
            free: below.free.min(self.limit.saturating_sub(self.used())),
            total: below.total.min(self.limit),
        })
    }
}
