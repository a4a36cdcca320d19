//! The global allocator of a process whose CPU runs kernels: in a kernel it is the device's global heap, elsewhere
//! the system's allocator.
//!
//! A thread that panics uses the system's allocator: what the panic's machinery keeps must outlive the heap.
//! Kernels must not call what else of `std` keeps memory, such as `println!`; on a GPU they cannot.

use core::cell::Cell;
use core::ptr;
use heap::Heap;
use std::alloc::{GlobalAlloc, Layout, System};

thread_local! {
    /// The heap that the kernel on this thread allocates from.
    static HEAP: Cell<*const Heap> = const { Cell::new(ptr::null()) };
}

/// The calling thread runs a kernel with a global heap until this is dropped.
#[derive(Debug)]
pub struct InKernel<'a> {
    _heap: &'a Heap,
    before: *const Heap,
}

/// Says that the calling thread runs a kernel whose global heap this is.
#[must_use]
pub fn enter(heap: &Heap) -> InKernel<'_> {
    InKernel {
        _heap: heap,
        before: HEAP.replace(heap),
    }
}

impl Drop for InKernel<'_> {
    fn drop(&mut self) {
        HEAP.set(self.before);
    }
}

/// The heap of the kernel that the calling thread runs.
fn heap<'a>() -> Option<&'a Heap> {
    // SAFETY: the pointer is there only as long as the reference that it is made from.
    unsafe { HEAP.get().as_ref() }
}

/// The heap that a block came from, if it is the calling thread's.
fn owner<'a>(block: *mut u8) -> Option<&'a Heap> {
    heap().filter(|heap| heap.owns(block))
}

/// The heap that a request goes to, if it is one.
fn source<'a>() -> Option<&'a Heap> {
    heap().filter(|_| !std::thread::panicking())
}

/// A global allocator for programs that run kernels on the CPU, see the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelAllocator;

// SAFETY: each block comes from a heap or from the system and goes back there: what the heap of the
// kernel does not own is the system's. Neither panics.
unsafe impl GlobalAlloc for KernelAllocator {
    unsafe fn alloc(&self, request: Layout) -> *mut u8 {
        match source() {
            Some(heap) => heap.allocate(request),
            // SAFETY: as the caller promises.
            None => unsafe { System.alloc(request) },
        }
    }

    unsafe fn alloc_zeroed(&self, request: Layout) -> *mut u8 {
        match source() {
            Some(heap) => heap.allocate_zeroed(request),
            // SAFETY: as the caller promises.
            None => unsafe { System.alloc_zeroed(request) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, request: Layout) {
        // SAFETY: as the caller promises.
        unsafe {
            match owner(block) {
                Some(heap) => heap.deallocate(block),
                None => System.dealloc(block, request),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, request: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe {
            match owner(block) {
                Some(heap) => heap.reallocate(block, request, bytes),
                None => System.realloc(block, request, bytes),
            }
        }
    }
}
