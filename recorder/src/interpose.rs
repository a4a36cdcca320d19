//! The functions that programs call instead of the real ones.
//!
//! Each passes the call on and records it: a free *before* it happens and an allocation *after* it, so that the record
//! of a free precedes that of the allocation which gets the same address.
//!
//! The `# Safety` conditions of all of them are those of the C functions whose names they bear.

#![allow(clippy::missing_safety_doc, reason = "stated once, above")]

use core::{
    ffi::{c_int, c_void},
    ptr,
};

use scatterheap_trace::{DEFAULT_ALIGNMENT, raw};

use crate::{early, real, recording::Call};

const ALIGNMENT: usize = DEFAULT_ALIGNMENT as usize;

/// Begins the recording when the library is loaded, even if nothing allocates before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

extern "C" fn construct() {
    let _ = real::functions();
}

/// Records an allocation that has happened, and passes its result on. A failed one is none.
fn allocated(
    call: &Call,
    kind: u32,
    address: *mut c_void,
    size: usize,
    alignment: usize,
) -> *mut c_void {
    if !address.is_null() {
        call.record(kind, address.addr(), size, alignment);
    }
    address
}

/// See `malloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    let Some(real) = real::functions() else {
        return early::allocate(size, ALIGNMENT);
    };
    let call = Call::begin();
    // SAFETY: the caller's call, passed on.
    let address = unsafe { (real.malloc)(size) };
    allocated(&call, raw::MALLOC, address, size, ALIGNMENT)
}

/// See `calloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(real) = real::functions() else {
        return count
            .checked_mul(size)
            .map_or(ptr::null_mut(), |bytes| early::allocate(bytes, ALIGNMENT));
    };
    let call = Call::begin();
    // SAFETY: the caller's call, passed on.
    let address = unsafe { (real.calloc)(count, size) };
    // No overflow: the real function returned a block of that many bytes, or null, which is not recorded.
    allocated(
        &call,
        raw::CALLOC,
        address,
        count.wrapping_mul(size),
        ALIGNMENT,
    )
}

/// See `free(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(address: *mut c_void) {
    if address.is_null() || early::owns(address) {
        return;
    }
    // A block that is not from the early buffer came from a real function, so they are known.
    let Some(real) = real::functions() else {
        return;
    };
    let call = Call::begin();
    call.record(raw::FREE, address.addr(), 0, 1);
    // SAFETY: the caller's call, passed on.
    unsafe { (real.free)(address) };
}

/// See `realloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(address: *mut c_void, size: usize) -> *mut c_void {
    if address.is_null() {
        // SAFETY: the C standard makes this the same call.
        return unsafe { malloc(size) };
    }
    if early::owns(address) {
        // SAFETY: the block is one of the early buffer.
        return unsafe { move_out(address, size) };
    }
    let Some(real) = real::functions() else {
        return ptr::null_mut();
    };
    let call = Call::begin();
    call.record(raw::REALLOC_BEGIN, address.addr(), size, ALIGNMENT);
    // SAFETY: the caller's call, passed on.
    let moved = unsafe { (real.realloc)(address, size) };
    call.record(raw::REALLOC_END, moved.addr(), size, ALIGNMENT);
    moved
}

/// Resizes a block of the early buffer by moving it to a new block.
///
/// # Safety
/// `address` must be a block of the early buffer.
unsafe fn move_out(address: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: `malloc` may be called at any time.
    let moved = unsafe { malloc(size) };
    if !moved.is_null() {
        // SAFETY: both blocks have at least as many bytes as are copied, and a new block overlaps no other.
        unsafe {
            let bytes = early::size_of_block(address).min(size);
            ptr::copy_nonoverlapping(address.cast::<u8>(), moved.cast::<u8>(), bytes);
        }
    }
    moved
}

/// See `reallocarray(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    address: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else {
        set_error(libc::ENOMEM);
        return ptr::null_mut();
    };
    // SAFETY: the same call, by the definition of `reallocarray`.
    unsafe { realloc(address, bytes) }
}

/// See `memalign(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    let Some(real) = real::functions() else {
        return early_aligned(alignment, size);
    };
    let call = Call::begin();
    // SAFETY: the caller's call, passed on.
    let address = unsafe { (real.memalign)(alignment, size) };
    allocated(&call, raw::MALLOC, address, size, rounded(alignment))
}

/// See `aligned_alloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    let Some(real) = real::functions() else {
        return early_aligned(alignment, size);
    };
    let call = Call::begin();
    // SAFETY: the caller's call, passed on.
    let address = unsafe { (real.aligned_alloc)(alignment, size) };
    allocated(&call, raw::MALLOC, address, size, rounded(alignment))
}

/// See `posix_memalign(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    let Some(real) = real::functions() else {
        let address = early_aligned(alignment, size);
        if address.is_null() {
            return libc::ENOMEM;
        }
        // SAFETY: the caller gives a place for the result.
        unsafe { result.write(address) };
        return 0;
    };
    let call = Call::begin();
    // SAFETY: the caller's call, passed on.
    let error = unsafe { (real.posix_memalign)(result, alignment, size) };
    if error == 0 {
        // SAFETY: the real function has written the result.
        allocated(
            &call,
            raw::MALLOC,
            unsafe { result.read() },
            size,
            rounded(alignment),
        );
    }
    error
}

/// See `valloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    // SAFETY: the same call, by the definition of `valloc`.
    unsafe { memalign(page_size(), size) }
}

/// See `pvalloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = page_size();
    let Some(bytes) = size.checked_next_multiple_of(page) else {
        set_error(libc::ENOMEM);
        return ptr::null_mut();
    };
    // SAFETY: the same call, by the definition of `pvalloc`.
    unsafe { memalign(page, bytes) }
}

/// C23's `free` of who knows the size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(address: *mut c_void, _size: usize) {
    // SAFETY: the same call, by the definition of `free_sized`.
    unsafe { free(address) };
}

/// C23's `free` of who knows the alignment and the size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(address: *mut c_void, _alignment: usize, _size: usize) {
    // SAFETY: the same call, by the definition of `free_aligned_sized`.
    unsafe { free(address) };
}

/// The bytes of a page, as the kernel told the program when it began: no system call.
fn page_size() -> usize {
    // SAFETY: `getauxval` has no conditions.
    let bytes = unsafe { libc::getauxval(libc::AT_PAGESZ) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// An aligned block of the early buffer.
fn early_aligned(alignment: usize, size: usize) -> *mut c_void {
    if alignment > early::MAXIMUM_ALIGNMENT {
        return ptr::null_mut();
    }
    early::allocate(size, rounded(alignment))
}

/// `alignment` as a power of two: some allocators round up what is none.
fn rounded(alignment: usize) -> usize {
    alignment.checked_next_power_of_two().unwrap_or(ALIGNMENT)
}

fn set_error(error: c_int) {
    // SAFETY: the C library returns the place of this thread's own `errno`.
    unsafe { *libc::__errno_location() = error };
}
