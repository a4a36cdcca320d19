//! Small blocks from one resource, large ones from another.

use super::super::ledger::Ledger;
use super::super::request::{check, check_stream};
use super::super::{DEFAULT_ALIGNMENT, DevicePointer, Live, MemoryResource, Result};
use crate::device::{Device, MemoryInfo, Stream};

/// Sends small requests to one resource and large ones to another, so that small blocks that stay long do
/// not lie between large ones.
///
/// ```
/// use scatterheap_host::resource::{BySize, MemoryResource, Remapping, Segments};
/// use scatterheap_host::{Device, Stream};
/// use std::sync::Arc;
///
/// let device = Device::cpu();
/// let stream = Stream::new(&device)?;
/// let large = Arc::new(Remapping::new(&device)?);
/// let small = Segments::with_segments_of(large.clone(), 1 << 20);
/// let memory = BySize::new(32 << 10, small, large)?;
/// let block = memory.allocate(1000, 256, &stream)?;
/// // SAFETY: nothing uses it.
/// unsafe { memory.deallocate(block, 1000, 256, &stream) }?;
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
#[derive(Debug)]
pub struct BySize<S, L> {
    small: S,
    large: L,
    most_small: u64,
    ledger: Ledger,
}

impl<S: MemoryResource, L: MemoryResource> BySize<S, L> {
    /// Sends requests of at most `most_small` bytes to `small`, others to `large`, and there too what is to be aligned
    /// to more than that and more than 256 bytes. The first may get its memory from the second.
    ///
    /// # Errors
    ///
    /// If they are of different devices.
    pub fn new(most_small: u64, small: S, large: L) -> Result<Self> {
        super::check_same_device(&small, &large)?;
        Ok(Self {
            small,
            large,
            most_small,
            ledger: Ledger::new("a resource by size"),
        })
    }

    /// The resource of small blocks.
    pub fn small(&self) -> &S {
        &self.small
    }

    /// The resource of large blocks.
    pub fn large(&self) -> &L {
        &self.large
    }

    /// The resource of a request whose alignment was checked, so that it is the same when the block comes back.
    fn of(&self, bytes: u64, alignment: u64) -> &dyn MemoryResource {
        if bytes <= self.most_small && alignment <= self.most_small.max(DEFAULT_ALIGNMENT) {
            &self.small
        } else {
            &self.large
        }
    }
}

// SAFETY: the blocks are those of the resource of their size.
unsafe impl<S: MemoryResource, L: MemoryResource> MemoryResource for BySize<S, L> {
    fn device(&self) -> &Device {
        self.large.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        let resource = self.of(bytes, alignment);
        let block = match resource.allocate(bytes, alignment, stream) {
            // What small blocks do not need may be enough.
            Err(error) if error.is_out_of_memory() && self.small.trim()? > 0 => {
                resource.allocate(bytes, alignment, stream)?
            }
            allocated => allocated?,
        };
        self.ledger.insert(block, bytes, alignment)?;
        Ok(block)
    }

    fn allocate_reserved(
        &self,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<Option<DevicePointer>> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        let resource = self.of(bytes, alignment);
        let block = resource.allocate_reserved(bytes, alignment, stream)?;
        if let Some(block) = block {
            self.ledger.insert(block, bytes, alignment)?;
        }
        Ok(block)
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        // The resource that would be asked is known from the size only if the size is right.
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(self.device(), stream)?;
        self.ledger.remove(pointer, bytes, alignment)?;
        let resource = self.of(bytes, alignment);
        // SAFETY: as the caller promises.
        let deallocated = unsafe { resource.deallocate(pointer, bytes, alignment, stream) };
        if let Err(error) = &deallocated {
            self.ledger.restore(pointer, (bytes, alignment), 0, error);
        }
        deallocated
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }

    fn trim(&self) -> Result<u64> {
        // If the small ones' memory is the large ones', these have given it back by now and do not count it again.
        Ok(self.small.trim()? + self.large.trim()?)
    }

    fn memory(&self) -> Result<MemoryInfo> {
        self.large.memory()
    }
}
