//! The explorer's atomics. They are larger than their integers, and must be built in place.

use crate::wrapped::wrapped_atomic;
use core::sync::atomic::Ordering;

#[cfg(loom)]
use loom::sync::atomic as explorer;
#[cfg(shuttle)]
use shuttle::sync::atomic as explorer;

pub use explorer::fence;

wrapped_atomic!(DeviceAtomicU32, explorer::AtomicU32, u32);
wrapped_atomic!(DeviceAtomicU64, explorer::AtomicU64, u64);
