//! Powers of two in one piece of memory, split into halves and merged again.
//!
//! Two halves of a block are buddies. A block of `2^k` bytes begins at a multiple of `2^k` from the
//! first address, so the offset of a block's buddy is its own with bit `k` flipped.
//!
//! Invariants: free and handed out blocks are apart and are all of the memory, but for what is handed
//! out without being needed; no two buddies are both free.

use super::ledger::Ledger;
use super::order::{Mask, Order};
use super::request::{check, check_stream};
use super::{DEFAULT_ALIGNMENT, DevicePointer, Error, Live, MAX_BYTES, MemoryResource, Result};
use crate::device::{Device, Stream};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The first address is a multiple of the capacity, up to this.
const MOST_ALIGNMENT: u64 = 2 << 20;

/// Hands out powers of two of bytes from one piece of memory. Blocks are split into halves when they
/// are too large, and merged with their other half when both are free.
#[derive(Debug)]
pub struct Buddy<U: MemoryResource> {
    upstream: U,
    ledger: Ledger,
    first: DevicePointer,
    bytes: u64,
    /// Of the first address, and so the most of any block.
    alignment: u64,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    /// For each power of two the offsets of free blocks, with whose work must be done.
    levels: Vec<BTreeMap<u64, Mask>>,
    order: Order,
}

fn level_of(bytes: u64) -> usize {
    (bytes / DEFAULT_ALIGNMENT).ilog2() as usize
}

impl Free {
    /// Free blocks that make up `bytes` bytes; each begins at a multiple of its size.
    fn of(bytes: u64, mask: Mask, order: Order) -> Self {
        let levels = vec![BTreeMap::new(); level_of(bytes) + 1];
        let mut free = Self { levels, order };
        let mut offset = 0;
        while offset < bytes {
            let level = level_of(bytes - offset);
            free.levels[level].insert(offset, mask);
            offset += DEFAULT_ALIGNMENT << level;
        }
        free
    }

    /// Takes a block of `2^level` units for a stream: the smallest that there is, the lowest of
    /// those for which it need not wait.
    fn take(&mut self, level: usize, stream: &Stream) -> Result<Option<u64>> {
        let own = self.order.mask(stream);
        let Some(found) = (level..self.levels.len()).find(|level| !self.levels[*level].is_empty())
        else {
            return Ok(None);
        };
        let blocks = &self.levels[found];
        let best = blocks.iter().find(|(_, mask)| mask.is_within(own));
        let Some((offset, mask)) = best.or(blocks.first_key_value()) else {
            return Ok(None);
        };
        let (offset, mask) = (*offset, *mask);
        self.order.join(mask, stream)?;
        self.levels[found].remove(&offset);
        for level in level..found {
            self.levels[level].insert(offset + (DEFAULT_ALIGNMENT << level), mask);
        }
        Ok(Some(offset))
    }

    /// Puts a block back and merges it with its buddy as long as that is free.
    fn put(&mut self, mut offset: u64, mut level: usize, stream: &Stream) {
        let mut mask = self.order.mask(stream);
        while level + 1 < self.levels.len() {
            let buddy = offset ^ DEFAULT_ALIGNMENT << level;
            let Some(other) = self.levels[level].remove(&buddy) else {
                break;
            };
            mask = mask.and(other);
            offset = offset.min(buddy);
            level += 1;
        }
        self.levels[level].insert(offset, mask);
    }
}

impl<U: MemoryResource> Buddy<U> {
    /// Allocates the memory, `bytes` bytes rounded up to a multiple of 256. The largest block has the
    /// largest power of two that fits.
    ///
    /// # Errors
    ///
    /// If there is not as much memory, or it is none.
    pub fn new(upstream: U, bytes: u64) -> Result<Self> {
        if bytes == 0 || bytes > MAX_BYTES {
            return Err(Error::BadSettings {
                asked: format!("{bytes} bytes for a buddy allocator"),
                advice: "ask for at least one, and at most 128 TiB",
            });
        }
        let bytes = bytes.next_multiple_of(DEFAULT_ALIGNMENT);
        let alignment = bytes.next_power_of_two().min(MOST_ALIGNMENT);
        let stream = Stream::default_of(upstream.device());
        let first = upstream.allocate(bytes, alignment, &stream)?;
        let mut order = Order::default();
        let mask = order.mask(&stream);
        Ok(Self {
            upstream,
            ledger: Ledger::new("a buddy allocator"),
            first,
            bytes,
            alignment,
            free: Mutex::new(Free::of(bytes, mask, order)),
        })
    }

    /// Bytes of the largest block that is free.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        let free = self.free.lock();
        let largest = free.levels.iter().rposition(|blocks| !blocks.is_empty());
        largest.map_or(0, |level| DEFAULT_ALIGNMENT << level)
    }

    /// Bytes that are free, in blocks of any size.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let free = self.free.lock();
        let levels = free.levels.iter().enumerate();
        levels
            .map(|(level, blocks)| (DEFAULT_ALIGNMENT << level) * blocks.len() as u64)
            .sum()
    }

    /// The level of a block with so many bytes and such an alignment.
    fn level(&self, bytes: u64, alignment: u64) -> Result<usize> {
        let resource = self.ledger.resource();
        if alignment > self.alignment {
            return Err(Error::AlignmentTooLarge {
                resource,
                asked: alignment,
                most: self.alignment,
            });
        }
        if bytes > DEFAULT_ALIGNMENT << level_of(self.bytes) {
            return Err(Error::TooLarge {
                resource,
                asked: bytes,
                most: DEFAULT_ALIGNMENT << level_of(self.bytes),
            });
        }
        Ok(level_of(bytes.max(alignment).next_power_of_two()))
    }
}

// SAFETY: a block is a part of the upstream's, and is not among the free ones while it is handed out.
unsafe impl<U: MemoryResource> MemoryResource for Buddy<U> {
    fn device(&self) -> &Device {
        self.upstream.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(self.device(), stream)?;
        let level = self.level(bytes, alignment)?;
        let offset = self.free.lock().take(level, stream)?;
        let pointer = offset.and_then(|offset| DevicePointer::new(self.first.address() + offset));
        let pointer = pointer.ok_or(Error::OutOfMemory {
            resource: self.ledger.resource(),
            asked: bytes,
        })?;
        self.ledger.insert(pointer, bytes, alignment)?;
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
        check_stream(self.device(), stream)?;
        self.ledger.remove(pointer, bytes, alignment)?;
        let level = self.level(bytes, alignment)?;
        let offset = pointer.address() - self.first.address();
        self.free.lock().put(offset, level, stream);
        Ok(())
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }
}

impl<U: MemoryResource> Drop for Buddy<U> {
    fn drop(&mut self) {
        // If the device failed there is nothing to wait for. Errors have nobody to go to.
        let _failed = self.free.get_mut().order.settle();
        let stream = Stream::default_of(self.upstream.device());
        let (first, bytes) = (self.first, self.bytes);
        // SAFETY: the upstream's block, of which nothing is used when this is dropped.
        let _failed = unsafe {
            self.upstream
                .deallocate(first, bytes, self.alignment, &stream)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::DeviceMemory;
    use crate::resource::testing::give_back;

    #[test]
    fn blocks_are_split_and_merged_again() {
        let device = Device::cpu();
        let stream = Stream::default_of(&device);
        let buddy = Buddy::new(DeviceMemory::new(&device), 1 << 20).expect("memory");
        assert_eq!(buddy.largest_free(), 1 << 20);
        let small = buddy.allocate(300, 256, &stream).expect("room");
        assert_eq!(buddy.largest_free(), 1 << 19);
        assert_eq!(buddy.free_bytes(), (1 << 20) - 512);
        let half = buddy.allocate(1 << 19, 256, &stream).expect("room");
        assert_eq!(buddy.largest_free(), 1 << 18);
        give_back(&buddy, small, 300, 256, &stream).expect("handed out");
        assert_eq!(buddy.largest_free(), 1 << 19);
        give_back(&buddy, half, 1 << 19, 256, &stream).expect("handed out");
        assert_eq!(buddy.largest_free(), 1 << 20);
    }

    #[test]
    fn memory_that_is_no_power_of_two_is_used_too() {
        let device = Device::cpu();
        let stream = Stream::default_of(&device);
        let buddy = Buddy::new(DeviceMemory::new(&device), 7 * 256).expect("memory");
        let blocks: Vec<_> = [4, 2, 1]
            .map(|units| buddy.allocate(units * 256, 256, &stream).expect("room"))
            .into();
        assert!(
            buddy
                .allocate(1, 256, &stream)
                .expect_err("full")
                .is_out_of_memory()
        );
        for (block, units) in blocks.iter().zip([4, 2, 1]) {
            give_back(&buddy, *block, units * 256, 256, &stream).expect("handed out");
        }
        assert_eq!(buddy.free_bytes(), 7 * 256);
        assert_eq!(buddy.largest_free(), 4 * 256);
    }
}
