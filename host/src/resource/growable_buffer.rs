//! Values on a device that become more or fewer without moving.

use super::owned::bytes_of;
use super::{DevicePointer, Error, Result};
use crate::device::{Device, Stream};
use crate::memory::zeroes;
use crate::virtual_memory::Reservation;
use bytemuck::{AnyBitPattern, NoUninit};
use std::marker::PhantomData;

/// Values of one type on a device, side by side. Addresses are reserved for the most that there can
/// be, and get memory as the buffer grows: what is there stays where it is, and is not copied.
///
/// ```
/// use scatterheap_host::resource::GrowableBuffer;
/// use scatterheap_host::{Device, Stream};
///
/// let device = Device::cpu();
/// let stream = Stream::default_of(&device);
/// let mut buffer = GrowableBuffer::reserve(&device, 1 << 28)?;
/// buffer.grow(1000)?;
/// let address = buffer.pointer();
/// buffer.write(&stream, 998, &[7_u32, 8])?;
/// buffer.grow(1 << 20)?;
/// assert_eq!(buffer.pointer(), address);
/// assert_eq!(buffer.read(&stream, 998, 2)?, [7, 8]);
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
#[derive(Debug)]
pub struct GrowableBuffer<T> {
    device: Device,
    range: Reservation,
    pointer: DevicePointer,
    most: usize,
    length: usize,
    /// Offset and bytes of each piece of memory.
    mapped: Vec<(u64, u64)>,
    /// The values are on a device, which may be used from any thread.
    values: PhantomData<fn() -> T>,
}

impl<T: NoUninit + AnyBitPattern> GrowableBuffer<T> {
    /// Reserves addresses for `most` values, of which there are none yet.
    ///
    /// # Errors
    ///
    /// If there are no such addresses, or the values have no bytes.
    pub fn reserve(device: &Device, most: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(most);
        if bytes == 0 || bytes > super::MAX_BYTES || align_of::<T>() > 4096 {
            return Err(Error::BadSettings {
                asked: format!("addresses for {most} values of {} bytes", size_of::<T>()),
                advice: "ask for at least one byte, and at most 128 TiB, aligned to 4 KiB at most",
            });
        }
        let range = device.reserve(bytes, 1)?;
        let pointer = DevicePointer::new(range.address()).ok_or(Error::OutOfMemory {
            resource: "a growable buffer",
            asked: bytes,
        })?;
        Ok(Self {
            device: device.clone(),
            range,
            pointer,
            most,
            length: 0,
            mapped: Vec::new(),
            values: PhantomData,
        })
    }

    fn committed(&self) -> u64 {
        self.mapped
            .last()
            .map_or(0, |(offset, bytes)| offset + bytes)
    }

    /// Makes it `length` values long, if it is shorter. The new values are undefined.
    ///
    /// # Errors
    ///
    /// If there are no addresses for as many, or not enough memory; then it stays as it is.
    pub fn grow(&mut self, length: usize) -> Result<()> {
        if length > self.most {
            return Err(Error::OutOfBounds {
                first: 0,
                asked: length,
                length: self.most,
            });
        }
        let (committed, end) = (self.committed(), bytes_of::<T>(length));
        if end > committed {
            let memory = self.device.create_memory(end - committed)?;
            let bytes = memory.bytes();
            self.range.map(committed, memory)?;
            self.mapped.push((committed, bytes));
        }
        self.length = self.length.max(length);
        Ok(())
    }

    /// Makes it `length` values long, if it is longer, and gives back the pieces of memory that are
    /// not needed any more: waits for all work of the device first.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn shrink(&mut self, length: usize) -> Result<()> {
        if length >= self.length {
            return Ok(());
        }
        self.device.synchronize()?;
        self.length = length;
        let end = bytes_of::<T>(length);
        while let Some((offset, _)) = self
            .mapped
            .last()
            .copied()
            .filter(|(offset, _)| *offset >= end)
        {
            // SAFETY: behind the last value, and all work that could use it is done.
            unsafe { self.range.unmap(offset)? };
            self.mapped.pop();
        }
        Ok(())
    }

    fn place(&self, first: usize, asked: usize) -> Result<u64> {
        match first.checked_add(asked) {
            Some(end) if end <= self.length => Ok(self.pointer.address() + bytes_of::<T>(first)),
            _ => Err(Error::OutOfBounds {
                first,
                asked,
                length: self.length,
            }),
        }
    }

    fn check(&self, stream: &Stream) -> Result<()> {
        super::request::check_stream(&self.device, stream)
    }

    /// Overwrites values from the `first`th on, after the work of `stream`.
    ///
    /// # Errors
    ///
    /// If there are not as many, or the device fails.
    pub fn write(&mut self, stream: &Stream, first: usize, values: &[T]) -> Result<()> {
        self.check(stream)?;
        let address = self.place(first, values.len())?;
        if !values.is_empty() {
            // SAFETY: the place has memory.
            unsafe { stream.copy_to(address, bytemuck::cast_slice(values)) }?;
        }
        Ok(())
    }

    /// Reads `count` values from the `first`th on, after the work of `stream`.
    ///
    /// # Errors
    ///
    /// If there are not as many, the host has no memory for them, or the device fails.
    pub fn read(&self, stream: &Stream, first: usize, count: usize) -> Result<Vec<T>> {
        self.check(stream)?;
        let address = self.place(first, count)?;
        let mut values = zeroes(count)?;
        if count > 0 {
            let bytes = bytemuck::cast_slice_mut(&mut values);
            // SAFETY: the place has memory.
            unsafe { stream.copy_from(address, bytes) }?;
        }
        Ok(values)
    }
}

impl<T> Drop for GrowableBuffer<T> {
    fn drop(&mut self) {
        // Work may still use what is unmapped now. If the device failed there is nothing to wait for.
        self.device.settle();
    }
}

impl<T> GrowableBuffer<T> {
    /// Where the first value is, for ever.
    #[must_use]
    pub fn pointer(&self) -> DevicePointer {
        self.pointer
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Values that there are addresses for.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Bytes that have memory.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.range.mapped_bytes()
    }
}
