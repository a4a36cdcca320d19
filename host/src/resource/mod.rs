//! Memory of a device that the host hands out: one small trait, resources that own memory, and
//! adaptors around any of them.
//!
//! A [`MemoryResource`] allocates and deallocates bytes, in the order of a [`Stream`]: what is
//! deallocated on a stream may still be used by work that was enqueued there before, and is handed
//! out again only to work that comes after it, be it on the same stream or on another one, which is
//! made to wait. All resources may be used from many threads.
//!
//! | resource | what it is for |
//! |---|---|
//! | [`DeviceMemory`] | the device's own allocator; where others get their memory from |
//! | [`DriverPool`] | the driver's own pool, with its threshold and statistics |
//! | [`BlockPool`] | a fixed number of blocks of one size |
//! | [`Slab`] | size classes from 256 B to 64 KiB |
//! | [`Buddy`] | powers of two, split and merged, in one piece of memory |
//! | [`Arena`] | one allocation after the other, freed in bulk; grows over reserved addresses |
//! | [`Segments`] | any size, the best fitting place, split and merged |
//! | [`Remapping`] | any size; free memory is mapped to where it is needed, so that it is never in the wrong place |
//! | [`Caching`] | keeps what was freed for the next who wants that size; the fast one |
//!
//! | adaptor | what it adds |
//! |---|---|
//! | [`Statistics`] | counts: calls, bytes, the most bytes at once |
//! | [`Limiting`] | refuses more than so many bytes at once |
//! | [`Tracking`] | who allocated what is still there |
//! | [`Logging`] | every call, as CSV |
//! | [`OnFailure`] | asks what to do when memory is out |
//! | [`Waiting`] | a future for an allocation, which waits while memory is out |
//! | [`BySize`] | one resource for small blocks and another for large ones |
//! | [`Fallback`] | a second resource for what the first has no room for |
//!
//! A [`PerDevice`] set has one for each of several devices. A [`Configuration`] makes the one that a user gets by default, as variables of the environment
//! say. [`DeviceBox`] and [`DeviceVec`] give back what they own; a [`GrowableBuffer`] grows without
//! moving.
//!
//! Wrong use is an error and changes nothing: a pointer that is freed twice or is not of this
//! resource, a size or an alignment other than at its allocation, no bytes at all, a stream of
//! another device. (A pointer that is freed twice after its memory was allocated again, in the same
//! size, is a pointer of the new owner: that nobody can tell.) What a dropped resource had handed
//! out is gone; [`live`](MemoryResource::live) tells before how much that is.
//!
//! The trait is in the image of RMM's `device_memory_resource`
//! (<https://docs.rapids.ai/api/rmm/stable/>).

pub mod adaptor;
mod arena;
mod block_pool;
mod blocks;
mod buddy;
mod caching;
mod configuration;
mod device_memory;
mod driver_pool;
mod error;
mod growable_buffer;
mod ledger;
mod order;
mod owned;
mod per_device;
mod pieces;
mod remapping;
mod request;
mod returned;
mod segments;
mod slab;
#[cfg(test)]
mod testing;

pub use adaptor::{BySize, Fallback, Limiting, Logging, OnFailure, Statistics, Tracking, Waiting};
pub use arena::{Arena, Scope};
pub use block_pool::BlockPool;
pub use buddy::Buddy;
pub use caching::{Caching, CachingBuilder, Usage};
pub use configuration::{Configuration, Configured, Upstream};
pub use device_memory::DeviceMemory;
pub use driver_pool::{DriverPool, PoolStatistics};
pub use error::{Error, Result};
pub use growable_buffer::GrowableBuffer;
pub use owned::{DeviceBox, DeviceVec};
pub use per_device::PerDevice;
pub use pieces::{Fragmentation, Span};
pub use remapping::{Remapping, RemappingBuilder};
pub use request::{DEFAULT_ALIGNMENT, MAX_BYTES};
pub use segments::Segments;
pub use slab::Slab;

use crate::device::{Device, MemoryInfo, Stream};
use std::fmt::{self, Debug};
use std::num::NonZeroU64;
use std::sync::Arc;

/// An address of a device's memory, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DevicePointer(NonZeroU64);

impl DevicePointer {
    /// The pointer with this address; none for 0.
    #[must_use]
    pub fn new(address: u64) -> Option<Self> {
        NonZeroU64::new(address).map(Self)
    }

    /// Its address on the device.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0.get()
    }

    /// For the arguments of a kernel. On a GPU the host must not use it.
    #[must_use]
    pub fn as_ptr<T>(self) -> *mut T {
        self.address() as *mut T
    }
}

impl fmt::Display for DevicePointer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.address())
    }
}

/// What is handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes that were asked for, without what rounding adds.
    pub bytes: u64,
}

/// Hands out memory of a device, in the order of streams.
///
/// # Safety
///
/// Whoever has a block uses its memory without asking again, a [`DeviceVec`] for one, which copies from and to it. So what
/// [`allocate`](Self::allocate) and [`allocate_reserved`](Self::allocate_reserved) give must be memory of
/// [`device`](Self::device), which is always the same: at least as many bytes as were asked for, at a multiple of the alignment,
/// that stay there and are nobody else's until they are deallocated, without an error, or the resource is dropped. What else takes
/// blocks back must need the resource alone, as [`Arena::reset`] does by `&mut self`, or be `unsafe`.
///
/// So safe code cannot take the memory of a [`DeviceVec`] away:
///
/// ```compile_fail,E0133
/// use scatterheap_host::resource::{Caching, DeviceVec, MemoryResource};
/// use scatterheap_host::{Device, Stream};
/// use std::sync::Arc;
///
/// let device = Device::cpu();
/// let stream = Stream::new(&device)?;
/// let memory = Arc::new(Caching::of(&device));
/// let squares = DeviceVec::from_slice(memory.clone(), &stream, &[0_u32, 1, 4, 9])?;
/// if let Some(block) = squares.pointer() {
///     memory.deallocate(block, 16, 256, &stream)?;
/// }
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
pub unsafe trait MemoryResource: Send + Sync + Debug {
    /// The device that the memory is on.
    fn device(&self) -> &Device;

    /// Allocates `bytes` bytes at a multiple of `alignment`, a power of two
    /// ([`DEFAULT_ALIGNMENT`] is the least that there is), for work that is enqueued on `stream` from
    /// now on. What is there is undefined.
    ///
    /// # Errors
    ///
    /// If there is not enough ([`Error::is_out_of_memory`]), or the request makes no sense.
    fn allocate(&self, bytes: u64, alignment: u64, stream: &Stream) -> Result<DevicePointer>;

    /// Allocates as [`allocate`](Self::allocate) does if that takes no more memory from where this
    /// resource gets it; nothing if it would. Resources that do not tell these apart always
    /// allocate.
    ///
    /// # Errors
    ///
    /// As for [`allocate`](Self::allocate).
    fn allocate_reserved(
        &self,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<Option<DevicePointer>> {
        self.allocate(bytes, alignment, stream).map(Some)
    }

    /// Takes a block back, after the work that is enqueued on `stream`. If it was used on other
    /// streams, these must have done so, or `stream` wait for them.
    ///
    /// # Errors
    ///
    /// If this resource did not hand it out with these bytes and this alignment, or has it back
    /// already, or the device fails. Then nothing changes, unless the device is lost: its blocks are gone then, and a resource is to be made anew.
    ///
    /// # Safety
    ///
    /// If the pointer is that of a block that is handed out, the block must be the caller's to give back: no [`DeviceVec`],
    /// [`DeviceBox`], heap or other owner has it, and nobody uses it any more but work that was enqueued on `stream` before,
    /// or that `stream` waits for. Everything else may be given and is refused, as far as that can be told: a second free is
    /// taken for the new owner's if the block was allocated again meanwhile, with the same bytes and alignment.
    unsafe fn deallocate(
        &self,
        pointer: DevicePointer,
        bytes: u64,
        alignment: u64,
        stream: &Stream,
    ) -> Result<()>;

    /// What is handed out now. Takes time, as it counts, and is exact if nobody allocates or
    /// deallocates meanwhile.
    fn live(&self) -> Live;

    /// Gives what is kept for later back to where it came from, down to the device; the bytes that were given back. May
    /// wait for the device. What goes through several resources counts once: as it went to the upstream or
    /// from there, whichever is more.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn trim(&self) -> Result<u64> {
        Ok(0)
    }

    /// Bytes that are free where its memory comes from, and in all.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn memory(&self) -> Result<MemoryInfo> {
        Ok(self.device().memory_info()?)
    }
}

macro_rules! forward {
    ($type:ty) => {
        // SAFETY: the blocks are those of what it points to.
        unsafe impl<R: MemoryResource + ?Sized> MemoryResource for $type {
            fn device(&self) -> &Device {
                (**self).device()
            }

            fn allocate(
                &self,
                bytes: u64,
                alignment: u64,
                stream: &Stream,
            ) -> Result<DevicePointer> {
                (**self).allocate(bytes, alignment, stream)
            }

            fn allocate_reserved(
                &self,
                bytes: u64,
                alignment: u64,
                stream: &Stream,
            ) -> Result<Option<DevicePointer>> {
                (**self).allocate_reserved(bytes, alignment, stream)
            }

            unsafe fn deallocate(
                &self,
                pointer: DevicePointer,
                bytes: u64,
                alignment: u64,
                stream: &Stream,
            ) -> Result<()> {
                // SAFETY: as the caller promises.
                unsafe { (**self).deallocate(pointer, bytes, alignment, stream) }
            }

            fn live(&self) -> Live {
                (**self).live()
            }

            fn trim(&self) -> Result<u64> {
                (**self).trim()
            }

            fn memory(&self) -> Result<MemoryInfo> {
                (**self).memory()
            }
        }
    };
}

forward!(&R);
forward!(Box<R>);
forward!(Arc<R>);
