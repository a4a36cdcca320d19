//! Memory of a device, released when dropped.

use crate::device::Device;
use crate::error::{Error, Result};
use bytemuck::{AnyBitPattern, NoUninit};
use parking_lot::RwLock;

/// So many zeroes, into which is read. The device may have more memory than the host.
pub(crate) fn zeroes<T: AnyBitPattern>(count: usize) -> Result<Vec<T>> {
    let asked = (count as u64).saturating_mul(size_of::<T>() as u64);
    let mut values = Vec::new();
    values
        .try_reserve_exact(count)
        .map_err(|_| Error::OutOfHostMemory { asked })?;
    values.resize(count, T::zeroed());
    Ok(values)
}

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
    /// Held to write by who changes it from the host, and to read by who copies from it: on the CPU nothing else orders them.
    copying: RwLock<()>,
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
            copying: RwLock::new(()),
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
            return Err(self.device.why_lost());
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
        let _alone = self.copying.write();
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
        let mut values = zeroes(count)?;
        let _unchanged = self.copying.read();
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
        let _alone = self.copying.write();
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
