//! One resource for each of several devices.
//!
//! A set finds the resource of a stream's device, so that a program with several GPUs need not carry
//! them about. Devices of a set can be let access each other's memory
//! ([`Device::enable_peer_access`]); memory is still allocated on the device of the stream that asks
//! for it, and given back with a stream of that device.

use super::request::wrong_device;
use super::{DevicePointer, Error, Live, MemoryResource, Result};
use crate::device::{Device, Stream};

/// A resource for each of several devices.
///
/// ```
/// use scatterheap_host::resource::{Caching, PerDevice};
/// use scatterheap_host::{Device, Stream};
///
/// let devices = [Device::cpu_with_threads(2), Device::cpu_with_threads(4)];
/// let memory = PerDevice::new(&devices, |device| Ok(Caching::of(device)))?;
/// memory.connect()?;
/// let stream = Stream::new(&devices[1])?;
/// let block = memory.allocate(4096, 256, &stream)?;
/// assert_eq!(memory.of(&devices[1])?.usage().misses, 1);
/// // SAFETY: nothing uses it.
/// unsafe { memory.deallocate(block, 4096, 256, &stream) }?;
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
#[derive(Debug)]
pub struct PerDevice<R> {
    resources: Vec<R>,
}

impl<R: MemoryResource> PerDevice<R> {
    /// Makes one for each device.
    ///
    /// # Errors
    ///
    /// If one cannot be made, there are no devices, or one is given twice.
    pub fn new(devices: &[Device], mut make: impl FnMut(&Device) -> Result<R>) -> Result<Self> {
        for (index, device) in devices.iter().enumerate() {
            if devices[..index].iter().any(|other| other.is_same(device)) {
                return Err(Error::BadSettings {
                    asked: format!("two resources of {}", device.label()),
                    advice: "give each device once",
                });
            }
        }
        if devices.is_empty() {
            return Err(Error::BadSettings {
                asked: "resources of no devices".into(),
                advice: "give at least one device",
            });
        }
        let resources = devices.iter().map(&mut make).collect::<Result<_>>()?;
        Ok(Self { resources })
    }

    /// Lets kernels of each device access the memory of all others, as far as the resources get it from now
    /// on by mapping, and all memory that they get otherwise.
    ///
    /// # Errors
    ///
    /// If two of them cannot.
    pub fn connect(&self) -> Result<()> {
        for one in &self.resources {
            for other in &self.resources {
                if !one.device().is_same(other.device()) {
                    one.device().enable_peer_access(other.device())?;
                }
            }
        }
        Ok(())
    }

    /// The resource of a device.
    ///
    /// # Errors
    ///
    /// If it is of none of them.
    pub fn of(&self, device: &Device) -> Result<&R> {
        let mut resources = self.resources.iter();
        let found = resources.find(|resource| resource.device().is_same(device));
        // There is at least one, which stands for all.
        found.ok_or_else(|| wrong_device(self.resources[0].device(), device))
    }

    /// All of them, in the order of the devices.
    #[must_use]
    pub fn resources(&self) -> &[R] {
        &self.resources
    }

    /// Allocates on the device of the stream; see [`MemoryResource::allocate`].
    ///
    /// # Errors
    ///
    /// As there, and if there is no resource of that device.
    pub fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer> {
        let resource = self.of(stream.device())?;
        resource.allocate(bytes, alignment, stream)
    }

    /// Takes a block back that was allocated on the device of the stream; see
    /// [`MemoryResource::deallocate`].
    ///
    /// # Errors
    ///
    /// As there, and if there is no resource of that device.
    ///
    /// # Safety
    ///
    /// As there.
    pub unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()> {
        let resource = self.of(stream.device())?;
        // SAFETY: as the caller promises.
        unsafe { resource.deallocate(pointer, bytes, alignment, stream) }
    }

    /// What all of them have handed out.
    #[must_use]
    pub fn live(&self) -> Live {
        self.resources.iter().fold(Live::default(), |sum, one| {
            let Live { blocks, bytes } = one.live();
            Live {
                blocks: sum.blocks + blocks,
                bytes: sum.bytes + bytes,
            }
        })
    }

    /// Gives what all of them keep for later back; its bytes.
    ///
    /// # Errors
    ///
    /// If a device fails.
    pub fn trim(&self) -> Result<u64> {
        self.resources.iter().map(MemoryResource::trim).sum()
    }
}
