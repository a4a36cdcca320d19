//! Atomics of device scope, and the fence.
//!
//! A `DeviceAtomic…` is seen consistently by every thread of one GPU (PTX scope `.gpu`) or, on
//! the CPU, of the process. It must lie in global memory; on PTX it has the layout of its
//! integer. The meaning of the orderings is that of C++ and of the
//! [PTX memory consistency model](https://docs.nvidia.com/cuda/parallel-thread-execution/#memory-consistency-model).

pub use crate::backend::atomic::{DeviceAtomicU32, DeviceAtomicU64, fence};
pub use core::sync::atomic::Ordering;
