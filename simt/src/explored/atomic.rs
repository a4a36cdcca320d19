//! The explorer's atomics. They are larger than their integers, and must be built in place.
//!
//! Under loom a store is a `swap` whose result nobody wants: loom 0.7 lets a plain store fall
//! between the halves of a concurrent read-modify-write (loom issue 254), and so loses updates
//! that no hardware loses. The price is that a store keeps the release sequence it lands in,
//! which C++ does not promise. Each ordering passes through [`super::weaken`].

use crate::wrapped::{wrapped_atomic, wrapped_system_atomic};
use core::sync::atomic::Ordering;

#[cfg(loom)]
use exchanging as explorer;
#[cfg(shuttle)]
use shuttle::sync::atomic as explorer;

#[cfg(loom)]
pub use exchanging::fence;
#[cfg(shuttle)]
pub use shuttle::sync::atomic::fence;

wrapped_atomic!(DeviceAtomicU32, explorer::AtomicU32, u32);
wrapped_atomic!(DeviceAtomicU64, explorer::AtomicU64, u64);
wrapped_system_atomic!(SystemAtomicU64, explorer::AtomicU64, u64);

/// Loom's atomics, but that stores are exchanges and that an ordering may be weakened.
#[cfg(loom)]
mod exchanging {
    use super::super::weaken::ordering_of;
    use core::sync::atomic::Ordering;
    use loom::sync::atomic;

    /// Loom's fence, or none if it is weakened.
    #[track_caller]
    pub fn fence(ordering: Ordering) {
        let ordering = ordering_of("fence", ordering);
        if ordering != Ordering::Relaxed {
            atomic::fence(ordering);
        }
    }

    macro_rules! exchanging_atomic {
        ($name:ident, $integer:ty, $($method:ident)+) => {
            #[derive(Debug)]
            pub struct $name(atomic::$name);

            impl $name {
                pub fn new(value: $integer) -> Self {
                    Self(atomic::$name::new(value))
                }

                #[track_caller]
                pub fn load(&self, ordering: Ordering) -> $integer {
                    self.0.load(ordering_of("load", ordering))
                }

                #[track_caller]
                pub fn store(&self, value: $integer, ordering: Ordering) {
                    self.0.swap(value, ordering_of("store", ordering));
                }

                #[track_caller]
                pub fn compare_exchange(
                    &self,
                    current: $integer,
                    new: $integer,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$integer, $integer> {
                    let success = ordering_of("compare_exchange", success);
                    self.0.compare_exchange(current, new, success, failure)
                }

                $(
                    #[track_caller]
                    pub fn $method(&self, value: $integer, ordering: Ordering) -> $integer {
                        self.0.$method(value, ordering_of(stringify!($method), ordering))
                    }
                )+
            }
        };
        ($($name:ident $integer:ty),+) => {
            $(
                exchanging_atomic!(
                    $name, $integer,
                    fetch_add fetch_sub fetch_and fetch_or fetch_xor swap fetch_min fetch_max
                );
            )+
        };
    }

    exchanging_atomic!(AtomicU32 u32, AtomicU64 u64);
}
