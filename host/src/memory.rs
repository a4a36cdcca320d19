//! Memory of a device, released when dropped.

use crate::device::Device;
use crate::error::{Error, Result};
use bytemuck::{AnyBitPattern, NoUninit};

/// A piece of a device's memory.
#[derive(Debug)]
pub struct Memory {
    device: Device,
    address: u64,
    bytes: u64,
    /// The device's generation that it belongs to: it is gone if the device was recovered since.
    generation: u64,
    /// Memory that the caller brought is the caller's to release.
    owned: bool,
}

impl Memory {
    pub(crate) fn new(device: Device, address: u64, bytes: u64, owned: bool) -> Self {
        let generation = device.generation();
        Self {
            device,
            address,
            bytes,
            generation,
            owned,
        }
    }

    /// Address on the device.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is still there: a fault of a kernel takes everything with it.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.generation == self.device.generation() && !self.device.is_lost()
    }

    /// Whether it is released when dropped; memory that the caller brought is not.
    pub(crate) fn is_owned(&self) -> bool {
        self.owned
    }

    fn check(&self, offset: u64, asked: u64) -> Result<u64> {
        if !self.is_alive() {
            return Err(Error::HeapLost);
        }
        match offset.checked_add(asked) {
            Some(end) if end <= self.bytes => Ok(self.address + offset),
            _ => Err(Error::OutOfBounds {
                offset,
                asked,
                bytes: self.bytes,
            }),
        }
    }

    /// Writes `values` from byte `offset` on, after all launches before.
    ///
    /// # Errors
    ///
    /// If they do not fit, or the device fails.
    pub fn write<T: NoUninit>(&self, offset: u64, values: &[T]) -> Result<()> {
        let address = self.check(offset, size_of_val(values) as u64)?;
        // SAFETY: the range lies in this memory.
        unsafe { self.device.copy_to(address, bytemuck::cast_slice(values)) }
    }

    /// Reads `count` values from byte `offset` on, after all launches before.
    ///
    /// # Errors
    ///
    /// If there are not that many, the host has no memory for them, or the device fails.
    pub fn read<T: AnyBitPattern + NoUninit>(&self, offset: u64, count: usize) -> Result<Vec<T>> {
        let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
        let address = self.check(offset, bytes)?;
        // The device may have more memory than the host.
        let mut values = Vec::new();
        values
            .try_reserve_exact(count)
            .map_err(|_| Error::OutOfHostMemory { asked: bytes })?;
        values.resize(count, T::zeroed());
        // SAFETY: the range lies in this memory.
        unsafe {
            self.device
                .copy_from(address, bytemuck::cast_slice_mut(&mut values))?;
        }
        Ok(values)
    }

    /// Sets all bytes to zero, after all launches before.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn clear(&self) -> Result<()> {
        let address = self.check(0, self.bytes)?;
        // SAFETY: the range is this memory.
        unsafe { self.device.clear(address, self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.owned && self.is_alive() {
            // SAFETY: allocated by the device, and nobody has it any more.
            unsafe { self.device.release(self.address, self.bytes) };
        }
    }
}
