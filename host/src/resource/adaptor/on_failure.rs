//! Asks what to do when memory is out.

use super::super::{DevicePointer, Live, MemoryResource, Result};
use crate::device::{Device, MemoryInfo, Stream};
use std::fmt;

/// Calls a function when memory is out, which may free some; if it says so, the allocation is tried
/// again. It is called until it gives up or there is enough. Other errors go through.
///
/// It belongs above every resource through which the function frees: those below it may be in the middle of the
/// allocation that failed, and wait for its end before they take anything back.
pub struct OnFailure<U, F> {
    upstream: U,
    handler: F,
}

impl<U, F> OnFailure<U, F>
where
    U: MemoryResource,
    F: Fn(u64) -> bool + Send + Sync,
{
    /// Calls `handler` with the bytes that were asked for; it says whether to try again.
    #[must_use]
    pub fn new(upstream: U, handler: F) -> Self {
        Self { upstream, handler }
    }

    /// The resource below.
    pub fn upstream(&self) -> &U {
        &self.upstream
    }
}

// SAFETY: the blocks are those of the upstream.
unsafe impl<U, F> MemoryResource for OnFailure<U, F>
where
    U: MemoryResource,
    F: Fn(u64) -> bool + Send + Sync,
{
    fn device(&self) -> &Device {
        self.upstream.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        loop {
            match self.upstream.allocate(bytes, alignment, stream) {
                Err(error) if error.is_out_of_memory() && (self.handler)(bytes) => (),
                allocated => return allocated,
            }
        }
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.upstream.deallocate(pointer, bytes, alignment, stream) }
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

impl<U: fmt::Debug, F> fmt::Debug for OnFailure<U, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OnFailure")
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}
