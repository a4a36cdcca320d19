//! Requests by `core::alloc::Layout`, as Rust's collections make them.
//!
//! What these call is never inlined: a kernel that uses many collections then has one copy of `malloc` and
//! `free`, and the collectives in them stay as they were written. So they take the forms that are made for being [called](crate::called).

use crate::heap::Heap;
use crate::malloc::USUAL_ALIGNMENT;
use core::alloc::Layout as Request;
use core::ptr;

impl Heap {
    /// [`aligned_called`](Self::aligned_called), out of line.
    #[inline]
    #[must_use]
    pub fn allocate(&self, request: Request) -> *mut u8 {
        self.malloc_out_of_line(request.size() as u64, request.align() as u64)
    }

    /// [`allocate`](Self::allocate), and all bytes are zero.
    #[inline(never)]
    #[must_use]
    pub fn allocate_zeroed(&self, request: Request) -> *mut u8 {
        self.zeroed_called(request.size() as u64, request.align() as u64)
    }

    /// Gives a block of `bytes` bytes, not 0, that begins as the block at `block` did and has the
    /// alignment of `request`, by which that was allocated. If NULL is given, the old block stays; it is given itself where it is to
    /// become smaller and nothing smaller is left.
    ///
    /// # Safety
    ///
    /// `block` must be a block of this heap allocated by `request`, which nobody else uses; if another pointer
    /// is given, the old one is dead.
    #[inline(never)]
    pub unsafe fn reallocate(&self, block: *mut u8, request: Request, bytes: usize) -> *mut u8 {
        let alignment = request.align() as u64;
        if alignment <= USUAL_ALIGNMENT {
            // SAFETY: as the caller promises.
            return unsafe { self.realloc_called(block, bytes as u64) };
        }
        let moved = self.malloc_out_of_line(bytes as u64, alignment);
        if !moved.is_null() {
            // SAFETY: both blocks have that many bytes and are different; the old one dies here.
            unsafe {
                ptr::copy_nonoverlapping(block, moved, bytes.min(request.size()));
                self.free_out_of_line(block);
            }
        } else if bytes <= request.size() {
            // As in `realloc`: nothing smaller is left (which is counted), and the old block will do.
            return block;
        }
        moved
    }

    /// [`free`](Self::free), out of line.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free).
    #[inline]
    pub unsafe fn deallocate(&self, block: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe { self.free_out_of_line(block) };
    }
}
