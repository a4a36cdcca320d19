//! The C interface of the heaps and of the memory resources, and the functions that `PyTorch`'s pluggable allocator
//! takes.
//!
//! `include/scatterheap.h` documents the functions for those who call them from C. [`Resource`] and [`DeviceHeap`] are
//! what is behind handles; other bindings, such as the Python package's, use them directly.
//!
//! Invariants:
//! - No panic leaves a function of the interface: it becomes an error.
//! - A function that fails says so by what it returns, and leaves a line of text for
//!   [`scatterheap_last_error`](interface::scatterheap_last_error).
//! - A thread finds the CUDA context current that was so before the call.

mod composition;
mod error;
mod exception;
mod exit;
mod failure;
mod figures;
mod handle;
pub mod heap;
pub mod interface;
mod layers;
mod resource;
mod shared_arena;
mod streams;
pub mod torch;

pub use composition::Composition;
pub use error::{Error, Result};
pub use figures::{Figures, Place, UNKNOWN};
pub use heap::DeviceHeap;
pub use resource::Resource;
