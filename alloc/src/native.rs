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

/// Runs `kernel` as a kernel whose global heap this is: what it allocates by a [`KernelAllocator`] on the calling thread
/// comes from there.
///
/// # Safety
///
/// The heap behind the handle must live until `kernel` returns or panics. What `kernel` allocates may be freed and resized only
/// in such a kernel of the same heap: elsewhere it would be taken for the system's.
pub unsafe fn in_kernel<R>(heap: &Heap, kernel: impl FnOnce() -> R) -> R {
    let _restored = Restored(HEAP.replace(heap));
    kernel()
}

/// Makes the calling thread allocate from where it did before, when this is dropped. Private, and dropped by who made it: who kept or forgot it
/// would leave a heap behind that may be gone.
struct Restored(*const Heap);

impl Drop for Restored {
    fn drop(&mut self) {
        HEAP.set(self.0);
    }
}

/// The heap of the kernel that the calling thread runs.
fn heap<'a>() -> Option<&'a Heap> {
    // SAFETY: the pointer is there only as long as `in_kernel` borrows what it points to.
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

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Runs something with a heap that nothing is allocated from.
    fn with<R>(heap: &Heap, run: impl FnOnce() -> R) -> R {
        // SAFETY: this test's allocator is the system's, so nobody asks the heap.
        unsafe { in_kernel(heap, run) }
    }

    #[test]
    fn a_thread_has_a_heap_only_while_its_kernel_runs() {
        let (outer, inner) = (Heap::zeroed(), Heap::zeroed());
        let has = |expected: &Heap| heap().is_some_and(|heap| ptr::eq(heap, expected));
        assert!(heap().is_none());
        with(&outer, || {
            assert!(has(&outer));
            with(&inner, || assert!(has(&inner)));
            assert!(has(&outer));
            let panicked = catch_unwind(AssertUnwindSafe(|| with(&inner, || panic!("on purpose"))));
            assert!(panicked.is_err() && has(&outer));
            std::thread::scope(|scope| scope.spawn(|| assert!(heap().is_none())).join().unwrap());
        });
        assert!(heap().is_none());
    }
}
