//! Device functions for other languages: CUDA C++ and anything else that links PTX.
//!
//! They take the heap's address first and otherwise behave as the methods of [`Heap`] that they
//! call. A launch passes the address on; the host knows it.

#![allow(clippy::missing_safety_doc, reason = "the module says what they share")]

use core::alloc::Layout;
use heap::Heap;

/// [`Heap::malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_malloc(heap: *const Heap, bytes: u64) -> *mut u8 {
    // SAFETY: the caller passes the address of a heap of this device.
    unsafe { &*heap }.malloc(bytes)
}

/// [`Heap::malloc_tagged`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_malloc_tagged(
    heap: *const Heap,
    bytes: u64,
    site: u32,
) -> *mut u8 {
    // SAFETY: the caller passes the address of a heap of this device.
    unsafe { &*heap }.malloc_tagged(bytes, site)
}

/// [`Heap::calloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_calloc(heap: *const Heap, count: u64, bytes: u64) -> *mut u8 {
    // SAFETY: the caller passes the address of a heap of this device.
    unsafe { &*heap }.calloc(count, bytes)
}

/// [`Heap::realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_realloc(
    heap: *const Heap,
    pointer: *mut u8,
    bytes: u64,
) -> *mut u8 {
    // SAFETY: the caller passes the address of a heap of this device, and gives the block up.
    unsafe { (*heap).realloc(pointer, bytes) }
}

/// [`Heap::aligned_alloc`]; NULL if `alignment` is no power of two.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_aligned_alloc(
    heap: *const Heap,
    alignment: u64,
    bytes: u64,
) -> *mut u8 {
    match Layout::from_size_align(bytes as usize, alignment as usize) {
        // SAFETY: the caller passes the address of a heap of this device.
        Ok(request) => unsafe { &*heap }.aligned_alloc(request),
        Err(_) => core::ptr::null_mut(),
    }
}

/// [`Heap::free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_free(heap: *const Heap, pointer: *mut u8) {
    // SAFETY: the caller passes the address of a heap of this device, and gives the block up.
    unsafe { (*heap).free(pointer) }
}

/// [`Heap::usable_size`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scatterheap_usable_size(heap: *const Heap, pointer: *const u8) -> u64 {
    // SAFETY: the caller passes the address of a heap of this device.
    unsafe { &*heap }.usable_size(pointer)
}
