//! Device-scope atomics as inline PTX, because rustc's own lose ordering and scope on nvptx64.
//!
//! Each operation spells out `.relaxed`, `.acquire`, `.release` or `.acq_rel`, `.gpu` and
//! `.global`. `SeqCst` is `fence.sc.gpu` followed by the acquire-release form, which is how the
//! PTX ISA maps C++. `.global` is what the module's users promise: that no atomic is used in a local variable. An `atom` whose result is unused becomes `red` in ptxas.

use crate::atomic::of_both;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

/// A fence of device scope. `Relaxed` is not a fence and is refused by the CPU backends.
#[inline(always)]
pub fn fence(ordering: Ordering) {
    // SAFETY: a fence only orders memory accesses.
    unsafe {
        match ordering {
            Ordering::SeqCst => asm!("fence.sc.gpu;", options(nostack)),
            _ => asm!("fence.acq_rel.gpu;", options(nostack)),
        }
    }
}

macro_rules! read_modify_write {
    ($pointer:expr, $value:expr, $ordering:expr, $operation:literal, $type:literal, $integer:ty, $register:ident) => {{
        let old: $integer;
        // SAFETY: `self` is a valid atomic in global memory.
        unsafe {
            match $ordering {
                Ordering::Relaxed => read_modify_write!(@ "relaxed", $operation, $type, old, $pointer, $value, $register),
                Ordering::Acquire => read_modify_write!(@ "acquire", $operation, $type, old, $pointer, $value, $register),
                Ordering::Release => read_modify_write!(@ "release", $operation, $type, old, $pointer, $value, $register),
                Ordering::AcqRel => read_modify_write!(@ "acq_rel", $operation, $type, old, $pointer, $value, $register),
                _ => {
                    fence(Ordering::SeqCst);
                    read_modify_write!(@ "acq_rel", $operation, $type, old, $pointer, $value, $register);
                }
            }
        }
        old
    }};
    (@ $semantics:literal, $operation:literal, $type:literal, $old:ident, $pointer:expr, $value:expr, $register:ident) => {
        asm!(
            concat!("atom.", $semantics, ".gpu.global.", $operation, ".", $type, " {old}, [{pointer}], {value};"),
            old = out($register) $old,
            pointer = in(reg64) $pointer,
            value = in($register) $value,
            options(nostack)
        )
    };
}

macro_rules! compare_exchange {
    ($semantics:literal, $type:literal, $old:ident, $pointer:expr, $current:expr, $new:expr, $register:ident) => {
        asm!(
            concat!("atom.", $semantics, ".gpu.global.cas.", $type, " {old}, [{pointer}], {current}, {new};"),
            old = out($register) $old,
            pointer = in(reg64) $pointer,
            current = in($register) $current,
            new = in($register) $new,
            options(nostack)
        )
    };
}

macro_rules! device_atomic {
    ($name:ident, $integer:ty, $bits:literal, $untyped:literal, $unsigned:literal, $register:ident) => {
        #[doc = concat!("An integer of ", $bits, " bits that all threads of a GPU may change at once.")]
        #[repr(transparent)]
        pub struct $name(UnsafeCell<$integer>);

        // SAFETY: every access is atomic, of device scope.
        unsafe impl Sync for $name {}
        // SAFETY: the value is a plain integer.
        unsafe impl Send for $name {}

        impl $name {
            /// A new atomic, to be moved into global memory before it is used; or a `static`, which lies there. In a local
            /// variable of a kernel its operations are undefined behaviour.
            #[inline(always)]
            #[must_use]
            pub const fn new(value: $integer) -> Self {
                Self(UnsafeCell::new(value))
            }

            /// Reads the value; `ordering` is `Relaxed`, `Acquire` or `SeqCst`.
            #[inline(always)]
            pub fn load(&self, ordering: Ordering) -> $integer {
                let value: $integer;
                let pointer = self.0.get();
                // SAFETY: `self` is a valid atomic in global memory.
                unsafe {
                    match ordering {
                        Ordering::Relaxed => asm!(
                            concat!("ld.relaxed.gpu.global.", $unsigned, " {0}, [{1}];"),
                            out($register) value, in(reg64) pointer, options(nostack)
                        ),
                        _ => {
                            if matches!(ordering, Ordering::SeqCst) {
                                fence(Ordering::SeqCst);
                            }
                            asm!(
                                concat!("ld.acquire.gpu.global.", $unsigned, " {0}, [{1}];"),
                                out($register) value, in(reg64) pointer, options(nostack)
                            );
                        }
                    }
                }
                value
            }

            /// Writes the value; `ordering` is `Relaxed`, `Release` or `SeqCst`.
            #[inline(always)]
            pub fn store(&self, value: $integer, ordering: Ordering) {
                let pointer = self.0.get();
                // SAFETY: `self` is a valid atomic in global memory.
                unsafe {
                    match ordering {
                        Ordering::Relaxed => asm!(
                            concat!("st.relaxed.gpu.global.", $unsigned, " [{0}], {1};"),
                            in(reg64) pointer, in($register) value, options(nostack)
                        ),
                        _ => {
                            if matches!(ordering, Ordering::SeqCst) {
                                fence(Ordering::SeqCst);
                            }
                            asm!(
                                concat!("st.release.gpu.global.", $unsigned, " [{0}], {1};"),
                                in(reg64) pointer, in($register) value, options(nostack)
                            );
                        }
                    }
                }
            }

            /// Adds, wrapping; returns the old value.
            #[inline(always)]
            pub fn fetch_add(&self, value: $integer, ordering: Ordering) -> $integer {
                read_modify_write!(self.0.get(), value, ordering, "add", $unsigned, $integer, $register)
            }

            /// Subtracts, wrapping; returns the old value.
            #[inline(always)]
            pub fn fetch_sub(&self, value: $integer, ordering: Ordering) -> $integer {
                self.fetch_add(value.wrapping_neg(), ordering)
            }

            /// Bitwise and; returns the old value.
            #[inline(always)]
            pub fn fetch_and(&self, value: $integer, ordering: Ordering) -> $integer {
                read_modify_write!(self.0.get(), value, ordering, "and", $untyped, $integer, $register)
            }

            /// Bitwise or; returns the old value.
            #[inline(always)]
            pub fn fetch_or(&self, value: $integer, ordering: Ordering) -> $integer {
                read_modify_write!(self.0.get(), value, ordering, "or", $untyped, $integer, $register)
            }

            /// Bitwise exclusive or; returns the old value.
            #[inline(always)]
            pub fn fetch_xor(&self, value: $integer, ordering: Ordering) -> $integer {
                read_modify_write!(self.0.get(), value, ordering, "xor", $untyped, $integer, $register)
            }

            /// Replaces the value; returns the old one.
            #[inline(always)]
            pub fn swap(&self, value: $integer, ordering: Ordering) -> $integer {
                read_modify_write!(self.0.get(), value, ordering, "exch", $untyped, $integer, $register)
            }

            /// Stores the smaller of the two; returns the old value.
            #[inline(always)]
            pub fn fetch_min(&self, value: $integer, ordering: Ordering) -> $integer {
                read_modify_write!(self.0.get(), value, ordering, "min", $unsigned, $integer, $register)
            }

            /// Stores the larger of the two; returns the old value.
            #[inline(always)]
            pub fn fetch_max(&self, value: $integer, ordering: Ordering) -> $integer {
                read_modify_write!(self.0.get(), value, ordering, "max", $unsigned, $integer, $register)
            }

            /// Stores `new` if the value is `current`.
            ///
            /// # Errors
            ///
            /// The value found, where it was not `current`. On PTX a failed exchange has the
            /// ordering of a successful one, which is as strong as both ask for.
            #[inline(always)]
            pub fn compare_exchange(
                &self,
                current: $integer,
                new: $integer,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$integer, $integer> {
                let old: $integer;
                let pointer = self.0.get();
                // SAFETY: `self` is a valid atomic in global memory.
                unsafe {
                    match of_both(success, failure) {
                        Ordering::Relaxed => compare_exchange!("relaxed", $untyped, old, pointer, current, new, $register),
                        Ordering::Acquire => compare_exchange!("acquire", $untyped, old, pointer, current, new, $register),
                        Ordering::Release => compare_exchange!("release", $untyped, old, pointer, current, new, $register),
                        Ordering::AcqRel => compare_exchange!("acq_rel", $untyped, old, pointer, current, new, $register),
                        _ => {
                            fence(Ordering::SeqCst);
                            compare_exchange!("acq_rel", $untyped, old, pointer, current, new, $register);
                        }
                    }
                }
                if old == current { Ok(old) } else { Err(old) }
            }
        }
    };
}

device_atomic!(DeviceAtomicU32, u32, "32", "b32", "u32", reg32);
device_atomic!(DeviceAtomicU64, u64, "64", "b64", "u64", reg64);

/// An integer of 64 bits that the device and the host read and write: in host memory that the
/// device can reach. Only loads and stores: behind PCIe nothing else is atomic for both.
#[repr(transparent)]
pub struct SystemAtomicU64(UnsafeCell<u64>);

// SAFETY: every access is atomic, of system scope.
unsafe impl Sync for SystemAtomicU64 {}
// SAFETY: the value is a plain integer.
unsafe impl Send for SystemAtomicU64 {}

impl SystemAtomicU64 {
    /// A new atomic.
    #[inline(always)]
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Reads the value; `ordering` is `Relaxed` or `Acquire`.
    #[inline(always)]
    pub fn load(&self, ordering: Ordering) -> u64 {
        let value: u64;
        let pointer = self.0.get();
        // SAFETY: `self` is a valid atomic in memory that the device can reach.
        unsafe {
            match ordering {
                Ordering::Relaxed => {
                    asm!("ld.relaxed.sys.global.u64 {0}, [{1}];", out(reg64) value, in(reg64) pointer, options(nostack));
                }
                _ => {
                    asm!("ld.acquire.sys.global.u64 {0}, [{1}];", out(reg64) value, in(reg64) pointer, options(nostack));
                }
            }
        }
        value
    }

    /// Writes the value; `ordering` is `Relaxed` or `Release`.
    #[inline(always)]
    pub fn store(&self, value: u64, ordering: Ordering) {
        let pointer = self.0.get();
        // SAFETY: as in `load`.
        unsafe {
            match ordering {
                Ordering::Relaxed => {
                    asm!("st.relaxed.sys.global.u64 [{0}], {1};", in(reg64) pointer, in(reg64) value, options(nostack));
                }
                _ => {
                    asm!("st.release.sys.global.u64 [{0}], {1};", in(reg64) pointer, in(reg64) value, options(nostack));
                }
            }
        }
    }
}
