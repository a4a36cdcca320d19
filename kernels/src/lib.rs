//! Kernels of scatterheap, each written once for the GPU and the CPU (see [`mod@simt::kernel`]), and
//! the device functions that other languages link to ([`exports`]).
//!
//! The stress kernels share a few words: a *block* is a record of an allocation in an array of
//! the host; its *owner* is a number from which a pattern is made that fills it; a *tally* counts
//! what was done and what was found wrong.

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
extern crate scatterheap_simt as simt;

pub mod bench;
pub mod blocks;
pub mod churn;
pub mod divergent;
pub mod exchange;
pub mod exhaust;
pub mod exports;
pub mod grow;
pub mod initialise;
pub mod overlap;
pub mod pattern;
pub mod replay;
pub mod sizes;
pub mod tally;

/// Where this crate's sources are, for those who compile them to PTX.
pub const SOURCE_DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    simt::thread::trap()
}
