//! Kernels of the benchmark, each written once for the GPU and the CPU, and once for each allocator
//! that kernels can be compiled for: [`heap::Heap`] and [`Native`], the device's own.
//!
//! They are a module of their own: the driver sets the heap of CUDA's `malloc` up when it loads a
//! module that calls it. Names of kernels begin with `scatterheap_bench_`, and with
//! `scatterheap_bench_heap_` where scatterheap is what is timed.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_ptx, stdarch_nvptx, asm_experimental_arch)
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_ptr_alignment,
    reason = "devices have 64-bit addresses; blocks are aligned to 16 bytes"
)]

extern crate scatterheap_heap as heap;
extern crate scatterheap_kernels as kernels;
extern crate scatterheap_simt as simt;

pub mod access;
pub mod alloc_heavy;
pub mod allocator;
pub mod blocks;
pub mod churn;
pub mod contents;
pub mod faults;
pub mod graph;
pub mod latency;
pub mod workgen;

pub use allocator::{DeviceAllocator, Native};

/// Where this crate's sources are, for those who compile them to PTX.
pub const SOURCE_DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    simt::thread::trap()
}
