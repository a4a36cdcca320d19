//! Memory that is all zero, so that safe code may read what no kernel has written yet.

use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Large memory is aligned to this, as a GPU's is.
const LARGE: usize = 2 << 20;

/// Memory of `bytes` bytes, 1 or more, aligned to 256 bytes, or to 2 MiB if it is as large; its address, if there is as much.
pub fn allocate(bytes: u64) -> Option<u64> {
    let request = request(bytes)?;
    if request.align() == LARGE {
        return system::allocate_large(request);
    }
    // SAFETY: the request is not of size zero.
    found(unsafe { alloc_zeroed(request) })
}

/// Gives memory back.
///
/// # Safety
///
/// It must have been allocated here with as many bytes, and nobody may use it any more.
pub unsafe fn release(address: u64, bytes: u64) {
    let Some(request) = request(bytes) else {
        return;
    };
    // SAFETY: as the caller promises, it was allocated by the same request.
    unsafe {
        if request.align() == LARGE {
            system::release_large(address, request);
        } else {
            dealloc(address as *mut u8, request);
        }
    }
}

fn request(bytes: u64) -> Option<Layout> {
    let bytes = usize::try_from(bytes.max(1)).ok()?;
    let alignment = if bytes >= LARGE { LARGE } else { 256 };
    Layout::from_size_align(bytes, alignment).ok()
}

fn found(memory: *mut u8) -> Option<u64> {
    (!memory.is_null()).then_some(memory as u64)
}

/// Pages that the system has not handed out yet are zero, and take no memory before they are used: to clear a large heap would use all of it.
#[cfg(target_os = "linux")]
mod system {
    use super::{LARGE, Layout};
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    /// What pages are a multiple of.
    const PAGE: usize = 64 << 10;

    pub fn allocate_large(request: Layout) -> Option<u64> {
        let bytes = request.size().checked_next_multiple_of(PAGE)?;
        let room = bytes.checked_add(LARGE)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the system finds room.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), room, access, MapFlags::PRIVATE) };
        let start = start.ok()? as usize;
        let address = start.next_multiple_of(LARGE);
        // What lies before the first aligned address, and behind the memory.
        for (begin, end) in [(start, address), (address + bytes, start + room)] {
            if begin < end {
                // SAFETY: a part of the mapping that was just made. If it is not given back it is only addresses.
                let _unmapped = unsafe { munmap(begin as *mut _, end - begin) };
            }
        }
        Some(address as u64)
    }

    pub unsafe fn release_large(address: u64, request: Layout) {
        let bytes = request.size().next_multiple_of(PAGE);
        // SAFETY: as the caller promises. An error has nobody to go to.
        let _unmapped = unsafe { munmap(address as *mut _, bytes) };
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Layout, alloc_zeroed, dealloc, found};

    pub fn allocate_large(request: Layout) -> Option<u64> {
        // SAFETY: the request is not of size zero.
        found(unsafe { alloc_zeroed(request) })
    }

    pub unsafe fn release_large(address: u64, request: Layout) {
        // SAFETY: as the caller promises.
        unsafe { dealloc(address as *mut u8, request) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_zero_and_given_back() {
        for bytes in [
            1,
            255,
            4096,
            (2 << 20) - 1,
            2 << 20,
            (2 << 20) + 1,
            5_000_001,
        ] {
            let length = usize::try_from(bytes).expect("64 bit");
            // Again, where what was there before may come back.
            for _ in 0..3 {
                let address = allocate(bytes).expect("there is memory");
                let alignment = if length >= LARGE { LARGE as u64 } else { 256 };
                assert!(address.is_multiple_of(alignment), "{bytes}: {address:#x}");
                // SAFETY: it has that many bytes, and is this test's alone.
                let memory = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, length) };
                assert!(memory.iter().all(|byte| *byte == 0), "{bytes}");
                memory.fill(0xff);
                // SAFETY: allocated with these bytes, and not used any more.
                unsafe { release(address, bytes) };
            }
        }
        assert_eq!(allocate(u64::MAX), None);
        assert_eq!(allocate(1 << 60), None);
    }
}
