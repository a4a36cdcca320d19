//! Device atomics over another crate's atomics of the same shape: `core`'s, loom's or shuttle's.
//! Loom's know the line that an operation comes from.

/// Defines an atomic that is read and written, over an atomic that has core's methods. With `const` at the end it may be made
/// in a `static`, which the explorers' cannot.
macro_rules! wrapped_word {
    ($name:ident, $inner:path, $integer:ty, $documentation:literal $(, $constant:tt)?) => {
        #[doc = concat!("A `", stringify!($integer), "` that ", $documentation, ".")]
        #[repr(transparent)]
        #[derive(Debug)]
        pub struct $name($inner);

        impl $name {
            /// A new atomic. In a local variable of a kernel it must not be used: on a GPU it must lie in memory that others can reach, see the module.
            #[must_use]
            pub $($constant)? fn new(value: $integer) -> Self {
                Self(<$inner>::new(value))
            }

            /// Reads the value; `ordering` is `Relaxed`, `Acquire` or, of the device's, `SeqCst`.
            #[inline]
            #[cfg_attr(loom, track_caller)]
            pub fn load(&self, ordering: Ordering) -> $integer {
                self.0.load(ordering)
            }

            /// Writes the value; `ordering` is `Relaxed`, `Release` or, of the device's, `SeqCst`.
            #[inline]
            #[cfg_attr(loom, track_caller)]
            pub fn store(&self, value: $integer, ordering: Ordering) {
                self.0.store(value, ordering);
            }
        }
    };
}
pub(crate) use wrapped_word;

/// Defines a device atomic over an atomic that has core's methods.
macro_rules! wrapped_atomic {
    ($name:ident, $inner:path, $integer:ty $(, $constant:tt)?) => {
        $crate::wrapped::wrapped_word!(
            $name,
            $inner,
            $integer,
            "all threads of a device may change at once"
            $(, $constant)?
        );

        impl $name {
            wrapped_atomic!(@methods $integer,
                "Adds, wrapping; returns the old value." fetch_add,
                "Subtracts, wrapping; returns the old value." fetch_sub,
                "Bitwise and; returns the old value." fetch_and,
                "Bitwise or; returns the old value." fetch_or,
                "Bitwise exclusive or; returns the old value." fetch_xor,
                "Replaces the value; returns the old one." swap,
                "Stores the smaller of the two; returns the old value." fetch_min,
                "Stores the larger of the two; returns the old value." fetch_max
            );

            /// Stores `new` if the value is `current`.
            ///
            /// # Errors
            ///
            /// The value found, where it was not `current`.
            #[inline]
            #[cfg_attr(loom, track_caller)]
            pub fn compare_exchange(
                &self,
                current: $integer,
                new: $integer,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$integer, $integer> {
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    };
    (@methods $integer:ty, $($documentation:literal $method:ident),+) => {
        $(
            #[doc = $documentation]
            #[inline]
            #[cfg_attr(loom, track_caller)]
            pub fn $method(&self, value: $integer, ordering: Ordering) -> $integer {
                self.0.$method(value, ordering)
            }
        )+
    };
}
pub(crate) use wrapped_atomic;

/// Defines an atomic that the device and the host read and write, over another crate's atomic.
macro_rules! wrapped_system_atomic {
    ($name:ident, $inner:path, $integer:ty $(, $constant:tt)?) => {
        $crate::wrapped::wrapped_word!(
            $name,
            $inner,
            $integer,
            "the device and the host read and write"
            $(, $constant)?
        );
    };
}
pub(crate) use wrapped_system_atomic;
