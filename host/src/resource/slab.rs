//! Size classes from 256 B to 64 KiB, each a list of free blocks that are cut from slabs.

use super::blocks::{Blocks, Chunk};
use super::ledger::Ledger;
use super::request::{check, check_stream};
use super::returned::Returned;
use super::{DEFAULT_ALIGNMENT, DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, Stream};
use parking_lot::Mutex;

/// The largest block.
const MOST: u64 = 64 << 10;
/// Number of classes: powers of two.
const CLASSES: usize = (MOST / DEFAULT_ALIGNMENT).ilog2() as usize + 1;
/// Bytes of a slab: the same for all classes, so that they give memory to each other.
const SLAB_BYTES: u64 = 1 << 20;

/// Hands out blocks of 256 B, 512 B, … 64 KiB, each size from slabs of 1 MiB of its own. Empty slabs
/// are kept until memory is out, or until [`trim`](MemoryResource::trim).
#[derive(Debug)]
pub struct Slab<U: MemoryResource> {
    upstream: U,
    ledger: Ledger,
    classes: [Mutex<Blocks>; CLASSES],
    /// Held by who gives empty slabs back because memory is out, so that others wait for them.
    pressure: Mutex<()>,
}

impl<U: MemoryResource> Slab<U> {
    /// No slabs yet.
    #[must_use]
    pub fn new(upstream: U) -> Self {
        let class = |index| Mutex::new(Blocks::new(DEFAULT_ALIGNMENT << index));
        Self {
            upstream,
            ledger: Ledger::new("a slab allocator"),
            classes: std::array::from_fn(class),
            pressure: Mutex::new(()),
        }
    }

    /// The class whose blocks have so many bytes and such an alignment: blocks are aligned to their
    /// size.
    fn class(&self, bytes: u64, alignment: u64) -> Result<usize> {
        let resource = self.ledger.resource();
        if bytes > MOST {
            return Err(Error::TooLarge {
                resource,
                asked: bytes,
                most: MOST,
            });
        }
        if alignment > MOST {
            return Err(Error::AlignmentTooLarge {
                resource,
                asked: alignment,
                most: MOST,
            });
        }
        let block = bytes.max(alignment).next_power_of_two();
        Ok((block / DEFAULT_ALIGNMENT).ilog2() as usize)
    }

    /// Takes a block of a class, and asks for a slab if there is none.
    fn take(&self, class: usize, stream: &Stream) -> Result<DevicePointer> {
        let mut blocks = self.classes[class].lock();
        if let Some(block) = blocks.take(stream)? {
            return Ok(block);
        }
        let first = self.upstream.allocate(SLAB_BYTES, MOST, stream)?;
        let slab = Chunk {
            first,
            bytes: SLAB_BYTES,
        };
        blocks.add(slab, stream);
        let block = blocks.take(stream)?;
        block.ok_or(Error::OutOfMemory {
            resource: self.ledger.resource(),
            asked: SLAB_BYTES,
        })
    }

    /// Takes a block of a class, and gives back empty slabs as long as memory is out and there are any.
    #[cold]
    fn press(&self, class: usize, stream: &Stream) -> Result<DevicePointer> {
        let _alone = self.pressure.lock();
        loop {
            match self.take(class, stream) {
                Err(error) if error.is_out_of_memory() && self.trim()? > 0 => (),
                taken => return taken,
            }
        }
    }

    /// Gives empty slabs of a class back to the upstream. Those that it refuses stay.
    fn give_back_empty(&self, blocks: &mut Blocks, returned: &mut Returned) -> Result<()> {
        for slab in blocks.remove_empty()? {
            // SAFETY: none of its blocks is handed out, and all work on them is done.
            let said = unsafe { self.give_back(slab) };
            if returned.add(slab.bytes, said, self.device()) {
                blocks.add(slab, &Stream::default_of(self.device()));
            }
        }
        Ok(())
    }

    /// Gives a slab back to the upstream.
    ///
    /// # Safety
    ///
    /// Nobody uses its blocks.
    unsafe fn give_back(&self, slab: Chunk) -> Result<()> {
        let stream = Stream::default_of(self.device());
        // SAFETY: as the caller promises.
        unsafe {
            self.upstream
                .deallocate(slab.first, slab.bytes, MOST, &stream)
        }
    }
}

// SAFETY: a block is a part of a slab of the upstream's, and is in no list while it is handed out.
unsafe impl<U: MemoryResource> MemoryResource for Slab<U> {
    fn device(&self) -> &Device {
        self.upstream.device()
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(self.device(), stream)?;
        let class = self.class(bytes, alignment)?;
        let block = match self.take(class, stream) {
            Err(error) if error.is_out_of_memory() => self.press(class, stream),
            taken => taken,
        }?;
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
        let class = self.class(bytes, alignment)?;
        self.classes[class].lock().put(pointer, stream);
        Ok(())
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }

    /// Gives slabs back of which no block is handed out, and trims the upstream.
    fn trim(&self) -> Result<u64> {
        let mut returned = Returned::default();
        for class in &self.classes {
            if let Err(error) = self.give_back_empty(&mut class.lock(), &mut returned) {
                returned.note(error);
            }
        }
        // Also below where something was refused.
        let below = self.upstream.trim();
        Ok(returned.end()?.max(below?))
    }
}

impl<U: MemoryResource> Drop for Slab<U> {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            let slabs = self.classes[class].get_mut().remove_all();
            for slab in slabs {
                // SAFETY: nobody uses blocks when this is dropped. An error has nobody to go to.
                let _failed = unsafe { self.give_back(slab) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Refusing, is_refused, refusal};
    use super::*;

    #[test]
    fn slabs_that_the_upstream_refuses_stay() {
        let device = Device::cpu();
        let stream = Stream::new(&device).expect("a stream");
        let slab = Slab::new(Refusing::new(&device));
        let bytes = [256, 1 << 10, MOST];
        let blocks =
            bytes.map(|bytes| (slab.allocate(bytes, 256, &stream).expect("memory"), bytes));
        for (block, bytes) in blocks {
            // SAFETY: nothing uses it.
            let freed = unsafe { slab.deallocate(block, bytes, 256, &stream) };
            freed.expect("handed out");
        }
        slab.upstream.next([Some(refusal())]);
        assert!(is_refused(&slab.trim()));
        assert_eq!(
            slab.upstream.live().bytes,
            SLAB_BYTES,
            "all others are back"
        );
        for _ in 0..SLAB_BYTES / 256 {
            slab.allocate(256, 256, &stream).expect("there still");
        }
        assert_eq!(slab.upstream.live().bytes, SLAB_BYTES);
    }

    #[test]
    fn a_trim_after_one_that_was_refused_gives_all_back() {
        let device = Device::cpu();
        let stream = Stream::new(&device).expect("a stream");
        let slab = Slab::new(Refusing::new(&device));
        let block = slab.allocate(256, 256, &stream).expect("memory");
        // SAFETY: nothing uses it.
        unsafe { slab.deallocate(block, 256, 256, &stream) }.expect("handed out");
        slab.upstream.next([Some(refusal()), Some(refusal())]);
        assert!(is_refused(&slab.trim()));
        assert!(is_refused(&slab.trim()));
        assert_eq!(slab.trim().expect("taken"), SLAB_BYTES);
        assert_eq!(slab.upstream.live(), Live::default());
    }
}
