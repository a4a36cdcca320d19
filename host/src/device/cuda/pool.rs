//! The driver's own pools. (CUDA driver API, "Stream Ordered Memory Allocator".)

use super::{Cuda, failed};
use crate::device::PoolNumber;
use crate::error::Result;
use cudarc::driver::sys::{self, CUmemPool_attribute as Attribute, CUmemoryPool, CUresult};
use std::ffi::c_void;

fn pool_of(handle: u64) -> CUmemoryPool {
    handle as CUmemoryPool
}

fn attribute(number: PoolNumber) -> Attribute {
    match number {
        PoolNumber::ReleaseThreshold => Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
        PoolNumber::Reserved => Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
        PoolNumber::ReservedHigh => Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
        PoolNumber::Used => Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
        PoolNumber::UsedHigh => Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH,
    }
}

impl Cuda {
    /// Makes a pool with `most` bytes at most, or no limit for 0.
    pub fn create_pool(&self, most: u64) -> Result<u64> {
        self.enter()?;
        let properties = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: self.location(),
            win32SecurityAttributes: std::ptr::null_mut(),
            maxSize: usize::try_from(most).unwrap_or(0),
            usage: 0,
            reserved: [0; 54],
        };
        let mut pool = std::ptr::null_mut();
        // SAFETY: writes the handle to the variable; `destroy_pool` gives it back.
        unsafe { sys::cuMemPoolCreate(&raw mut pool, &raw const properties) }
            .result()
            .map_err(failed("make a pool of memory"))?;
        Ok(pool as u64)
    }

    pub unsafe fn destroy_pool(&self, pool: u64) {
        if self.enter_to_release() {
            // SAFETY: as the caller promises. An error has nobody to go to.
            let _destroyed = unsafe { sys::cuMemPoolDestroy(pool_of(pool)) };
        }
    }

    pub unsafe fn allocate_from_pool(&self, pool: u64, bytes: u64, stream: u64) -> Result<u64> {
        self.enter()?;
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (mut address, stream) = (0, stream as sys::CUstream);
        // SAFETY: writes the address to the variable; pool and stream live as long as who calls.
        unsafe { sys::cuMemAllocFromPoolAsync(&raw mut address, length, pool_of(pool), stream) }
            .result()
            .map_err(|error| match error.0 {
                CUresult::CUDA_ERROR_OUT_OF_MEMORY => self.out_of_memory(bytes),
                _ => self.judge("allocate from a pool", error),
            })?;
        Ok(address)
    }

    pub unsafe fn free_to_pool(&self, address: u64, stream: u64) -> Result<()> {
        self.enter()?;
        // SAFETY: as the caller promises: allocated from a pool, and freed once.
        unsafe { sys::cuMemFreeAsync(address, stream as sys::CUstream) }
            .result()
            .map_err(|error| self.judge("free to a pool", error))
    }

    pub unsafe fn trim_pool(&self, pool: u64, keep: u64) -> Result<()> {
        self.enter()?;
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        // SAFETY: the pool lives as long as who calls.
        unsafe { sys::cuMemPoolTrimTo(pool_of(pool), keep) }
            .result()
            .map_err(|error| self.judge("trim a pool", error))
    }

    pub unsafe fn pool_number(&self, pool: u64, number: PoolNumber) -> Result<u64> {
        self.enter()?;
        let mut value = 0_u64;
        let place = (&raw mut value).cast::<c_void>();
        // SAFETY: writes a number of 64 bits, as all these are, to the variable.
        unsafe { sys::cuMemPoolGetAttribute(pool_of(pool), attribute(number), place) }
            .result()
            .map_err(failed("read a pool's attributes"))?;
        Ok(value)
    }

    /// Sets the release threshold; of the highest numbers, resets them with 0.
    pub unsafe fn set_pool_number(
        &self,
        pool: u64,
        number: PoolNumber,
        mut value: u64,
    ) -> Result<()> {
        self.enter()?;
        let place = (&raw mut value).cast::<c_void>();
        // SAFETY: reads a number of 64 bits from the variable.
        unsafe { sys::cuMemPoolSetAttribute(pool_of(pool), attribute(number), place) }
            .result()
            .map_err(failed("set a pool's attributes"))
    }
}
