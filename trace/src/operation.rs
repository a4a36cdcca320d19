//! One operation of a trace, in the form that every other module works on.

use serde::{Deserialize, Serialize};

/// The alignment, in bytes, that `malloc` promises when none is asked for.
pub const DEFAULT_ALIGNMENT: u32 = 16;

/// What an operation does. An aligned allocation is a `Malloc` with a larger alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Kind {
    /// Allocates an object; its content is undefined.
    Malloc = 0,
    /// Allocates an object whose content is zero.
    Calloc = 1,
    /// Gives a live object a new size. It stays the same object, with the same id, even where it moves.
    Realloc = 2,
    /// Ends an object's life.
    Free = 3,
}

impl Kind {
    /// The number that stands for this kind in files and in [`PackedOperation`](crate::PackedOperation).
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind that `code` stands for, if any.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Malloc),
            1 => Some(Self::Calloc),
            2 => Some(Self::Realloc),
            3 => Some(Self::Free),
            _ => None,
        }
    }

    /// The word that stands for this kind in CSV files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malloc => "malloc",
            Self::Calloc => "calloc",
            Self::Realloc => "realloc",
            Self::Free => "free",
        }
    }

    /// Whether this kind begins an object's life.
    #[must_use]
    pub const fn allocates(self) -> bool {
        matches!(self, Self::Malloc | Self::Calloc)
    }
}

/// One call of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The thread that made the call. In what was recorded, threads are numbered from 0 in order of first appearance.
    pub thread: u32,
    /// What the call did.
    pub kind: Kind,
    /// The object. An id may be used again once its object is freed.
    pub id: u64,
    /// The requested size in bytes; 0 for `Free`.
    pub size: u64,
    /// The requested alignment in bytes, a power of two; 1 for `Free`.
    pub alignment: u32,
}

impl Operation {
    /// An allocation of `size` bytes with the alignment that `malloc` promises.
    #[must_use]
    pub const fn malloc(thread: u32, id: u64, size: u64) -> Self {
        Self::aligned(thread, id, size, DEFAULT_ALIGNMENT)
    }

    /// An allocation of `size` bytes at a multiple of `alignment` bytes. [`Trace::new`](crate::Trace::new) refuses an
    /// alignment that is not a power of two.
    #[must_use]
    pub const fn aligned(thread: u32, id: u64, size: u64, alignment: u32) -> Self {
        Self {
            thread,
            kind: Kind::Malloc,
            id,
            size,
            alignment,
        }
    }

    /// An allocation of `size` zeroed bytes.
    #[must_use]
    pub const fn calloc(thread: u32, id: u64, size: u64) -> Self {
        Self {
            thread,
            kind: Kind::Calloc,
            id,
            size,
            alignment: DEFAULT_ALIGNMENT,
        }
    }

    /// A change of the live object `id` to `size` bytes.
    #[must_use]
    pub const fn realloc(thread: u32, id: u64, size: u64) -> Self {
        Self {
            thread,
            kind: Kind::Realloc,
            id,
            size,
            alignment: DEFAULT_ALIGNMENT,
        }
    }

    /// The logarithm to base 2 of the alignment; 0 for `Free`.
    ///
    /// # Panics
    /// The alignment is not a power of two, as it is in every [`Trace`](crate::Trace).
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a logarithm of 32 bits is at most 31"
    )]
    pub const fn log2_alignment(&self) -> u8 {
        assert!(
            self.alignment.is_power_of_two(),
            "the alignment is not a power of two; take operations of a Trace, which has only such"
        );
        self.alignment.ilog2() as u8
    }

    /// The end of the live object `id`.
    #[must_use]
    pub const fn free(thread: u32, id: u64) -> Self {
        Self {
            thread,
            kind: Kind::Free,
            id,
            size: 0,
            alignment: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_have_logarithms() {
        assert_eq!(Operation::free(0, 7).log2_alignment(), 0);
        assert_eq!(Operation::malloc(0, 7, 8).log2_alignment(), 4);
        assert_eq!(Operation::aligned(0, 7, 8, 1 << 31).log2_alignment(), 31);
    }

    #[test]
    #[should_panic(expected = "the alignment is not a power of two")]
    fn no_alignment_has_no_logarithm() {
        let _ = Operation::aligned(0, 7, 8, 0).log2_alignment();
    }

    #[test]
    #[should_panic(expected = "the alignment is not a power of two")]
    fn an_alignment_between_two_powers_has_no_logarithm() {
        let _ = Operation::aligned(0, 7, 8, 24).log2_alignment();
    }
}
