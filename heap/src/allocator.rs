//! A heap as an allocator of collections that take one: `allocator_api2`'s `Vec` and `Box`, hashbrown's tables.
//!
//! For kernels that allocate from several heaps, or from one without making it global.

use crate::heap::Heap;
use allocator_api2::alloc::{AllocError, Allocator};
use bytemuck::{Pod, Zeroable};
use core::alloc::Layout as Request;
use core::ptr::{self, NonNull};

/// The allocator of a heap, 8 bytes. What it is in may lie in the device's memory and be used by a
/// later kernel: it names the heap by the address of its metadata, not by its handle. It is plain data as that is, and
/// nothing enforces that the heap lives where a collection uses it; if it does not, see [`Heap`].
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Alloc(u64);

impl Heap {
    /// The allocator for collections, which are to be used while the heap lives and until it is reset.
    #[inline(always)]
    #[must_use]
    pub fn alloc(&self) -> Alloc {
        Alloc(self.metadata())
    }
}

impl Alloc {
    #[inline(always)]
    fn heap<'a>(self) -> &'a Heap {
        // SAFETY: made from a handle, whose heap lives as long as it is used: what `Heap` demands of its users.
        unsafe { Heap::at(self.0) }
    }
}

/// The slice of a block.
#[inline(always)]
fn slice(block: *mut u8, bytes: usize) -> Result<NonNull<[u8]>, AllocError> {
    let block = NonNull::new(block).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(block, bytes))
}

/// What stands for a block of no bytes: an address with the alignment.
#[inline(always)]
fn dangling(request: Request) -> NonNull<[u8]> {
    let pointer = ptr::without_provenance_mut(request.align());
    // SAFETY: an alignment is not zero.
    NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(pointer) }, 0)
}

// SAFETY: blocks stay valid until they are given back, whoever holds a copy of the allocator; copies are the
// same heap.
unsafe impl Allocator for Alloc {
    #[inline]
    fn allocate(&self, request: Request) -> Result<NonNull<[u8]>, AllocError> {
        if request.size() == 0 {
            return Ok(dangling(request));
        }
        slice(self.heap().allocate(request), request.size())
    }

    #[inline]
    fn allocate_zeroed(&self, request: Request) -> Result<NonNull<[u8]>, AllocError> {
        if request.size() == 0 {
            return Ok(dangling(request));
        }
        slice(self.heap().allocate_zeroed(request), request.size())
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, request: Request) {
        if request.size() != 0 {
            // SAFETY: as the caller promises.
            unsafe { self.heap().deallocate(block.as_ptr()) };
        }
    }

    #[inline]
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Request,
        new: Request,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as the caller promises.
        unsafe { self.resize(block, old, new) }
    }

    #[inline]
    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Request,
        new: Request,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as the caller promises; what comes after the old bytes is the caller's alone.
        unsafe {
            let grown = self.resize(block, old, new)?;
            let rest = grown.cast::<u8>().as_ptr().add(old.size());
            rest.write_bytes(0, new.size() - old.size());
            Ok(grown)
        }
    }

    #[inline]
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Request,
        new: Request,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as the caller promises.
        unsafe { self.resize(block, old, new) }
    }
}

impl Alloc {
    /// A block for `new` that begins as the block for `old` did.
    ///
    /// # Safety
    ///
    /// As for `Allocator::grow`, in both directions.
    #[inline]
    unsafe fn resize(
        self,
        block: NonNull<u8>,
        old: Request,
        new: Request,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as the caller promises. Where there is no old or no new block, or the alignment changes, it is
        // moved; both have the bytes that are copied then, and are different.
        unsafe {
            if old.size() != 0 && new.size() != 0 && old.align() == new.align() {
                let resized = self.heap().reallocate(block.as_ptr(), old, new.size());
                return slice(resized, new.size());
            }
            let moved = self.allocate(new)?;
            let bytes = old.size().min(new.size());
            ptr::copy_nonoverlapping(block.as_ptr(), moved.cast().as_ptr(), bytes);
            self.deallocate(block, old);
            Ok(moved)
        }
    }
}
