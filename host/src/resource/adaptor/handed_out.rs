//! Which blocks an adaptor handed out itself, so that it counts no others.
//!
//! Others may allocate from the same upstream, and free through the adaptor: to wake who waits, for one.

use super::super::ledger::Ledger;
use super::super::{DEFAULT_ALIGNMENT, DevicePointer, MemoryResource, Result};
use crate::device::Stream;

/// The blocks that went through an adaptor and are not back.
#[derive(Debug)]
pub(super) struct HandedOut(Ledger);

impl HandedOut {
    /// None yet, of an adaptor of this name.
    pub fn new(adaptor: &'static str) -> Self {
        Self(Ledger::new(adaptor))
    }

    /// Takes note of a block that the upstream allocated.
    pub fn insert(&self, pointer: DevicePointer, bytes: u64, alignment: u64) -> Result<()> {
        self.0
            .insert(pointer, bytes, alignment.max(DEFAULT_ALIGNMENT))
    }

    /// Gives a block back to the upstream; whether the adaptor had handed it out.
    ///
    /// # Safety
    ///
    /// As for [`MemoryResource::deallocate`] of the upstream.
    pub unsafe fn deallocate(
        &self,
        upstream: &impl MemoryResource,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<bool> {
        // Before the call, as another thread may get the same block right after it.
        let least = alignment.max(DEFAULT_ALIGNMENT);
        let is_own = self.0.remove(pointer, bytes, least).is_ok();
        // SAFETY: as the caller promises.
        let deallocated = unsafe { upstream.deallocate(pointer, bytes, alignment, stream) };
        if is_own && deallocated.is_err() {
            self.0.insert(pointer, bytes, least)?;
        }
        deallocated.map(|()| is_own)
    }
}
