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

/// Defines a kernel: its type, its entry point on the GPU and its body.
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
