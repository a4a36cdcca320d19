//! Requests by `core::alloc::Layout`, as Rust's collections make them.
//!
//! These are never inlined: a kernel that uses many collections then has one copy of `malloc` and
//! `free`, and the collectives in them stay as they were written.

use crate::heap::Heap;
use core::alloc::Layout as Request;
use core::ptr;

/// Every block is aligned to this many bytes.
const USUAL_ALIGNMENT: usize = 16;

impl Heap {
    /// [`aligned_alloc`](Self::aligned_alloc), out of line.
    #[inline(never)]
    #[must_use]
    pub fn allocate(&self, request: Request) -> *mut u8 {
        self.aligned_alloc(request)
    }

    /// [`allocate`](Self::allocate), and all bytes are zero.
    #[inline(never)]
    #[must_use]
    pub fn allocate_zeroed(&self, request: Request) -> *mut u8 {
        if request.align() <= USUAL_ALIGNMENT {
            return self.calloc(1, request.size() as u64);
        }
        let block = self.aligned_alloc(request);
        if !block.is_null() {
            // SAFETY: the block has that many bytes and is this thread's alone.
            unsafe { block.write_bytes(0, request.size()) };
        }
        block
    }

    /// Gives a block of `bytes` bytes, not 0, that begins as the block at `block` did and has the
    /// alignment of `request`, by which that was allocated. If NULL is given, the old block stays.
    ///
    /// # Safety
    ///
    /// `block` must be a block of this heap allocated by `request`, which nobody else uses; if another pointer
    /// is given, the old one is dead.
    #[inline(never)]
    pub unsafe fn reallocate(&self, block: *mut u8, request: Request, bytes: usize) -> *mut u8 {
        if request.align() <= USUAL_ALIGNMENT {
            // SAFETY: as the caller promises.
            return unsafe { self.realloc(block, bytes as u64) };
        }
        let Ok(wish) = Request::from_size_align(bytes, request.align()) else {
            return ptr::null_mut();
        };
        let moved = self.aligned_alloc(wish);
        if !moved.is_null() {
            // SAFETY: both blocks have that many bytes and are different; the old one dies here.
            unsafe {
                ptr::copy_nonoverlapping(block, moved, bytes.min(request.size()));
                self.free(block);
            }
        }
        moved
    }

    /// [`free`](Self::free), out of line.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free).
    #[inline(never)]
    pub unsafe fn deallocate(&self, block: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe { self.free(block) };
    }
}
