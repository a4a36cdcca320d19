//! Kernels that have nothing of ours but the vocabulary.
#![cfg(target_arch = "nvptx64")]
#![no_std]
#![feature(abi_ptx)]

use core::slice;
use scatterheap_simt::atomic::{DeviceAtomicU32, Ordering};
use scatterheap_simt::thread;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    thread::trap()
}

/// Whether the values at both places are the same.
///
/// # Safety
///
/// Both must have `count` values, and `output` room for one.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn equal(
    left: *const u32,
    right: *const u32,
    count: usize,
    output: *mut bool,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let same = slice::from_raw_parts(left, count) == slice::from_raw_parts(right, count);
        output.write(same);
    }
}

/// Whether one text comes before the other.
///
/// # Safety
///
/// Both must have `count` bytes, and `output` room for one.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn before(
    left: *const u8,
    right: *const u8,
    count: usize,
    output: *mut bool,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let before = slice::from_raw_parts(left, count) < slice::from_raw_parts(right, count);
        output.write(before);
    }
}

/// Exchanges a value, and acquires what was written before it where it is another.
///
/// # Safety
///
/// Both must be there, and `output` the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn exchange(place: *const DeviceAtomicU32, output: *mut u32) {
    // SAFETY: as the caller promises.
    unsafe {
        let found = (*place).compare_exchange(1, 2, Ordering::Release, Ordering::Acquire);
        output.write(found.unwrap_or_else(|found| found));
    }
}

/// Exchanges a value, and acquires nothing.
///
/// # Safety
///
/// As for [`exchange`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn exchange_only(place: *const DeviceAtomicU32, output: *mut u32) {
    // SAFETY: as the caller promises.
    unsafe {
        let found = (*place).compare_exchange(1, 2, Ordering::Release, Ordering::Relaxed);
        output.write(found.unwrap_or_else(|found| found));
    }
}
