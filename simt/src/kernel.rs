//! A kernel, written once: a plain-old-data argument struct and a body.
//!
//! [`kernel!`](crate::kernel!) makes the GPU's entry point, a thin wrapper, and a type by which
//! the host launches it: on a GPU by its name, on the CPU by calling the body for every thread
//! index of the grid. So a name and its arguments cannot disagree.
//!
//! Bodies must not wait for other threads of the grid: the CPU runs a grid's threads one after
//! another on a few workers. There are no block barriers and there is no shared memory.

use bytemuck::Pod;

/// A program that every thread of a grid runs. Implemented by [`kernel!`](crate::kernel!).
///
/// # Safety
///
/// `NAME` must be the entry point made from the same body with the same argument type.
pub unsafe trait Kernel: 'static {
    /// Arguments, passed by value: fields of 4 and 8 bytes, no padding.
    type Arguments: Pod + Send + Sync;
    /// Name of the entry point in the PTX module.
    const NAME: &'static str;
    /// What each thread does.
    ///
    /// # Safety
    ///
    /// Addresses in `arguments` must be valid for the device that runs the body, and must stay
    /// so while the launch runs; each kernel says what else it needs.
    unsafe fn body(arguments: &Self::Arguments);
}

/// Whether an entry point may have this name, as PTX has its identifiers: a letter, or one of `_`, `$` and `%` and something after it; then
/// letters, digits, `_` and `$`.
#[doc(hidden)]
#[must_use]
pub const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut is_name = match bytes {
        [] => false,
        [first] => first.is_ascii_alphabetic(),
        [first, ..] => first.is_ascii_alphabetic() || matches!(first, b'_' | b'$' | b'%'),
    };
    let mut index = 1;
    while index < bytes.len() {
        is_name &= bytes[index].is_ascii_alphanumeric() || matches!(bytes[index], b'_' | b'$');
        index += 1;
    }
    is_name
}

/// Defines a kernel: its type, its entry point on the GPU and its body.
///
/// The entry point's name must be one that PTX allows, and no other's in the module.
///
/// ```
/// use scatterheap_simt::{kernel, thread};
///
/// #[repr(C)]
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// pub struct DoubleArguments {
///     /// Address of `count` values.
///     pub values: u64,
///     pub count: u64,
/// }
///
/// kernel! {
///     /// Doubles every value.
///     pub struct Double = "example_double";
///     fn body(arguments: &DoubleArguments) {
///         let index = u64::from(thread::index_1d());
///         if index < arguments.count {
///             // SAFETY: `values` has `count` elements, and each thread has its own.
///             unsafe { *(arguments.values as *mut u32).add(index as usize) *= 2 };
///         }
///     }
/// }
/// ```
///
/// Another name does not compile, on the CPU neither:
///
/// ```compile_fail
/// scatterheap_simt::kernel! {
///     /// Does nothing.
///     pub struct Nothing = "does-nothing";
///     fn body(_arguments: &u64) {}
/// }
/// ```
#[macro_export]
macro_rules! kernel {
    (
        $(#[$documentation:meta])*
        $visibility:vis struct $kernel:ident = $name:literal;
        fn body($arguments:ident: &$type:ty) $body:block
    ) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $kernel;

        const _: () = assert!(
            $crate::kernel::is_name($name),
            "PTX allows no entry point of this name: use letters, digits and `_`, and no digit first"
        );

        // SAFETY: the entry point below is exported under the same name and calls the same body.
        unsafe impl $crate::kernel::Kernel for $kernel {
            type Arguments = $type;
            const NAME: &'static str = $name;
            #[inline(always)]
            unsafe fn body($arguments: &$type) $body
        }

        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            #[unsafe(export_name = $name)]
            unsafe extern "ptx-kernel" fn entry(arguments: $type) {
                // SAFETY: the host launches an entry point only with valid arguments.
                unsafe { <$kernel as $crate::kernel::Kernel>::body(&arguments) }
            }
        };
    };
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_those_that_ptx_allows() {
        for name in ["k", "scatterheap_kernel_2", "_own", "$own", "%own", "a$b"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "_",
            "a%b",
            "my-kernel",
            "2nd",
            "a b",
            "a.b",
            "größer",
            "a::b",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
