//! Kernels of scatterheap, each written once for the GPU and the CPU (see [`mod@simt::kernel`]).
//!
//! The stress kernels share a few words: a *block* is a record of an allocation in an array of
//! the host; its *owner* is a number from which a pattern is made that fills it; a *tally* counts
//! what was done and what was found wrong.
//!
//! Without the feature `entry-points` there are only the words, for kernels of other crates, and with `heaps` the
//! kernels that the host needs for heaps; whoever compiles them to PTX brings the panic handler.

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

#[cfg(feature = "entry-points")]
pub mod blocks;
#[cfg(feature = "entry-points")]
pub mod churn;
#[cfg(feature = "entry-points")]
pub mod divergent;
#[cfg(feature = "heaps")]
pub mod each;
#[cfg(feature = "entry-points")]
pub mod exchange;
#[cfg(feature = "entry-points")]
pub mod exhaust;
#[cfg(feature = "entry-points")]
pub mod grow;
#[cfg(feature = "heaps")]
pub mod growth;
#[cfg(feature = "heaps")]
pub mod hardening;
#[cfg(feature = "heaps")]
pub mod initialise;
#[cfg(feature = "entry-points")]
pub mod latency;
#[cfg(feature = "entry-points")]
pub mod litmus;
#[cfg(feature = "entry-points")]
pub mod misuse;
#[cfg(feature = "entry-points")]
pub mod overlap;
pub mod pattern;
#[cfg(feature = "entry-points")]
pub mod replay;
pub mod sizes;
#[cfg(feature = "entry-points")]
pub mod soak;
#[cfg(feature = "entry-points")]
pub mod starve;
pub mod tally;

/// Where this crate's sources are, for those who compile them to PTX.
pub const SOURCE_DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");

#[cfg(all(target_arch = "nvptx64", feature = "entry-points"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    simt::thread::trap()
}
