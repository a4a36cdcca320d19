//! What tests of resources have in common: giving blocks back, and a resource that refuses to take them.

use super::{DeviceMemory, DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, Stream};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Gives a block back that nothing uses, or what is no such block, which is refused.
pub(super) fn give_back(
    memory: &impl MemoryResource,
    block: DevicePointer,
    bytes: u64,
    alignment: u64,
    stream: &Stream,
) -> Result<()> {
    // SAFETY: the tests use no block that they give back, and own those that they give back wrongly.
    unsafe { memory.deallocate(block, bytes, alignment, stream) }
}

/// The device's memory, which takes blocks back or not, as it is told.
#[derive(Debug)]
pub(super) struct Refusing {
    memory: DeviceMemory,
    refusals: Mutex<VecDeque<Option<Error>>>,
}

/// An error that says nothing about the block.
pub(super) fn refusal() -> Error {
    Error::Log("refused".into())
}

/// Whether it is such an error.
pub(super) fn is_refused<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Log(_)))
}

impl Refusing {
    /// One that refuses nothing yet.
    pub fn new(device: &Device) -> Self {
        Self {
            memory: DeviceMemory::new(device),
            refusals: Mutex::default(),
        }
    }

    /// Says what the next deallocations become: refused with an error, or done. Those after them are done.
    pub fn next(&self, refusals: impl IntoIterator<Item = Option<Error>>) {
        self.refusals.lock().extend(refusals);
    }
}

// SAFETY: the blocks are those of the device's memory.
unsafe impl MemoryResource for Refusing {
    fn device(&self) -> &Device {
        self.memory.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        self.memory.allocate(bytes, alignment, stream)
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        if let Some(error) = self.refusals.lock().pop_front().flatten() {
            return Err(error);
        }
        // SAFETY: as the caller promises.
        unsafe { self.memory.deallocate(pointer, bytes, alignment, stream) }
    }

    fn live(&self) -> Live {
        self.memory.live()
    }
}
