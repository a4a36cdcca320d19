//! Kernels that use `Vec`: every thread factors its number.

#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, alloc_error_handler))]

extern crate alloc;

use alloc::vec::Vec;
use bytemuck::{Pod, Zeroable};
use scatterheap_simt::{kernel, thread};

// `Vec`, `Box`, `String` and the rest come from the heap that the host makes global.
scatterheap_alloc::global_heap!();

/// Arguments of both kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Arguments {
    /// Address of `count` vectors, one for each thread.
    pub factors: u64,
    /// Address of `count` numbers, one for each thread.
    pub products: u64,
    /// Threads that work.
    pub count: u64,
}

/// Bytes of the place that a thread's vector needs.
pub const PLACE_BYTES: u64 = size_of::<Vec<u32>>() as u64;

kernel! {
    /// Every thread leaves the prime factors of its index: how many, nobody knows before.
    pub struct Factor = "vec_factor";
    fn body(arguments: &Arguments) {
        let index = thread::index_1d();
        if u64::from(index) >= arguments.count {
            return;
        }
        let mut factors = Vec::new();
        let (mut rest, mut factor) = (index, 2);
        while rest > 1 {
            if rest % factor == 0 {
                factors.push(factor);
                rest /= factor;
            } else {
                factor += 1;
            }
        }
        // SAFETY: the host gave a place for each thread's vector.
        unsafe { (arguments.factors as *mut Vec<u32>).add(index as usize).write(factors) };
    }
}

kernel! {
    /// Every thread takes the factors of its index, multiplies them, and drops them.
    pub struct Multiply = "vec_multiply";
    fn body(arguments: &Arguments) {
        let index = thread::index_1d();
        if u64::from(index) >= arguments.count {
            return;
        }
        // SAFETY: `Factor` left a vector in each place; the host gave a place for each product.
        unsafe {
            let factors = (arguments.factors as *mut Vec<u32>).add(index as usize).read();
            let product: u32 = factors.iter().product();
            (arguments.products as *mut u32).add(index as usize).write(product);
        }
    }
}

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    thread::trap()
}
