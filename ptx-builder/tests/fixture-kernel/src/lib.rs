//! The smallest kernel crate: each thread stores a value made from its index.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, stdarch_nvptx))]
#![cfg(target_arch = "nvptx64")]

use core::arch::nvptx::{_block_dim_x, _block_idx_x, _thread_idx_x};

#[panic_handler]
fn panic(_information: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: trap ends the kernel and has no other effect.
    unsafe { core::arch::nvptx::trap() }
}

/// Stores `value_of(index)` at `output[index]`.
///
/// # Safety
///
/// `output` must have room for one `u32` for each thread of the grid.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn store_index(output: *mut u32) {
    // SAFETY: the caller gives room for each thread's value; the index is within the grid.
    unsafe {
        let index = _block_idx_x() * _block_dim_x() + _thread_idx_x();
        output.add(index as usize).write(fixture_helper::value_of(index));
    }
}

/// Exists only with the feature, so that a test can see features arrive.
///
/// # Safety
///
/// `output` must have room for one `u32`.
#[cfg(feature = "doubled")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn store_doubled(output: *mut u32) {
    // SAFETY: the caller gives room for the value.
    unsafe { output.write(2 * fixture_helper::value_of(0)) }
}

#[cfg(feature = "undefined")]
unsafe extern "C" {
    fn defined_elsewhere(value: u32) -> u32;
    fn vprintf(format: *const u8, values: *const u8) -> i32;
}

/// Calls a function that only another module can define, and one that the driver does.
///
/// # Safety
///
/// `output` must have room for one `u32`.
#[cfg(feature = "undefined")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn store_undefined(output: *mut u32) {
    // SAFETY: the caller gives room for the value; the text has no values.
    unsafe {
        vprintf(c"called\n".as_ptr().cast(), core::ptr::null());
        output.write(defined_elsewhere(1));
    }
}
