//! Kernels that use Rust's collections: of the numbered examples, and of the collections' tests.
//!
//! Each is written once, for the GPU and the CPU, and allocates from the global heap unless it says otherwise.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, alloc_error_handler))]
#![allow(
    clippy::cast_possible_truncation,
    reason = "devices have 64-bit addresses"
)]

extern crate alloc;
extern crate scatterheap_heap as heap;
extern crate scatterheap_simt as simt;

pub mod exercise;
pub mod graph;
pub mod mandelbrot;
pub mod octree;
pub mod places;
pub mod queue;
pub mod random;
pub mod several;
pub mod starve;
pub mod walks;
pub mod words;

scatterheap_alloc::global_heap!();

/// Where this crate's sources are, for those who compile them to PTX.
pub const SOURCE_DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    simt::thread::trap()
}
