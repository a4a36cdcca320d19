//! The global allocator of a GPU module: a variable that the host writes before it launches kernels.

use crate::{Binding, Failures};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;
use heap::Heap;
use simt::thread;

/// A place for a [`Binding`]. While kernels run, nobody writes it.
#[repr(transparent)]
pub struct Slot(UnsafeCell<Binding>);

// SAFETY: only the host writes, and only while no kernel runs.
unsafe impl Sync for Slot {}

impl Slot {
    /// A place without a heap.
    // SAFETY: plain old data may be all zero.
    pub const UNBOUND: Self = Self(UnsafeCell::new(unsafe { core::mem::zeroed() }));

    #[inline(always)]
    fn binding(&self) -> &Binding {
        // SAFETY: nobody writes while kernels run.
        unsafe { &*self.0.get() }
    }

    #[inline(always)]
    fn heap(&self) -> Option<&Heap> {
        let binding = self.binding();
        (binding.failures != 0).then_some(&binding.heap)
    }

    /// Ends the launch, because a thread cannot go on without memory. The host finds in its own memory what was
    /// asked for.
    #[cold]
    pub fn out_of_memory(&self, request: Layout) -> ! {
        let failures = self.binding().failures;
        if failures != 0 {
            // SAFETY: the host's failures live as long as the binding.
            unsafe { &*(failures as *const Failures) }.note(request);
        }
        thread::trap()
    }
}

// SAFETY: the heap's blocks are as large and aligned as asked, do not overlap and stay until they are freed.
unsafe impl GlobalAlloc for Slot {
    #[inline]
    unsafe fn alloc(&self, request: Layout) -> *mut u8 {
        self.heap()
            .map_or(ptr::null_mut(), |heap| heap.allocate(request))
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, request: Layout) -> *mut u8 {
        self.heap()
            .map_or(ptr::null_mut(), |heap| heap.allocate_zeroed(request))
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _request: Layout) {
        // SAFETY: the caller's block came from this heap.
        unsafe { self.binding().heap.deallocate(block) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, request: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises; the block came from this heap.
        unsafe { self.binding().heap.reallocate(block, request, bytes) }
    }
}
