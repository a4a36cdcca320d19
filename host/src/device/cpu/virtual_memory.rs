//! Addresses and physical memory of a CPU apart from each other: a reservation is memory that
//! nobody may access, physical memory is a part of an anonymous file, and mapping puts it at an
//! address. All parts are of one file, so that their number is not limited by that of open files;
//! each is used once, and is a hole in the file after it was released.

use super::Cpu;
use crate::error::{Error, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Memory is mapped in multiples of this, so that small heaps can grow in small steps.
const GRANULE: u64 = 64 << 10;

/// A word that the host and the device write is alone on its cache line.
const HOST_ALIGNMENT: usize = 256;

pub(super) use system::Memory;

impl Cpu {
    /// Whoever may use the CPU device may access all that is mapped.
    pub unsafe fn allow_access(&self, _address: u64, _bytes: u64, _peers: &[u32]) -> Result<()> {
        Ok(())
    }

    pub fn granule(&self) -> Result<u64> {
        Ok(GRANULE)
    }

    /// Allocates memory of the host; its address here, and on the device.
    pub fn allocate_host(&self, bytes: u64) -> Result<(u64, u64)> {
        let request = host_request(bytes).ok_or(Error::OutOfMemory {
            asked: bytes,
            free: 0,
        })?;
        // SAFETY: the request is not of size zero.
        let address = unsafe { alloc_zeroed(request) } as u64;
        if address == 0 {
            let free = self.memory_info()?.free;
            return Err(Error::OutOfMemory { asked: bytes, free });
        }
        Ok((address, address))
    }

    pub unsafe fn release_host(&self, pointer: u64, bytes: u64) {
        if let Some(request) = host_request(bytes) {
            // SAFETY: allocated by the same request.
            unsafe { dealloc(pointer as *mut u8, request) };
        }
    }
}

fn host_request(bytes: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(bytes.max(1)).ok()?, HOST_ALIGNMENT).ok()
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Cpu, Error, Result};
    use rustix::fd::OwnedFd;
    use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
    use rustix::io::Errno;
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
    use std::ffi::c_void;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Bytes of a file, which has memory only where it is used. They are not used up: at a gibibyte
    /// each millisecond they last for seven weeks.
    const FILE_BYTES: u64 = 1 << 62;

    /// Where physical memory comes from.
    #[derive(Debug, Default)]
    pub struct Memory {
        file: OnceLock<OwnedFd>,
        /// The first byte that was never used.
        next: AtomicU64,
    }

    impl Memory {
        fn file(&self) -> Result<&OwnedFd> {
            if let Some(file) = self.file.get() {
                return Ok(file);
            }
            let file = memfd_create("scatterheap", MemfdFlags::CLOEXEC)
                .map_err(failed("allocate physical memory"))?;
            ftruncate(&file, FILE_BYTES).map_err(failed("allocate physical memory"))?;
            Ok(self.file.get_or_init(|| file))
        }
    }

    impl Cpu {
        pub fn reserve(&self, bytes: u64, alignment: u64) -> Result<u64> {
            // What lies before the first aligned address, and behind the range, is given back.
            let (length, room) = (size(bytes), size(bytes.saturating_add(alignment)));
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            // SAFETY: a new mapping, where the system finds room.
            let start =
                unsafe { mmap_anonymous(std::ptr::null_mut(), room, ProtFlags::empty(), flags) }
                    .map_err(failed("reserve addresses"))? as u64;
            let address = start.next_multiple_of(alignment);
            let before = size(address - start);
            // SAFETY: both pieces are of the mapping that was just made.
            unsafe {
                give_back(start, before);
                give_back(address + bytes, room - before - length);
            }
            Ok(address)
        }

        pub unsafe fn cancel_reservation(&self, address: u64, bytes: u64) {
            // SAFETY: as the caller promises.
            unsafe { give_back(address, size(bytes)) };
        }

        pub fn create_memory(&self, bytes: u64) -> Result<u64> {
            let free = self.memory_info()?.free;
            if bytes > free {
                return Err(Error::OutOfMemory { asked: bytes, free });
            }
            self.memory.file()?;
            // Relaxed: the parts only have to differ.
            Ok(self.memory.next.fetch_add(bytes, Ordering::Relaxed))
        }

        pub unsafe fn release_memory(&self, handle: u64, bytes: u64) {
            if let Some(file) = self.memory.file.get() {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                // An error has nobody to go to.
                let _released = fallocate(file, hole, handle, bytes);
            }
        }

        pub unsafe fn map(&self, address: u64, bytes: u64, handle: u64) -> Result<()> {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let (file, target) = (self.memory.file()?, address as *mut c_void);
            // SAFETY: as the caller promises: the addresses are reserved, and the part of the file
            // is that memory's.
            unsafe { mmap(target, size(bytes), access, flags, file, handle) }
                .map_err(failed("map memory"))?;
            Ok(())
        }

        pub unsafe fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
            // SAFETY: as the caller promises; the addresses stay reserved.
            unsafe {
                mmap_anonymous(
                    address as *mut c_void,
                    size(bytes),
                    ProtFlags::empty(),
                    flags,
                )
            }
            .map_err(failed("unmap memory"))?;
            Ok(())
        }
    }

    unsafe fn give_back(address: u64, length: usize) {
        if length > 0 {
            // SAFETY: as the caller promises. An error has nobody to go to.
            let _unmapped = unsafe { munmap(address as *mut c_void, length) };
        }
    }

    fn failed(action: &'static str) -> impl Fn(Errno) -> Error {
        move |errno| Error::System {
            action,
            message: errno.to_string(),
            advice: "use a smaller heap, or raise the process's limits of memory and of its mappings",
        }
    }

    fn size(bytes: u64) -> usize {
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Cpu, Error, Result};

    /// There is none.
    #[derive(Debug, Default)]
    pub struct Memory;

    fn unsupported() -> Error {
        Error::System {
            action: "reserve addresses",
            message: "the CPU device does so on Linux only".into(),
            advice: "use a heap that does not grow",
        }
    }

    impl Cpu {
        pub fn reserve(&self, _bytes: u64, _alignment: u64) -> Result<u64> {
            Err(unsupported())
        }

        pub unsafe fn cancel_reservation(&self, _address: u64, _bytes: u64) {}

        pub fn create_memory(&self, _bytes: u64) -> Result<u64> {
            Err(unsupported())
        }

        pub unsafe fn release_memory(&self, _handle: u64, _bytes: u64) {}

        pub unsafe fn map(&self, _address: u64, _bytes: u64, _handle: u64) -> Result<()> {
            Err(unsupported())
        }

        pub unsafe fn unmap(&self, _address: u64, _bytes: u64) -> Result<()> {
            Err(unsupported())
        }
    }
}
