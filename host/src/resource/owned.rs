//! Values on a device that are given back when they are dropped.

use super::{DEFAULT_ALIGNMENT, DevicePointer, Error, MemoryResource, Result};
use crate::device::Stream;
use crate::memory::zeroes;
use bytemuck::{AnyBitPattern, NoUninit};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Values of one type on a device, side by side. Their memory goes back to the resource when it is
/// dropped, after the work of their stream.
///
/// ```
/// use scatterheap_host::resource::{Caching, DeviceVec};
/// use scatterheap_host::{Device, Stream};
/// use std::sync::Arc;
///
/// let device = Device::cpu();
/// let stream = Stream::new(&device)?;
/// let memory = Arc::new(Caching::of(&device));
/// let squares = DeviceVec::from_slice(memory.clone(), &stream, &[0_u32, 1, 4, 9])?;
/// assert_eq!(squares.read(2, 2)?, [4, 9]);
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
pub struct DeviceVec<T> {
    resource: Arc<dyn MemoryResource>,
    stream: Stream,
    /// None if there are no bytes.
    block: Option<DevicePointer>,
    length: usize,
    /// The values are on a device, which may be used from any thread.
    values: PhantomData<fn() -> T>,
}

/// Bytes of so many values.
pub(super) fn bytes_of<T>(length: usize) -> u64 {
    (length as u64).saturating_mul(size_of::<T>() as u64)
}

fn alignment_of<T>() -> u64 {
    (align_of::<T>() as u64).max(DEFAULT_ALIGNMENT)
}

impl<T: NoUninit + AnyBitPattern> DeviceVec<T> {
    /// Room for `length` values, which are undefined.
    fn of_length(
        resource: Arc<dyn MemoryResource>,
        stream: &Stream,
        length: usize,
    ) -> Result<Self> {
        let block = match bytes_of::<T>(length) {
            0 => None,
            bytes => Some(resource.allocate(bytes, alignment_of::<T>(), stream)?),
        };
        Ok(Self {
            resource,
            stream: stream.clone(),
            block,
            length,
            values: PhantomData,
        })
    }

    /// `length` values of which all bytes are zero.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or the device fails.
    pub fn zeroed(
        resource: Arc<dyn MemoryResource>,
        stream: &Stream,
        length: usize,
    ) -> Result<Self> {
        let zeroes = Self::of_length(resource, stream, length)?;
        if let Some(block) = zeroes.block {
            // SAFETY: all bytes are of the block, which this owns.
            unsafe { stream.clear(block.address(), bytes_of::<T>(length)) }?;
        }
        Ok(zeroes)
    }

    /// A copy of `values`.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or the device fails.
    pub fn from_slice(
        resource: Arc<dyn MemoryResource>,
        stream: &Stream,
        values: &[T],
    ) -> Result<Self> {
        let mut copy = Self::of_length(resource, stream, values.len())?;
        copy.write(0, values)?;
        Ok(copy)
    }

    fn place(&self, first: usize, asked: usize) -> Result<u64> {
        match first.checked_add(asked) {
            Some(end) if end <= self.length => {
                let base = self.block.map_or(0, DevicePointer::address);
                Ok(base + bytes_of::<T>(first))
            }
            _ => Err(Error::OutOfBounds {
                first,
                asked,
                length: self.length,
            }),
        }
    }

    /// Overwrites values from the `first`th on, after the work of their stream.
    ///
    /// # Errors
    ///
    /// If there are not as many, or the device fails.
    pub fn write(&mut self, first: usize, values: &[T]) -> Result<()> {
        let address = self.place(first, values.len())?;
        if size_of_val(values) == 0 {
            return Ok(());
        }
        // SAFETY: the place is within the block, which this owns.
        unsafe { self.stream.copy_to(address, bytemuck::cast_slice(values)) }?;
        Ok(())
    }

    /// Reads `count` values from the `first`th on, after the work of their stream.
    ///
    /// # Errors
    ///
    /// If there are not as many, the host has no memory for them, or the device fails.
    pub fn read(&self, first: usize, count: usize) -> Result<Vec<T>> {
        let address = self.place(first, count)?;
        let mut values = zeroes(count)?;
        if bytes_of::<T>(count) > 0 {
            let bytes = bytemuck::cast_slice_mut(&mut values);
            // SAFETY: the place is within the block, which this owns.
            unsafe { self.stream.copy_from(address, bytes) }?;
        }
        Ok(values)
    }
}

impl<T> DeviceVec<T> {
    /// Where the values are; none if they have no bytes.
    #[must_use]
    pub fn pointer(&self) -> Option<DevicePointer> {
        self.block
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

    /// The stream whose work it is given back after. Work on other streams must be done by then.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

impl<T> Drop for DeviceVec<T> {
    fn drop(&mut self) {
        if let Some(block) = self.block {
            let (bytes, alignment) = (bytes_of::<T>(self.length), alignment_of::<T>());
            // SAFETY: this owned it, and is no more. An error has nobody to go to.
            let _failed = unsafe {
                self.resource
                    .deallocate(block, bytes, alignment, &self.stream)
            };
        }
    }
}

impl<T> fmt::Debug for DeviceVec<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.block.map_or(0, DevicePointer::address);
        write!(formatter, "DeviceVec({} at {address:#x})", self.length)
    }
}

/// One value on a device. Its memory goes back to the resource when it is dropped, after the work of
/// its stream.
#[derive(Debug)]
pub struct DeviceBox<T>(DeviceVec<T>);

impl<T: NoUninit + AnyBitPattern> DeviceBox<T> {
    /// A copy of `value`.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or the device fails.
    pub fn new(resource: Arc<dyn MemoryResource>, stream: &Stream, value: T) -> Result<Self> {
        DeviceVec::from_slice(resource, stream, &[value]).map(Self)
    }

    /// The value, after the work of its stream.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn get(&self) -> Result<T> {
        let values = self.0.read(0, 1)?;
        Ok(values.first().copied().unwrap_or_else(T::zeroed))
    }

    /// Overwrites the value, after the work of its stream.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn set(&mut self, value: T) -> Result<()> {
        self.0.write(0, &[value])
    }

    /// Where it is; none if it has no bytes.
    #[must_use]
    pub fn pointer(&self) -> Option<DevicePointer> {
        self.0.pointer()
    }
}
