//! `core`'s atomics: on the CPU they keep their ordering, and the process is the device.

use crate::wrapped::{wrapped_atomic, wrapped_system_atomic};
use core::sync::atomic::Ordering;
pub use core::sync::atomic::fence;

wrapped_atomic!(DeviceAtomicU32, core::sync::atomic::AtomicU32, u32, const);
wrapped_atomic!(DeviceAtomicU64, core::sync::atomic::AtomicU64, u64, const);
wrapped_system_atomic!(SystemAtomicU64, core::sync::atomic::AtomicU64, u64, const);

#[cfg(test)]
mod tests {
    use super::*;

    /// As on a GPU, where a `static` lies in global memory.
    static COUNTER: DeviceAtomicU32 = DeviceAtomicU32::new(7);
    static WIDE: DeviceAtomicU64 = DeviceAtomicU64::new(8);
    static SHARED: SystemAtomicU64 = SystemAtomicU64::new(9);

    #[test]
    fn atomics_may_be_statics() {
        assert_eq!(COUNTER.fetch_add(1, Ordering::Relaxed), 7);
        assert_eq!(COUNTER.load(Ordering::Relaxed), 8);
        assert_eq!(WIDE.load(Ordering::Relaxed), 8);
        assert_eq!(SHARED.load(Ordering::Relaxed), 9);
    }
}
