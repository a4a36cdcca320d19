//! Compiles a Rust kernel crate to PTX, in a build script or anywhere else.
//!
//! A kernel crate is an ordinary `#![no_std]` library that marks its entry points `extern
//! "ptx-kernel"` when it is compiled for `nvptx64-nvidia-cuda`. This crate finds a compiler that
//! can build that target ([`find_compiler`]), runs it once for each [`Baseline`], and leaves one
//! `.ptx` file for each. No CUDA toolkit is needed: the driver of the machine that runs the kernel
//! turns PTX into machine code.
//!
//! In a build script:
//!
//! ```no_run
//! // build.rs
//! # fn main() -> Result<(), scatterheap_ptx_builder::Error> {
//! scatterheap_ptx_builder::Builder::new("kernels").build_for_build_script()?;
//! # Ok(())
//! # }
//! ```
//!
//! and in the crate:
//!
//! ```ignore
//! const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/my-kernels.sm_80.ptx"));
//! ```
//!
//! The compiler needs the source of its own `core` library, because nobody ships `core` compiled
//! for a GPU. The first build compiles it (about 15 seconds for each baseline); later builds only
//! compile what changed. Cargo may need the network once, to fetch the dependencies that the
//! library source lists.

mod baseline;
mod code;
mod compile;
mod compiler;
pub mod cuda_cpp;
mod error;
mod fingerprint;
mod miscompilation;
mod recursion;
mod registers;
mod sources;
mod undefined;

pub use baseline::Baseline;
pub use compile::{Builder, PtxModule};
pub use compiler::{COMPILER_VARIABLE, CompilerOrigin, KernelCompiler, find_compiler};
pub use error::Error;
pub use fingerprint::fingerprint_of_sources;
