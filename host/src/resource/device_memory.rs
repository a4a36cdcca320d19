//! The device's own allocator.

use super::ledger::Ledger;
use super::request::{check, check_stream};
use super::{DEFAULT_ALIGNMENT, DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, Stream};
use crate::memory::Memory;
use parking_lot::Mutex;
use std::collections::HashMap;

/// The device aligns what is at least this large to it.
const LARGE: u64 = 2 << 20;

/// Memory straight from the device: `cuMemAlloc` on a GPU, the system's allocator on the CPU. Slow,
/// and deallocating waits for the stream.
#[derive(Debug)]
pub struct DeviceMemory {
    device: Device,
    ledger: Ledger,
    /// What was allocated, by the pointer that was handed out.
    blocks: Mutex<HashMap<DevicePointer, Memory>>,
}

impl DeviceMemory {
    /// The allocator of this device.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            ledger: Ledger::new("the device's allocator"),
            blocks: Mutex::default(),
        }
    }
}

// SAFETY: a block is within memory that the device allocated for it alone, and that is kept until it is back.
unsafe impl MemoryResource for DeviceMemory {
    fn device(&self) -> &Device {
        &self.device
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(&self.device, stream)?;
        let natural = if bytes >= LARGE {
            LARGE
        } else {
            DEFAULT_ALIGNMENT
        };
        // What the device does not align is made larger by as much as may be skipped.
        let extra = if alignment > natural { alignment } else { 0 };
        let memory = self.device.allocate(bytes + extra)?;
        let out_of_memory = || Error::OutOfMemory {
            resource: self.ledger.resource(),
            asked: bytes,
        };
        let address = memory.address().next_multiple_of(alignment);
        let pointer = DevicePointer::new(address).ok_or_else(out_of_memory)?;
        let mut blocks = self.blocks.lock();
        self.ledger.insert(pointer, bytes, alignment)?;
        blocks.insert(pointer, memory);
        Ok(pointer)
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(&self.device, stream)?;
        let memory = {
            let mut blocks = self.blocks.lock();
            self.ledger.remove(pointer, bytes, alignment)?;
            blocks.remove(&pointer)
        };
        // Work may still use it. If that faulted the memory is gone anyway; if it could not be waited for the block stays what it was.
        if let Err(error) = stream.synchronize() {
            if let Some(memory) = memory.filter(Memory::is_alive) {
                let mut blocks = self.blocks.lock();
                self.ledger.insert(pointer, bytes, alignment)?;
                blocks.insert(pointer, memory);
            }
            return Err(error.into());
        }
        drop(memory);
        Ok(())
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if !self.blocks.get_mut().is_empty() {
            // Work may still use them. If the device failed there is nothing to wait for.
            self.device.settle();
        }
    }
}
