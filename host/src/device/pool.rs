//! Pools of memory that the driver of a GPU has. A CPU has none: [`create`] says so.

use super::{Device, Kind};
use crate::device::Stream;
use crate::error::Result;

/// A number of a pool, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolNumber {
    ReleaseThreshold,
    Reserved,
    ReservedHigh,
    Used,
    UsedHigh,
}

/// A pool of the driver. It is destroyed when it is dropped, after all work of the device.
#[derive(Debug)]
pub(crate) struct Pool {
    device: Device,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "no GPU, no pool"))]
    handle: u64,
    generation: u64,
}

/// Makes a pool of a GPU with `most` bytes at most, or no limit for 0; nothing on a CPU.
#[cfg_attr(
    not(feature = "cuda"),
    expect(
        unused_variables,
        clippy::unnecessary_wraps,
        reason = "no GPU, no pool"
    )
)]
pub(crate) fn create(device: &Device, most: u64) -> Result<Option<Pool>> {
    let handle: Option<u64> = match &device.0.kind {
        Kind::Cpu(_) => None,
        #[cfg(feature = "cuda")]
        Kind::Cuda(cuda) => Some(cuda.create_pool(most)?),
    };
    Ok(handle.map(|handle| Pool {
        device: device.clone(),
        handle,
        generation: device.generation(),
    }))
}

/// Calls a method of the GPU that a pool is on.
macro_rules! on_gpu {
    ($pool:expr, $cuda:ident => $call:expr) => {
        match &$pool.device.0.kind {
            Kind::Cpu(_) => unreachable!("a CPU has no pools"),
            #[cfg(feature = "cuda")]
            Kind::Cuda($cuda) => $call,
        }
    };
}

#[cfg_attr(
    not(feature = "cuda"),
    expect(unused_variables, reason = "no GPU, no pool")
)]
impl Pool {
    fn is_alive(&self) -> bool {
        self.generation == self.device.generation() && !self.device.is_lost()
    }

    fn alive(&self) -> Result<()> {
        if self.is_alive() {
            return Ok(());
        }
        Err(self.device.why_lost())
    }

    pub fn allocate(&self, bytes: u64, stream: &Stream) -> Result<u64> {
        self.alive()?;
        self.device.called(1);
        // SAFETY: the pool is alive.
        on_gpu!(self, cuda => unsafe {
            cuda.allocate_from_pool(self.handle, bytes, stream.handle())
        })
    }

    /// Gives memory back.
    ///
    /// # Safety
    ///
    /// It must be allocated from this pool, and freed once.
    pub unsafe fn free(&self, address: u64, stream: &Stream) -> Result<()> {
        self.alive()?;
        self.device.called(1);
        // SAFETY: as the caller promises.
        on_gpu!(self, cuda => unsafe { cuda.free_to_pool(address, stream.handle()) })
    }

    pub fn trim_to(&self, keep: u64) -> Result<()> {
        self.alive()?;
        // SAFETY: the pool is alive.
        on_gpu!(self, cuda => unsafe { cuda.trim_pool(self.handle, keep) })
    }

    pub fn number(&self, number: PoolNumber) -> Result<u64> {
        self.alive()?;
        // SAFETY: the pool is alive.
        on_gpu!(self, cuda => unsafe { cuda.pool_number(self.handle, number) })
    }

    pub fn set_number(&self, number: PoolNumber, value: u64) -> Result<()> {
        self.alive()?;
        // SAFETY: the pool is alive.
        on_gpu!(self, cuda => unsafe { cuda.set_pool_number(self.handle, number, value) })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.is_alive() {
            // Work may still use its memory.
            self.device.settle();
            // SAFETY: nobody has the pool any more.
            on_gpu!(self, cuda => unsafe { cuda.destroy_pool(self.handle) });
        }
    }
}
