//! The Rust blocks of the guide compile. Nothing of them is run.

// They are to be read, and do not say all that code says that is run.
#![allow(
    warnings,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks
)]

use bytemuck::{Pod, Zeroable};
use scatterheap_simt::kernel;

// One for all blocks that have the line.
scatterheap_alloc::global_heap!();

/// What programs of the host import.
mod host_prelude {
    pub use super::MyKernel;
    pub use scatterheap::monitor;
    pub use scatterheap::resource::adaptor::Statistics;
    pub use scatterheap::resource::{Caching, DeviceVec, MemoryResource};
    pub use scatterheap::{
        Device, Grid, Growth, Hardening, Heap, Misuse, Selector, Snapshot, Stream,
    };
    pub use std::sync::Arc;
}

/// What kernels import.
mod kernel_prelude {
    pub use bytemuck::{Pod, Zeroable};
    pub use rustc_hash::FxBuildHasher;
    pub use scatterheap_heap::Heap;
    pub use scatterheap_simt::{kernel, thread};
}

/// Arguments of kernels of which only a part is shown.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Arguments {
    heap: scatterheap_heap::Heap,
    lasting: scatterheap_heap::Heap,
    passing: scatterheap_heap::Heap,
}

kernel! {
    /// A kernel that is not shown.
    pub struct MyKernel = "my_kernel";
    fn body(_arguments: &Arguments) {}
}

include!(concat!(env!("OUT_DIR"), "/blocks.rs"));
