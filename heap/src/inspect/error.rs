//! Why bytes are no snapshot of a heap.

use crate::layout::LayoutError;
use core::fmt;
use std::error::Error;

/// Why [`Snapshot::new`](super::Snapshot::new) refused the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InspectError {
    /// Fewer bytes than the head of a heap has.
    NoHead {
        /// Bytes given.
        bytes: usize,
    },
    /// The bytes do not begin with a heap's head.
    NotAHeap,
    /// The head names a capacity that no heap can have.
    Capacity(LayoutError),
    /// This version of the allocator lays out a heap of that capacity differently.
    OtherLayout,
    /// The bytes are not as many as the heap's metadata.
    Length {
        /// Bytes that the metadata has.
        expected: u64,
        /// Bytes given.
        found: u64,
    },
    /// A field of the head, which never changes, is not what the allocator wrote.
    Head,
}

impl fmt::Display for InspectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHead { bytes } => write!(
                formatter,
                "{bytes} bytes are too few for the head of a heap; copy all of the metadata"
            ),
            Self::NotAHeap => formatter.write_str(
                "the bytes do not begin with a heap: the address is not that of the metadata, \
                 or its beginning was overwritten",
            ),
            Self::Capacity(LayoutError::TooSmall) => formatter
                .write_str("the head names a capacity below the smallest: it was overwritten"),
            Self::Capacity(LayoutError::TooLarge) => formatter
                .write_str("the head names a capacity above the largest: it was overwritten"),
            Self::OtherLayout => formatter.write_str(
                "the heap is laid out differently by this version of the allocator: read it \
                 with the version that made it",
            ),
            Self::Length { expected, found } => write!(
                formatter,
                "the heap's metadata has {expected} bytes, but {found} were given"
            ),
            Self::Head => formatter.write_str("the heap's head was overwritten"),
        }
    }
}

impl Error for InspectError {}
