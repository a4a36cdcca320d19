//! Errors as C++ exceptions.
//!
//! `PyTorch` takes NULL from a pluggable allocator for a block, and kernels then write to it. What its allocator's
//! functions throw comes out in Python, as the text of a `RuntimeError`.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

/// What the C++ library calls to throw `std::runtime_error`: mangled, `std::__throw_runtime_error(char const*)`.
const THROWER: &std::ffi::CStr = c"_ZSt21__throw_runtime_errorPKc";
const LIBRARY: &std::ffi::CStr = c"libstdc++.so.6";

type Thrower = unsafe extern "C-unwind" fn(*const c_char) -> !;

/// Looks for the function in the C++ library of this process. Without one nobody could catch anything.
fn thrower() -> Option<Thrower> {
    static FOUND: OnceLock<Option<Thrower>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: only looks for a library that is loaded, and then keeps it.
        let library =
            unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        // SAFETY: the library is loaded, and the name ends with a zero.
        let function = unsafe { libc::dlsym(library, THROWER.as_ptr()) };
        // SAFETY: the C++ library's ABI says that this is the function's type; NULL becomes none.
        unsafe { std::mem::transmute::<*mut c_void, Option<Thrower>>(function) }
    })
}

/// Throws `std::runtime_error` with this text. Returns if there is no C++ library.
///
/// # Safety
///
/// The text must end with a zero byte, and stay until it was copied. Every frame up to who catches must be one that
/// foreign exceptions may pass.
pub unsafe fn throw(text: *const c_char) {
    if let Some(thrower) = thrower() {
        // SAFETY: as the caller promises.
        unsafe { thrower(text) }
    }
}
