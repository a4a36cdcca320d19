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

    /// Gives a block back to the upstream: whether the adaptor had handed it out and it is gone now, so that it counts no
    /// more, and what the upstream said. It is gone too where another thread gave it back between: that found no entry, so
    /// whoever took the entry out counts it.
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
    ) -> (bool, Result<()>) {
        // Before the call, as another thread may get the same block right after it.
        let least = alignment.max(DEFAULT_ALIGNMENT);
        let is_own = self.0.remove(pointer, bytes, least).is_ok();
        // SAFETY: as the caller promises.
        let deallocated = unsafe { upstream.deallocate(pointer, bytes, alignment, stream) };
        let is_there = match &deallocated {
            Err(error) if is_own => self.0.restore(pointer, (bytes, least), 0, error),
            _ => false,
        };
        (is_own && !is_there, deallocated)
    }
}
