//! The allocator as device functions with C's calling convention, for CUDA C++ and whatever else links PTX.
//!
//! They take the address of a handle first, in any memory that the calling thread can read, and otherwise behave as the
//! methods of [`Heap`] that they call. The module also has the kernels that the host launches to make such heaps, and
//! nothing else, so that it is loaded in a fraction of a second.
//!
//! A function that is called must keep registers of its caller, for each thread in local memory: those that it needs for what lives across calls of its own, so
//! these leave to others what needs many. `malloc` and `free` also come in a form that is made into inline assembly (`ptx_builder::cuda_cpp`), which calls
//! only the slow paths.
//!
//! Compile it under a limit of 64 registers: a kernel that is linked with functions has as many as the function with the
//! most, and the slow paths would take 254.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![allow(clippy::missing_safety_doc, reason = "the crate says what they share")]
#![allow(clippy::must_use_candidate, reason = "other languages call them")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "devices have 64-bit addresses"
)]

extern crate scatterheap_heap as heap;
// Its kernels are in the module because it is linked.
extern crate scatterheap_kernels as _;
#[cfg(target_arch = "nvptx64")]
extern crate scatterheap_simt as simt;

pub mod numba;

use heap::Heap;

/// Where this crate's sources are, for those who compile them to PTX.
pub const SOURCE_DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    simt::thread::trap()
}

/// [`Heap::malloc`].
#[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
pub unsafe extern "C" fn scatterheap_malloc(heap: *const Heap, bytes: u64) -> *mut u8 {
    // SAFETY: the caller passes the address of a heap of this device.
    unsafe { &*heap }.malloc_called(bytes, 0)
}

/// [`Heap::malloc_tagged`].
#[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
pub unsafe extern "C" fn scatterheap_malloc_tagged(
    heap: *const Heap,
    bytes: u64,
    site: u32,
) -> *mut u8 {
    // SAFETY: the caller passes the address of a heap of this device.
    unsafe { &*heap }.malloc_called(bytes, site)
}

/// [`Heap::calloc`].
#[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
pub unsafe extern "C" fn scatterheap_calloc(heap: *const Heap, count: u64, bytes: u64) -> *mut u8 {
    // SAFETY: the caller passes the address of a heap of this device.
    unsafe { &*heap }.calloc_called(count, bytes)
}

/// [`Heap::realloc`].
#[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
pub unsafe extern "C" fn scatterheap_realloc(
    heap: *const Heap,
    pointer: *mut u8,
    bytes: u64,
) -> *mut u8 {
    // SAFETY: the caller passes the address of a heap of this device, and gives the block up.
    unsafe { (*heap).realloc_called(pointer, bytes) }
}

/// [`Heap::aligned_alloc`]; NULL if `alignment` is no power of two.
#[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
pub unsafe extern "C" fn scatterheap_aligned_alloc(
    heap: *const Heap,
    alignment: u64,
    bytes: u64,
) -> *mut u8 {
    if !alignment.is_power_of_two() {
        return core::ptr::null_mut();
    }
    // SAFETY: the caller passes the address of a heap of this device.
    unsafe { &*heap }.aligned_called(bytes, alignment)
}

/// [`Heap::free`].
#[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
pub unsafe extern "C" fn scatterheap_free(heap: *const Heap, pointer: *mut u8) {
    // SAFETY: the caller passes the address of a heap of this device, and gives the block up.
    unsafe { (*heap).free_called(pointer) }
}

/// [`Heap::usable_size`].
#[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
pub unsafe extern "C" fn scatterheap_usable_size(heap: *const Heap, pointer: *const u8) -> u64 {
    // SAFETY: the caller passes the address of a heap of this device.
    unsafe { &*heap }.usable_size(pointer)
}

/// [`Heap::malloc`], to be made into inline assembly.
#[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
pub extern "C" fn scatterheap_inline_malloc(heap: Heap, bytes: u64) -> *mut u8 {
    heap.malloc(bytes)
}

/// [`Heap::free`], to be made into inline assembly.
#[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
pub unsafe extern "C" fn scatterheap_inline_free(heap: Heap, pointer: *mut u8) {
    // SAFETY: the caller passes a heap of this device, and gives the block up.
    unsafe { heap.free(pointer) }
}
