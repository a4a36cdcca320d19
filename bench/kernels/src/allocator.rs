//! Allocators as kernels call them.

use bytemuck::{Pod, Zeroable};
use heap::Heap;

/// An allocator that kernels can be compiled for. It travels by value in their arguments, as fields of
/// 8 bytes.
///
/// # Safety
///
/// It must be aligned to 8 bytes, and its size a multiple of 8, so that there is no padding in arguments that begin with it. What its
/// methods give must be NULL or a block as they say, which is nobody else's until it is freed: kernels write there.
pub unsafe trait DeviceAllocator: Pod + Send + Sync {
    /// Allocates a block of `bytes` bytes, aligned to 16; NULL if there is none.
    fn malloc(&self, bytes: u64) -> *mut u8;

    /// Frees a block; NULL is let be.
    ///
    /// # Safety
    ///
    /// `block` must be NULL or a block of this allocator that nobody uses any more.
    unsafe fn free(&self, block: *mut u8);

    /// Makes a block of `bytes` bytes that begins with what the old one held, and frees the old one. NULL if there is
    /// no room: then the old one stays. `held` bytes of the old block hold data, and no more than `bytes`.
    ///
    /// # Safety
    ///
    /// `block` must be NULL or a block of this allocator of at least `held` bytes that is the caller's alone.
    unsafe fn realloc(&self, block: *mut u8, held: u64, bytes: u64) -> *mut u8;
}

const _: () = assert!(is_of_words::<Heap>() && is_of_words::<Native>());

/// Whether a type is aligned to 8 bytes, and its size a multiple of 8.
const fn is_of_words<T>() -> bool {
    align_of::<T>() == 8 && size_of::<T>().is_multiple_of(8)
}

// SAFETY: it is of words, see above, and its blocks are aligned to 16 bytes and one owner's.
unsafe impl DeviceAllocator for Heap {
    #[inline(always)]
    fn malloc(&self, bytes: u64) -> *mut u8 {
        Heap::malloc(self, bytes)
    }

    #[inline(always)]
    unsafe fn free(&self, block: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe { Heap::free(self, block) };
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut u8, _held: u64, bytes: u64) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { Heap::realloc(self, block, bytes) }
    }
}

/// The device's own allocator: CUDA's `malloc` on a GPU, the system's on the CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct Native {
    /// Arguments of kernels have no empty fields.
    unused: u64,
}

// SAFETY: it is of words, see above; CUDA's `malloc` aligns blocks to 16 bytes, and so does that of hosts with 64-bit addresses.
unsafe impl DeviceAllocator for Native {
    #[inline(always)]
    fn malloc(&self, bytes: u64) -> *mut u8 {
        // SAFETY: any size may be asked for.
        unsafe { calls::malloc(bytes as usize).cast() }
    }

    #[inline(always)]
    unsafe fn free(&self, block: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe { calls::free(block.cast()) };
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut u8, held: u64, bytes: u64) -> *mut u8 {
        // CUDA has no realloc in kernels. On the CPU the same is done, so that both are the same test.
        let larger = self.malloc(bytes);
        if larger.is_null() || block.is_null() {
            return larger;
        }
        // SAFETY: the old block has `held` bytes and the new one at least as many; they are two blocks.
        unsafe {
            copy(block, larger, held);
            self.free(block);
        }
        larger
    }
}

/// Copies word by word: both are aligned to 16.
///
/// # Safety
///
/// Both must have `bytes` bytes, and not overlap.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: u64) {
    for index in 0..bytes as usize / 8 {
        // SAFETY: the word lies in both.
        unsafe {
            to.cast::<u64>()
                .add(index)
                .write(from.cast::<u64>().add(index).read());
        }
    }
    for offset in bytes as usize & !7..bytes as usize {
        // SAFETY: the byte lies in both.
        unsafe { to.add(offset).write(from.add(offset).read()) };
    }
}

#[cfg(target_arch = "nvptx64")]
mod calls {
    pub use core::arch::nvptx::{free, malloc};
}

#[cfg(not(target_arch = "nvptx64"))]
mod calls {
    pub use libc::{free, malloc};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reallocated_block_holds_what_the_old_one_held() {
        let native = Native::default();
        // SAFETY: the blocks are used within their bounds, and freed once.
        unsafe {
            let block = native.realloc(core::ptr::null_mut(), 0, 13);
            for offset in 0..13 {
                block.add(offset).write(offset as u8);
            }
            let larger = native.realloc(block, 13, 1000);
            for offset in 0..13 {
                assert_eq!(larger.add(offset).read(), offset as u8);
            }
            native.free(larger);
        }
    }
}
