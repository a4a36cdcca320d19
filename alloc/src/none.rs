//! The global allocator of kernels whose collections all say which heap they are in.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;

/// A global allocator without memory, see [`no_global_heap!`](crate::no_global_heap): whoever asks it gets NULL.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeap;

// SAFETY: it gives no block.
unsafe impl GlobalAlloc for NoHeap {
    #[inline]
    unsafe fn alloc(&self, _request: Layout) -> *mut u8 {
        ptr::null_mut()
    }

    #[inline]
    unsafe fn dealloc(&self, _block: *mut u8, _request: Layout) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_never_a_block() {
        let request = Layout::from_size_align(16, 16).expect("a layout");
        // SAFETY: the size is not 0, and NULL may be given back to this allocator.
        unsafe {
            assert!(NoHeap.alloc(request).is_null());
            assert!(NoHeap.alloc_zeroed(request).is_null());
            NoHeap.dealloc(ptr::null_mut(), request);
        }
    }
}
