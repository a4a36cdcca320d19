//! The same functions as Numba's kernels call them.
//!
//! Numba has a calling convention of its own: a function gets the place of its result first, and returns whether it
//! raised an exception, which these never do. Addresses are numbers there, so that they can be kept in arrays.

use heap::Heap;

/// "No exception".
const OK: i32 = 0;

/// Defines a function with a result as Numba calls it.
macro_rules! numba {
    ($name:ident: $function:ident($($argument:ident: $type:ty),*)) => {
        #[doc = concat!("[`", stringify!($function), "`](super::", stringify!($function), ").")]
        #[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(result: *mut u64, heap: u64, $($argument: $type),*) -> i32 {
            // SAFETY: the caller gives a place for the result, and what the function asks for.
            unsafe {
                result.write(super::$function(heap as *const Heap, $($argument as _),*) as u64);
            }
            OK
        }
    };
}

numba!(scatterheap_numba_malloc: scatterheap_malloc(bytes: u64));
numba!(scatterheap_numba_malloc_tagged: scatterheap_malloc_tagged(bytes: u64, site: u32));
numba!(scatterheap_numba_calloc: scatterheap_calloc(count: u64, bytes: u64));
numba!(scatterheap_numba_realloc: scatterheap_realloc(address: u64, bytes: u64));
numba!(scatterheap_numba_aligned_alloc: scatterheap_aligned_alloc(alignment: u64, bytes: u64));
numba!(scatterheap_numba_usable_size: scatterheap_usable_size(address: u64));

/// [`scatterheap_free`](super::scatterheap_free). Numba also has a place for the result of a function without one.
#[cfg_attr(target_arch = "nvptx64", unsafe(no_mangle))]
pub unsafe extern "C" fn scatterheap_numba_free(_result: *mut u64, heap: u64, address: u64) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { super::scatterheap_free(heap as *const Heap, address as *mut u8) };
    OK
}
