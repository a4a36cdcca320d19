//! One look at a heap that is in use.

use super::{Seen, lock};
use crate::device::{Device, Stream};
use crate::error::Result;
use crate::virtual_memory::HostMemory;
use heap_core::inspect::{Glimpse, glimpse_bytes};
use heap_core::layout::Layout;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a count.
const COUNT: usize = size_of::<u64>();

/// What was seen.
pub(super) struct Look {
    pub glimpse: Glimpse,
    /// Operations that were counted, if they are.
    pub operations: Option<u64>,
    /// How long the copy took.
    pub copying: Duration,
}

/// What looking needs.
pub(super) struct Looker {
    /// Of a GPU: a stream that waits for no other, and page-locked memory for the copies.
    gpu: Option<(Stream, HostMemory)>,
}

impl Looker {
    pub fn new(device: &Device, layout: &Layout) -> Result<Self> {
        if !device.is_gpu() {
            return Ok(Self { gpu: None });
        }
        let bytes = glimpse_bytes(layout) + COUNT as u64;
        let gpu = (Stream::new(device)?, device.allocate_host(bytes)?);
        Ok(Self { gpu: Some(gpu) })
    }

    /// Looks, if there is something to be seen.
    ///
    /// # Errors
    ///
    /// If the device fails, or the heap's head is damaged.
    pub fn look(&mut self, exposed: &Mutex<Option<Seen>>) -> Result<Option<Look>> {
        // Locked until all is copied, so that it is there.
        let shown = lock(exposed);
        let begin = Instant::now();
        let Some(seen) = &*shown else {
            return Ok(None);
        };
        let Some((stream, buffer)) = &mut self.gpu else {
            return in_place(seen).map(Some);
        };
        // The buffer is gone with a device that was recovered.
        stream.alive()?;
        let length = usize::try_from(glimpse_bytes(seen.head.layout())).unwrap_or(usize::MAX);
        // SAFETY: nobody else has the buffer, and it is there.
        let (metadata, count) = unsafe { buffer.bytes_mut() }.split_at_mut(length);
        // SAFETY: what is shown is there until it is taken back, which waits for the lock.
        unsafe {
            stream.peek(seen.metadata, metadata)?;
            if let Some(operations) = seen.operations {
                stream.peek(operations, &mut count[..COUNT])?;
            }
        }
        let copying = begin.elapsed();
        let operations = seen
            .operations
            .map(|_| bytemuck::pod_read_unaligned(&count[..COUNT]));
        drop(shown);
        Ok(Some(Look {
            glimpse: Glimpse::new(metadata.to_vec())?,
            operations,
            copying,
        }))
    }
}

/// Looks at a heap of the CPU where it is.
fn in_place(seen: &Seen) -> Result<Look> {
    let begin = Instant::now();
    // SAFETY: what is shown is an initialised heap, and there until it is taken back, which waits for the lock that
    // the caller holds.
    let glimpse = unsafe { Glimpse::of_running(&seen.head)? };
    let read = |address: u64| {
        // SAFETY: a count of a tally is an atomic of 64 bits, and there as above.
        let count = unsafe { AtomicU64::from_ptr(address as *mut u64) };
        // Relaxed: nothing is reached through it.
        count.load(Ordering::Relaxed)
    };
    Ok(Look {
        glimpse,
        operations: seen.operations.map(read),
        copying: begin.elapsed(),
    })
}
