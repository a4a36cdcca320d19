//! A kernel whose collections say which heap they are in.
#![cfg(target_arch = "nvptx64")]
#![no_std]
#![feature(abi_ptx)]

use allocator_api2::vec::Vec;
use scatterheap_heap::Heap;
use scatterheap_simt::thread;

scatterheap_alloc::no_global_heap!();

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    thread::trap()
}

/// Counts up to `count`, in a list of the heap.
///
/// # Safety
///
/// The heap must be there, and `output` have room for one value.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn count_up(heap: *const Heap, count: u32, output: *mut u32) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut list = Vec::new_in((*heap).alloc());
        list.extend(0..count);
        output.write(list.iter().copied().max().unwrap_or_default());
    }
}
