//! The driver's own pool of memory.
//!
//! On a GPU this is a `cuMemPool`: each call goes to the driver, which knows the order of streams by itself. What is
//! freed stays in the pool until a stream, an event or the device is waited for; then what is beyond the
//! *release threshold* goes back to the system. A CPU has no such pool. There it is emulated by a
//! [`Remapping`] of the CPU's memory with the same threshold, which is looked at whenever something is freed, as a
//! CPU's work is done by then, and with the same numbers.

use super::ledger::Ledger;
use super::request::{check, check_stream, rounded};
use super::{
    DEFAULT_ALIGNMENT, DevicePointer, Error, Live, MAX_BYTES, MemoryResource, Remapping, Result,
};
use crate::device::pool::{self, Pool, PoolNumber};
use crate::device::{Device, Stream};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Memory of the driver's pool: `cuMemAllocFromPoolAsync` on a GPU.
///
/// ```
/// use scatterheap_host::resource::{DriverPool, MemoryResource};
/// use scatterheap_host::{Device, Stream};
///
/// let device = Device::cpu();
/// let stream = Stream::new(&device)?;
/// let pool = DriverPool::new(&device)?;
/// pool.set_release_threshold(64 << 20)?;
/// let block = pool.allocate(1 << 20, 256, &stream)?;
/// // SAFETY: nothing uses it.
/// unsafe { pool.deallocate(block, 1 << 20, 256, &stream) }?;
/// assert!(pool.statistics()?.reserved >= 1 << 20);
/// pool.trim_to(0)?;
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
#[derive(Debug)]
pub struct DriverPool {
    device: Device,
    ledger: Ledger,
    /// Where a block that is aligned to more than the driver aligns begins for the driver.
    begins: Mutex<HashMap<DevicePointer, u64>>,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    Driver(Pool),
    Emulated(Box<Emulated>),
}

/// A CPU's pool.
#[derive(Debug)]
struct Emulated {
    memory: Remapping,
    numbers: Mutex<Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    threshold: u64,
    /// Bytes that were asked of the memory for each block.
    blocks: HashMap<u64, u64>,
    used: u64,
    used_high: u64,
    reserved_high: u64,
}

/// What a [`DriverPool`] has, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Taken from the device.
    pub reserved: u64,
    /// The most that was, at once.
    pub reserved_high: u64,
    /// Handed out.
    pub used: u64,
    /// The most that was, at once.
    pub used_high: u64,
    /// What stays reserved, though it is not used, when the device is waited for.
    pub release_threshold: u64,
}

impl DriverPool {
    /// A pool without a limit, whose release threshold is 0.
    ///
    /// # Errors
    ///
    /// If the driver has no pools, or fails.
    pub fn new(device: &Device) -> Result<Self> {
        Self::with_most(device, 0)
    }

    /// A pool of `most` bytes at most, which the driver may round up; no limit for 0.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_most(device: &Device, most: u64) -> Result<Self> {
        if most > MAX_BYTES {
            return Err(Error::BadSettings {
                asked: format!("{most} bytes for a pool"),
                advice: "ask for at most 128 TiB, or 0 for no limit",
            });
        }
        let backing = match pool::create(device, most)? {
            Some(pool) => Backing::Driver(pool),
            None => Backing::Emulated(Box::new(Emulated::new(device, most)?)),
        };
        Ok(Self {
            device: device.clone(),
            ledger: Ledger::new("the driver's pool"),
            begins: Mutex::default(),
            backing,
        })
    }

    /// Sets how many bytes stay in the pool, though they are not used, when the device is waited for.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn set_release_threshold(&self, bytes: u64) -> Result<()> {
        match &self.backing {
            Backing::Driver(pool) => Ok(pool.set_number(PoolNumber::ReleaseThreshold, bytes)?),
            Backing::Emulated(emulated) => {
                emulated.numbers.lock().threshold = bytes;
                Ok(())
            }
        }
    }

    /// Gives what is not used back to the device, but keeps `keep` bytes in all if it has as many.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn trim_to(&self, keep: u64) -> Result<()> {
        match &self.backing {
            Backing::Driver(pool) => Ok(pool.trim_to(keep)?),
            Backing::Emulated(emulated) => {
                emulated.memory.trim_to(keep)?;
                Ok(())
            }
        }
    }

    /// What it has.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn statistics(&self) -> Result<PoolStatistics> {
        match &self.backing {
            Backing::Driver(pool) => Ok(PoolStatistics {
                reserved: pool.number(PoolNumber::Reserved)?,
                reserved_high: pool.number(PoolNumber::ReservedHigh)?,
                used: pool.number(PoolNumber::Used)?,
                used_high: pool.number(PoolNumber::UsedHigh)?,
                release_threshold: pool.number(PoolNumber::ReleaseThreshold)?,
            }),
            Backing::Emulated(emulated) => Ok(emulated.statistics()),
        }
    }

    /// Makes the highest numbers of the [statistics](Self::statistics) what the current ones are.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn reset_highs(&self) -> Result<()> {
        match &self.backing {
            Backing::Driver(pool) => {
                pool.set_number(PoolNumber::ReservedHigh, 0)?;
                Ok(pool.set_number(PoolNumber::UsedHigh, 0)?)
            }
            Backing::Emulated(emulated) => {
                let mut numbers = emulated.numbers.lock();
                numbers.used_high = numbers.used;
                numbers.reserved_high = emulated.memory.fragmentation().reserved;
                Ok(())
            }
        }
    }

    fn take(&self, bytes: u64, stream: &Stream) -> Result<u64> {
        match &self.backing {
            Backing::Driver(pool) => Ok(pool.allocate(bytes, stream)?),
            Backing::Emulated(emulated) => emulated.take(bytes, stream),
        }
    }

    /// Takes a block back that `give_back` gives to the pool, by where it begins there. If that fails, nothing changes.
    fn take_back(
        &self,
        pointer: DevicePointer,
        (bytes, alignment): (u64, u64),
        give_back: impl FnOnce(u64) -> Result<()>,
    ) -> Result<()> {
        self.ledger.remove(pointer, bytes, alignment)?;
        // Before the call, as another thread may get the same block right after it.
        let begin = if alignment == DEFAULT_ALIGNMENT {
            None
        } else {
            self.begins.lock().remove(&pointer)
        };
        let given = give_back(begin.unwrap_or(pointer.address()));
        if let Err(error) = &given
            && !error.is_of_a_block_that_is_gone()
        {
            if let Some(begin) = begin {
                self.begins.lock().insert(pointer, begin);
            }
            self.ledger.restore(pointer, (bytes, alignment), 0, error);
        }
        given
    }

    /// Gives a block back to the pool.
    ///
    /// # Safety
    ///
    /// It is one of [`take`](Self::take)'s that was not given back, and nobody uses it but for work of the stream.
    unsafe fn give_back(&self, address: u64, stream: &Stream) -> Result<()> {
        match &self.backing {
            Backing::Driver(pool) => {
                // SAFETY: as the caller promises.
                unsafe { pool.free(address, stream) }?;
                Ok(())
            }
            // SAFETY: as the caller promises.
            Backing::Emulated(emulated) => unsafe { emulated.give_back(address, stream) },
        }
    }
}

impl Emulated {
    fn new(device: &Device, most: u64) -> Result<Self> {
        let builder = Remapping::builder(device);
        let builder = if most == 0 {
            builder
        } else {
            builder.most(most.next_multiple_of(2 << 20))
        };
        Ok(Self {
            memory: builder.build()?,
            numbers: Mutex::default(),
        })
    }

    fn take(&self, bytes: u64, stream: &Stream) -> Result<u64> {
        let block = self.memory.allocate(bytes, DEFAULT_ALIGNMENT, stream)?;
        let mut numbers = self.numbers.lock();
        numbers.blocks.insert(block.address(), bytes);
        numbers.used += rounded(bytes);
        numbers.used_high = numbers.used_high.max(numbers.used);
        let reserved = self.memory.fragmentation().reserved;
        numbers.reserved_high = numbers.reserved_high.max(reserved);
        Ok(block.address())
    }

    /// Gives a block back to the memory.
    ///
    /// # Safety
    ///
    /// As for [`DriverPool::give_back`].
    unsafe fn give_back(&self, address: u64, stream: &Stream) -> Result<()> {
        // Held until the numbers are right again, as another thread may get the same block right after this.
        let mut numbers = self.numbers.lock();
        let bytes = numbers.blocks.get(&address).copied().unwrap_or_default();
        if let Some(block) = DevicePointer::new(address) {
            // SAFETY: as the caller promises.
            unsafe {
                self.memory
                    .deallocate(block, bytes, DEFAULT_ALIGNMENT, stream)
            }?;
        }
        numbers.blocks.remove(&address);
        numbers.used -= rounded(bytes);
        let threshold = numbers.threshold;
        drop(numbers);
        // The block is back, whatever becomes of this: what stays reserved is looked at again with the next one.
        let _failed = self.memory.trim_to(threshold);
        Ok(())
    }

    fn statistics(&self) -> PoolStatistics {
        let numbers = self.numbers.lock();
        PoolStatistics {
            reserved: self.memory.fragmentation().reserved,
            reserved_high: numbers.reserved_high,
            used: numbers.used,
            used_high: numbers.used_high,
            release_threshold: numbers.threshold,
        }
    }
}

// SAFETY: a block is within memory that the pool allocated for it alone, and that it has back only with it.
unsafe impl MemoryResource for DriverPool {
    fn device(&self) -> &Device {
        &self.device
    }

    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let alignment = check(self.ledger.resource(), bytes, alignment)?;
        check_stream(&self.device, stream)?;
        let is_aligned = alignment == DEFAULT_ALIGNMENT;
        // What the driver does not align is made larger by as much as may be skipped.
        let extra = if is_aligned { 0 } else { alignment };
        let begin = self.take(bytes + extra, stream)?;
        let pointer = DevicePointer::new(begin.next_multiple_of(alignment));
        let pointer = pointer.ok_or(Error::OutOfMemory {
            resource: self.ledger.resource(),
            asked: bytes,
        })?;
        if !is_aligned {
            self.begins.lock().insert(pointer, begin);
        }
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
        check_stream(&self.device, stream)?;
        self.take_back(pointer, (bytes, alignment), |begin| {
            // SAFETY: the ledger says that it is handed out, once; else as the caller promises.
            unsafe { self.give_back(begin, stream) }
        })
    }

    fn live(&self) -> Live {
        self.ledger.live()
    }

    fn trim(&self) -> Result<u64> {
        self.device.synchronize()?;
        let before = self.statistics()?.reserved;
        self.trim_to(0)?;
        Ok(before.saturating_sub(self.statistics()?.reserved))
    }
}

impl Drop for DriverPool {
    fn drop(&mut self) {
        let stream = Stream::default_of(&self.device);
        let mut left = Vec::new();
        self.ledger
            .for_each(|block, bytes, alignment| left.push((block, bytes, alignment)));
        if !left.is_empty() {
            // Any stream may use them. If the device failed there is nothing to wait for.
            self.device.settle();
        }
        for (block, bytes, alignment) in left {
            // The driver keeps a pool that has blocks. An error has nobody to go to.
            // SAFETY: nobody uses its blocks when the pool is dropped, and their work is done.
            let _failed = unsafe { self.deallocate(block, bytes, alignment, &stream) };
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::testing::{is_refused, refusal};
    use super::*;

    #[test]
    fn a_block_that_the_driver_refuses_is_handed_out_still() {
        let device = Device::cpu();
        let stream = Stream::new(&device).expect("a stream");
        let pool = DriverPool::new(&device).expect("a pool");
        for alignment in [256, 1 << 20] {
            let block = pool.allocate(1000, alignment, &stream).expect("memory");
            let begin = pool.begins.lock().get(&block).copied();
            let refused = pool.take_back(block, (1000, alignment), |_| Err(refusal()));
            assert!(is_refused(&refused), "{refused:?}");
            assert_eq!(pool.live().bytes, 1000);
            assert_eq!(pool.begins.lock().get(&block).copied(), begin);
            // SAFETY: nothing uses it.
            let freed = unsafe { pool.deallocate(block, 1000, alignment, &stream) };
            freed.expect("handed out still");
            assert_eq!(
                (pool.live(), pool.begins.lock().len()),
                (Live::default(), 0)
            );
            assert_eq!(pool.statistics().expect("numbers").used, 0);
        }
    }
}
