//! Addresses and physical memory of a GPU apart from each other, and host memory that it can reach.
//!
//! None of these calls takes the lock of the state: memory is mapped while other threads wait for
//! kernels. (CUDA driver API, "Virtual Memory Management".)

use super::{Cuda, failed};
use crate::error::Result;
use cudarc::driver::sys::{self, CUresult};
use std::ffi::c_void;

impl Cuda {
    fn properties(&self) -> sys::CUmemAllocationProp {
        sys::CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: self.location(),
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        }
    }

    pub(super) fn location(&self) -> sys::CUmemLocation {
        sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: self.ordinal.cast_signed(),
        }
    }

    pub fn granule(&self) -> Result<u64> {
        self.enter()?;
        let (mut bytes, properties) = (0, self.properties());
        let option = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: writes the size to the variable.
        unsafe {
            sys::cuMemGetAllocationGranularity(&raw mut bytes, &raw const properties, option)
        }
        .result()
        .map_err(failed("ask for the granularity of memory"))?;
        Ok(bytes as u64)
    }

    pub fn reserve(&self, bytes: u64, alignment: u64) -> Result<u64> {
        self.enter()?;
        let mut address = 0;
        let (length, alignment) = (size(bytes), size(alignment));
        // SAFETY: writes the address to the variable; `cancel_reservation` gives it back.
        unsafe { sys::cuMemAddressReserve(&raw mut address, length, alignment, 0, 0) }
            .result()
            .map_err(|error| self.judge("reserve addresses", error))?;
        Ok(address)
    }

    pub unsafe fn cancel_reservation(&self, address: u64, bytes: u64) {
        if self.enter_to_release() {
            // SAFETY: as the caller promises. An error has nobody to go to.
            let _freed = unsafe { sys::cuMemAddressFree(address, size(bytes)) };
        }
    }

    pub fn create_memory(&self, bytes: u64) -> Result<u64> {
        self.enter()?;
        let mut handle = 0;
        let properties = self.properties();
        // SAFETY: writes the handle to the variable; `release_memory` gives it back.
        unsafe { sys::cuMemCreate(&raw mut handle, size(bytes), &raw const properties, 0) }
            .result()
            .map_err(|error| match error.0 {
                CUresult::CUDA_ERROR_OUT_OF_MEMORY => self.out_of_memory(bytes),
                _ => self.judge("allocate physical memory", error),
            })?;
        Ok(handle)
    }

    pub unsafe fn release_memory(&self, handle: u64, _bytes: u64) {
        if self.enter_to_release() {
            // SAFETY: as the caller promises. An error has nobody to go to.
            let _released = unsafe { sys::cuMemRelease(handle) };
        }
    }

    pub unsafe fn map(&self, address: u64, bytes: u64, handle: u64) -> Result<()> {
        self.enter()?;
        // SAFETY: as the caller promises: the addresses are reserved and free, and the handle has
        // that many bytes.
        unsafe { sys::cuMemMap(address, size(bytes), 0, handle, 0) }
            .result()
            .map_err(|error| self.judge("map memory", error))
    }

    pub unsafe fn allow_access(&self, address: u64, bytes: u64, peers: &[u32]) -> Result<()> {
        self.enter()?;
        let own = self.location();
        let others = peers.iter().map(|peer| sys::CUmemLocation {
            id: peer.cast_signed(),
            ..own
        });
        let access: Vec<_> = std::iter::once(own)
            .chain(others)
            .map(|location| sys::CUmemAccessDesc {
                location,
                flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            })
            .collect();
        // SAFETY: as the caller promises: memory is mapped in the whole range.
        unsafe { sys::cuMemSetAccess(address, size(bytes), access.as_ptr(), access.len()) }
            .result()
            .map_err(|error| self.judge("allow access to mapped memory", error))
    }

    pub unsafe fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
        self.enter()?;
        // SAFETY: as the caller promises.
        unsafe { sys::cuMemUnmap(address, size(bytes)) }
            .result()
            .map_err(|error| self.judge("unmap memory", error))
    }

    /// Allocates page-locked memory of the host; its address here, and on the device.
    pub fn allocate_host(&self, bytes: u64) -> Result<(u64, u64)> {
        self.enter()?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let (mut pointer, mut address) = (std::ptr::null_mut::<c_void>(), 0);
        // SAFETY: both calls write to the variables; `release_host` gives the memory back.
        unsafe {
            sys::cuMemHostAlloc(&raw mut pointer, size(bytes), flags)
                .result()
                .map_err(|error| self.judge("allocate page-locked memory", error))?;
            sys::cuMemHostGetDevicePointer_v2(&raw mut address, pointer, 0)
                .result()
                .map_err(|error| {
                    let _freed = sys::cuMemFreeHost(pointer);
                    self.judge("show host memory to the device", error)
                })?;
        }
        Ok((pointer as u64, address))
    }

    pub unsafe fn release_host(&self, pointer: u64, _bytes: u64) {
        if self.enter_to_release() {
            // SAFETY: as the caller promises. An error has nobody to go to.
            let _freed = unsafe { sys::cuMemFreeHost(pointer as *mut c_void) };
        }
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
