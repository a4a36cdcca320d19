//! The C functions of a plug-in, as `scatterheap_peer.h` declares them.

use libloading::Library;
use std::ffi::{c_char, c_int, c_void};

/// Declares the functions, and finds all of them in a library.
macro_rules! functions {
    ($($(#[$documentation:meta])* $field:ident = $symbol:literal: $type:ty;)*) => {
        /// The functions of a loaded plug-in; usable as long as it is loaded.
        pub struct Functions {
            $($(#[$documentation])* pub $field: $type,)*
        }

        impl Functions {
            /// Finds the functions, or names those that are missing.
            ///
            /// # Safety
            ///
            /// What the library exports under these names must have these types.
            pub unsafe fn find(library: &Library) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: as the caller promises.
                    let $field = unsafe { library.get::<$type>($symbol) };
                    if $field.is_err() {
                        missing.push($symbol);
                    }
                )*
                match ($($field,)*) {
                    ($(Ok($field),)*) => Ok(Self { $($field: *$field,)* }),
                    _ => Err(missing),
                }
            }
        }
    };
}

functions! {
    /// Name in tables.
    name = "peer_name": unsafe extern "C" fn() -> *const c_char;
    /// Makes a heap of so many bytes.
    init = "peer_init": unsafe extern "C" fn(usize) -> c_int;
    /// Blocks, sizes or NULL, size, threads, threads of a block, stream.
    alloc = "peer_alloc":
        unsafe extern "C" fn(*mut *mut c_void, *const u32, u32, u32, u32, *mut c_void) -> c_int;
    /// Blocks, threads, threads of a block, stream.
    free = "peer_free": unsafe extern "C" fn(*mut *mut c_void, u32, u32, *mut c_void) -> c_int;
    /// Blocks, size, warps, stream.
    alloc_warp = "peer_alloc_warp":
        unsafe extern "C" fn(*mut *mut c_void, u32, u32, *mut c_void) -> c_int;
    /// Blocks, warps, stream.
    free_warp = "peer_free_warp":
        unsafe extern "C" fn(*mut *mut c_void, u32, *mut c_void) -> c_int;
    /// Least size, most, threads, iterations, seed, two counters, stream.
    churn = "peer_churn":
        unsafe extern "C" fn(u32, u32, u32, u32, u32, *mut u32, *mut c_void) -> c_int;
    /// Stream.
    reset = "peer_reset": unsafe extern "C" fn(*mut c_void) -> c_int;
    /// Gives the heap back.
    destroy = "peer_destroy": unsafe extern "C" fn();
}
