//! A fixed number of blocks of one size.

use super::blocks::{Blocks, Chunk};
use super::ledger::Ledger;
use super::request::{check, check_stream, rounded};
use super::{DevicePointer, Error, Live, MAX_BYTES, MemoryResource, Result};
use crate::device::{Device, Stream};
use parking_lot::Mutex;

/// Blocks are aligned to their largest power of two, up to this.
const MOST_ALIGNMENT: u64 = 2 << 20;

/// Hands out a fixed number of blocks of one size, all of whose memory is allocated at once.
///
/// ```
/// use scatterheap_host::resource::{BlockPool, DeviceMemory, MemoryResource};
/// use scatterheap_host::{Device, Stream};
///
/// let device = Device::cpu();
/// let stream = Stream::default_of(&device);
/// let pool = BlockPool::new(DeviceMemory::new(&device), 4096, 100)?;
/// let block = pool.allocate(4000, 256, &stream)?;
/// assert_eq!(pool.live().bytes, 4000);
/// // SAFETY: nothing uses it.
/// unsafe { pool.deallocate(block, 4000, 256, &stream) }?;
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
#[derive(Debug)]
pub struct BlockPool<U: MemoryResource> {
    upstream: U,
    ledger: Ledger,
    block_bytes: u64,
    alignment: u64,
    blocks: Mutex<Blocks>,
}

impl<U: MemoryResource> BlockPool<U> {
    /// Allocates `count` blocks of `block_bytes` bytes, rounded up to multiples of 256.
    ///
    /// # Errors
    ///
    /// If there is not as much memory, or there are no blocks or bytes.
    pub fn new(upstream: U, block_bytes: u64, count: u64) -> Result<Self> {
        let bytes = block_bytes.min(MAX_BYTES).next_multiple_of(256);
        let whole = bytes.checked_mul(count).filter(|bytes| *bytes <= MAX_BYTES);
        let (true, true, Some(whole)) = (block_bytes > 0, count > 0, whole) else {
            return Err(Error::BadSettings {
                asked: format!("{count} blocks of {block_bytes} bytes"),
                advice: "ask for at least one block of at least one byte, and less than 128 TiB",
            });
        };
        let alignment = (1 << bytes.trailing_zeros()).min(MOST_ALIGNMENT);
        let stream = Stream::default_of(upstream.device());
        let first = upstream.allocate(whole, alignment, &stream)?;
        let mut blocks = Blocks::new(bytes);
        let chunk = Chunk {
            first,
            bytes: whole,
        };
        blocks.add(chunk, &stream);
        Ok(Self {
            upstream,
            ledger: Ledger::new("a block pool"),
            block_bytes: bytes,
            alignment,
            blocks: Mutex::new(blocks),
        })
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn check(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<u64> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(self.device(), stream)?;
        let resource = self.ledger.resource();
        if rounded(bytes) > self.block_bytes {
            return Err(Error::TooLarge {
                resource,
                asked: bytes,
                most: self.block_bytes,
            });
        }
        if alignment > self.alignment {
            return Err(Error::AlignmentTooLarge {
                resource,
                asked: alignment,
                most: self.alignment,
            });
        }
        Ok(alignment)
    }
}

// SAFETY: a block is a part of one of the upstream's, and is in no list while it is handed out.
unsafe impl<U: MemoryResource> MemoryResource for BlockPool<U> {
    fn device(&self) -> &Device {
        self.upstream.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let alignment = self.check(bytes, alignment, stream)?;
        let block = self.blocks.lock().take(stream)?;
        let block = block.ok_or(Error::OutOfMemory {
            resource: self.ledger.resource(),
            asked: bytes,
        })?;
        self.ledger.insert(block, bytes, alignment)?;
        Ok(block)
    }

    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(self.device(), stream)?;
        self.ledger.remove(pointer, bytes, alignment)?;
        self.blocks.lock().put(pointer, stream);
        Ok(())
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }
}

impl<U: MemoryResource> Drop for BlockPool<U> {
    fn drop(&mut self) {
        let stream = Stream::default_of(self.upstream.device());
        for chunk in self.blocks.get_mut().remove_all() {
            let (first, bytes) = (chunk.first, chunk.bytes);
            // SAFETY: the upstream's block, of which nothing is used when the pool is dropped. An error has nobody to go to.
            let _failed = unsafe {
                self.upstream
                    .deallocate(first, bytes, self.alignment, &stream)
            };
        }
    }
}
