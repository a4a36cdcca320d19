//! `core`'s atomics: on the CPU they keep their ordering, and the process is the device.

use crate::wrapped::{wrapped_atomic, wrapped_system_atomic};
use core::sync::atomic::Ordering;
pub use core::sync::atomic::fence;

wrapped_atomic!(DeviceAtomicU32, core::sync::atomic::AtomicU32, u32);
wrapped_atomic!(DeviceAtomicU64, core::sync::atomic::AtomicU64, u64);
wrapped_system_atomic!(SystemAtomicU64, core::sync::atomic::AtomicU64, u64);
