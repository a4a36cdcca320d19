//! Addresses and physical memory apart from each other, so that what lies at an address can grow.
//!
//! A [`Reservation`] is a range of addresses of a device, a [`PhysicalMemory`] is memory without
//! an address; mapping brings them together. Each is given back when it is dropped. All sizes are
//! in bytes and multiples of the device's [granule](Device::granule). On a GPU this is CUDA's
//! [virtual memory management](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html),
//! on the CPU it is `mmap`. Mapping does not wait for kernels, if the driver does not.

use crate::device::Device;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Physical memory of a device, without an address of its own.
#[derive(Debug)]
pub struct PhysicalMemory {
    device: Device,
    handle: u64,
    bytes: u64,
    /// The device's generation that it belongs to: it is gone if the device was recovered since.
    generation: u64,
}

impl PhysicalMemory {
    pub(crate) fn new(device: Device, handle: u64, bytes: u64) -> Self {
        let generation = device.generation();
        Self {
            device,
            handle,
            bytes,
            generation,
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_alive(&self) -> bool {
        self.generation == self.device.generation() && !self.device.is_lost()
    }
}

impl Drop for PhysicalMemory {
    fn drop(&mut self) {
        if self.is_alive() {
            // SAFETY: created by the device, mapped nowhere, and nobody has it any more.
            unsafe { self.device.release_memory(self.handle, self.bytes) };
        }
    }
}

/// What is mapped, by its offset.
type Mapped = BTreeMap<u64, PhysicalMemory>;
/// Bytes of what is mapped a second time, by its offset.
type Aliases = BTreeMap<u64, u64>;

/// A range of addresses of a device, in which physical memory can be mapped.
#[derive(Debug)]
pub struct Reservation {
    device: Device,
    address: u64,
    bytes: u64,
    generation: u64,
    /// Locked before the aliases.
    mapped: Mutex<Mapped>,
    aliases: Mutex<Aliases>,
}

impl Reservation {
    pub(crate) fn new(device: Device, address: u64, bytes: u64) -> Self {
        let generation = device.generation();
        Self {
            device,
            address,
            bytes,
            generation,
            mapped: Mutex::new(BTreeMap::new()),
            aliases: Mutex::new(BTreeMap::new()),
        }
    }

    /// First address.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that have memory.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped().values().map(PhysicalMemory::bytes).sum()
    }

    /// Whether it is still there: a fault of a kernel takes everything with it.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.generation == self.device.generation() && !self.device.is_lost()
    }

    /// What a call is told that needs it, once it is gone.
    pub(crate) fn why_lost(&self) -> Error {
        self.device.why_lost()
    }

    fn mapped(&self) -> MutexGuard<'_, Mapped> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps memory at `offset` bytes from the first address, readable and writable by the device.
    ///
    /// # Errors
    ///
    /// If it does not fit there, something is mapped there, or the device fails. The memory is
    /// given back then.
    pub fn map(&self, offset: u64, memory: PhysicalMemory) -> Result<()> {
        self.map_all(offset, vec![memory])
    }

    /// Maps pieces of memory one behind the other, as [`map`](Self::map) does with one. On a GPU this
    /// takes less time than one after the other.
    ///
    /// # Errors
    ///
    /// As for [`map`](Self::map); then none is mapped.
    pub fn map_all(&self, offset: u64, pieces: Vec<PhysicalMemory>) -> Result<()> {
        let (mut mapped, aliases) = (self.mapped(), self.aliases());
        let bytes = pieces
            .iter()
            .fold(0, |sum: u64, memory| sum.saturating_add(memory.bytes));
        if !self.is_alive() || !pieces.iter().all(PhysicalMemory::is_alive) {
            return Err(self.why_lost());
        }
        let is_own = |memory: &PhysicalMemory| self.device.is_same(&memory.device);
        if !self.is_free(&mapped, &aliases, offset, bytes) || !pieces.iter().all(is_own) {
            return Err(Error::OutOfBounds {
                offset,
                asked: bytes,
                bytes: self.bytes,
            });
        }
        let handles: Vec<_> = pieces
            .iter()
            .map(|memory| (memory.handle, memory.bytes))
            .collect();
        self.map_checked(offset, bytes, &handles)?;
        let mut place = offset;
        for memory in pieces {
            let next = place + memory.bytes;
            mapped.insert(place, memory);
            place = next;
        }
        Ok(())
    }

    /// Maps what is mapped at other offsets a second time, one behind the other from `offset` on. What is
    /// written at one address is seen at the other by work that comes after it.
    ///
    /// # Errors
    ///
    /// If nothing is mapped at one of them, it does not fit, something is mapped there, or the device
    /// fails; then nothing changes.
    pub fn alias(&self, offset: u64, sources: &[u64]) -> Result<()> {
        let (mapped, mut aliases) = (self.mapped(), self.aliases());
        if sources.is_empty() {
            return Ok(());
        }
        let find = |source: &u64| {
            let memory = mapped.get(source).ok_or(Error::OutOfBounds {
                offset: *source,
                asked: 1,
                bytes: self.bytes,
            })?;
            Ok((memory.handle, memory.bytes))
        };
        let handles = sources.iter().map(find).collect::<Result<Vec<_>>>()?;
        let bytes: u64 = handles.iter().map(|(_, bytes)| bytes).sum();
        if !self.is_alive() {
            return Err(self.why_lost());
        }
        if !self.is_free(&mapped, &aliases, offset, bytes) {
            return Err(Error::OutOfBounds {
                offset,
                asked: bytes,
                bytes: self.bytes,
            });
        }
        self.map_checked(offset, bytes, &handles)?;
        aliases.insert(offset, bytes);
        Ok(())
    }

    /// Takes away what was mapped at `offset` by [`alias`](Self::alias); nothing if nothing was.
    ///
    /// # Errors
    ///
    /// If the device fails.
    ///
    /// # Safety
    ///
    /// Nobody may use these addresses from now on, no running kernel either.
    pub unsafe fn unalias(&self, offset: u64) -> Result<()> {
        let mut aliases = self.aliases();
        let Some(bytes) = aliases.get(&offset) else {
            return Ok(());
        };
        if !self.is_alive() {
            return Err(self.why_lost());
        }
        // All pieces at once, in one call of the driver.
        // SAFETY: mapped by `alias`; as the caller promises.
        unsafe { self.device.unmap(self.address + offset, *bytes)? };
        aliases.remove(&offset);
        Ok(())
    }

    fn aliases(&self) -> MutexGuard<'_, Aliases> {
        self.aliases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a range is within the reservation, and nothing is mapped there, nor a second time.
    fn is_free(&self, mapped: &Mapped, aliases: &Aliases, offset: u64, bytes: u64) -> bool {
        let Some(end) = offset.checked_add(bytes) else {
            return false;
        };
        // Ranges of one kind are apart from each other, so the last that begins before the end is the last to end.
        let end_of = |(begin, memory): (&u64, &PhysicalMemory)| begin + memory.bytes;
        let last = mapped.range(..end).next_back().map_or(0, end_of);
        let last_alias = aliases.range(..end).next_back();
        let last_alias = last_alias.map_or(0, |(begin, bytes)| begin + bytes);
        end <= self.bytes && last.max(last_alias) <= offset
    }

    /// Maps pieces and allows access to them, or does neither.
    fn map_checked(&self, offset: u64, bytes: u64, pieces: &[(u64, u64)]) -> Result<()> {
        let mut place = self.address + offset;
        let undo = |pieces: &[(u64, u64)]| {
            let mut place = self.address + offset;
            for (_, bytes) in pieces {
                // SAFETY: mapped below, and nobody has the address yet. The error that counts is
                // the first.
                let _unmapped = unsafe { self.device.unmap(place, *bytes) };
                place += bytes;
            }
        };
        for (index, (handle, bytes)) in pieces.iter().enumerate() {
            // SAFETY: the range is reserved, nothing is mapped there, and the memory is this
            // device's.
            unsafe { self.device.map(place, *bytes, *handle) }
                .inspect_err(|_| undo(&pieces[..index]))?;
            place += bytes;
        }
        // SAFETY: just mapped.
        unsafe { self.device.allow_access(self.address + offset, bytes) }
            .inspect_err(|_| undo(pieces))
    }

    /// Takes away the memory that was mapped at `offset`; nothing if none was. Its content stays.
    ///
    /// # Errors
    ///
    /// If the device fails: then it is still mapped.
    ///
    /// # Safety
    ///
    /// Nobody may use these addresses from now on, no running kernel either.
    pub unsafe fn unmap(&self, offset: u64) -> Result<Option<PhysicalMemory>> {
        let mut mapped = self.mapped();
        let Some(memory) = mapped.get(&offset) else {
            return Ok(None);
        };
        if !self.is_alive() {
            return Err(self.why_lost());
        }
        // SAFETY: mapped by `map`; as the caller promises.
        unsafe { self.device.unmap(self.address + offset, memory.bytes)? };
        Ok(mapped.remove(&offset))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_alive() {
            return;
        }
        let aliases: Vec<_> = self.aliases().keys().copied().collect();
        for offset in aliases {
            // SAFETY: nobody has the addresses any more. An error has nobody to go to.
            let _unmapped = unsafe { self.unalias(offset) };
        }
        let mapped = std::mem::take(&mut *self.mapped());
        for (offset, memory) in mapped {
            // SAFETY: mapped by `map`, and nobody has the addresses any more. An error has nobody
            // to go to.
            let _unmapped = unsafe { self.device.unmap(self.address + offset, memory.bytes) };
        }
        // SAFETY: reserved by the device; nothing is mapped there.
        unsafe { self.device.cancel_reservation(self.address, self.bytes) };
    }
}

/// Memory of the host that the device can reach, for words that both read and write. All zero at
/// first.
#[derive(Debug)]
pub struct HostMemory {
    device: Device,
    pointer: u64,
    address: u64,
    bytes: u64,
    generation: u64,
}

impl HostMemory {
    pub(crate) fn new(device: Device, (pointer, address): (u64, u64), bytes: u64) -> Self {
        let generation = device.generation();
        Self {
            device,
            pointer,
            address,
            bytes,
            generation,
        }
    }

    /// What the host and the device have there. It begins at a multiple of 256.
    ///
    /// # Safety
    ///
    /// It must be as large, be valid when it is all zero, and allow that the device changes it:
    /// a structure of atomics. The device must not be recovered while it is used: that takes it away.
    #[must_use]
    pub unsafe fn get<T>(&self) -> &T {
        debug_assert!(size_of::<T>() as u64 <= self.bytes && align_of::<T>() <= 256);
        // SAFETY: as the caller promises.
        unsafe { &*(self.pointer as *const T) }
    }

    /// Its bytes, for copies that the host asks for.
    ///
    /// # Safety
    ///
    /// Nobody else may have its address, and the device must not be recovered while it is used.
    pub(crate) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        let length = usize::try_from(self.bytes).unwrap_or(0);
        // SAFETY: all bytes were set to zero when it was allocated; else as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.pointer as *mut u8, length) }
    }

    /// Address for the device.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if self.generation == self.device.generation() && !self.device.is_lost() {
            // SAFETY: allocated by the device, and nobody has it any more.
            unsafe { self.device.release_host(self.pointer, self.bytes) };
        }
    }
}
