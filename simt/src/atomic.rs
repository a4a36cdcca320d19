//! Atomics of device scope, and the fence.
//!
//! A `DeviceAtomic…` is seen consistently by every thread of one GPU (PTX scope `.gpu`) or, on
//! the CPU, of the process. It must lie in global memory when it is used, which nothing checks: a `static` does, and so does what lies behind
//! an address that the host or a heap gave; a local variable of a kernel does not, and to use an atomic there is undefined behaviour on a GPU. (`new` gives a
//! value, which may be moved to where it is to be used.) On PTX it has the layout of its
//! integer. A [`SystemAtomicU64`] is seen by the host too (PTX scope `.sys`), and lies in memory that both can
//! reach. The meaning of the orderings is that of C++ and of the
//! [PTX memory consistency model](https://docs.nvidia.com/cuda/parallel-thread-execution/#memory-consistency-model).

pub use crate::backend::atomic::{DeviceAtomicU32, DeviceAtomicU64, SystemAtomicU64, fence};
pub use core::sync::atomic::Ordering;

/// The ordering of loads that acquire together, by one [`acquire_loaded`] after them: where each does so by itself, each is a wait, and on a GPU throws all of L1 away.
///
/// Under exploration each does acquire by itself. A fence would acquire from all that was loaded before, and models would not find which other orderings that is needed of.
pub const LOADED_TOGETHER: Ordering = if cfg!(any(loom, shuttle)) {
    Ordering::Acquire
} else {
    Ordering::Relaxed
};

/// Acquires from the loads before it that were [`LOADED_TOGETHER`].
#[inline(always)]
pub fn acquire_loaded() {
    if cfg!(not(any(loom, shuttle))) {
        fence(Ordering::Acquire);
    }
}

/// The one ordering that includes both of a compare-exchange: an instruction of PTX cannot say another for where it fails.
#[cfg(any(target_arch = "nvptx64", test))]
#[inline(always)]
pub(crate) const fn of_both(success: Ordering, failure: Ordering) -> Ordering {
    match (success, failure) {
        (_, Ordering::SeqCst) => Ordering::SeqCst,
        (Ordering::Relaxed, Ordering::Acquire) => Ordering::Acquire,
        (Ordering::Release, Ordering::Acquire) => Ordering::AcqRel,
        (success, _) => success,
    }
}

#[cfg(test)]
mod tests {
    use super::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
    use super::of_both;

    const SUCCESSES: [Ordering; 5] = [Relaxed, Acquire, Release, AcqRel, SeqCst];

    #[test]
    fn a_failure_that_orders_nothing_changes_nothing() {
        for success in SUCCESSES {
            assert_eq!(of_both(success, Relaxed), success);
        }
    }

    #[test]
    fn a_failure_acquires_if_it_is_to() {
        let acquiring = [Acquire, Acquire, AcqRel, AcqRel, SeqCst];
        for (success, expected) in SUCCESSES.into_iter().zip(acquiring) {
            assert_eq!(of_both(success, Acquire), expected);
            assert_eq!(of_both(success, SeqCst), SeqCst);
        }
    }
}
