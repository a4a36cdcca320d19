//! What can go wrong, each in one line: what was asked, what was found, what to do.

use super::DevicePointer;
use crate::size::Bytes;

/// A result with an error of a resource.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a memory resource.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A block of no bytes.
    #[error(
        "a block of 0 bytes was given or asked for, but a block has at least one: leave the call out"
    )]
    ZeroBytes,
    /// More than the resource ever hands out at once.
    #[error("a block of {} was asked for, but {resource} hands out {} at most: ask for less, or use another resource", Bytes(*.asked), Bytes(*.most))]
    TooLarge {
        /// The resource.
        resource: &'static str,
        /// Bytes asked for.
        asked: u64,
        /// The most bytes that there are for one block.
        most: u64,
    },
    /// An alignment that is no power of two.
    #[error(
        "an alignment of {0} bytes was asked for, but it must be a power of two: use 256, or the next power of two"
    )]
    BadAlignment(u64),
    /// An alignment that the resource does not have.
    #[error("an alignment of {} was asked for, but {resource} has {} at most: ask for that, or use another resource", Bytes(*.asked), Bytes(*.most))]
    AlignmentTooLarge {
        /// The resource.
        resource: &'static str,
        /// Alignment asked for, in bytes.
        asked: u64,
        /// The largest alignment, in bytes.
        most: u64,
    },
    /// Settings that make no sense.
    #[error("{asked} were asked for: {advice}")]
    BadSettings {
        /// What was asked.
        asked: String,
        /// What to do.
        advice: &'static str,
    },
    /// A setting whose value makes no sense.
    #[error("`{value}` was given for {setting}: {advice}")]
    BadSetting {
        /// Its name, or that of its variable.
        setting: String,
        /// What was given.
        value: String,
        /// What to do.
        advice: String,
    },
    /// A setting that there is not.
    #[error("{setting} was given, but there is no such setting: there are {known}")]
    UnknownSetting {
        /// The name that was given.
        setting: String,
        /// Those that there are.
        known: String,
    },
    /// A stream of another device.
    #[error(
        "memory on {resource} was used with a stream of {stream}: use a stream of the same device handle"
    )]
    WrongDevice {
        /// The resource's device.
        resource: String,
        /// The stream's device.
        stream: String,
    },
    /// The resource has no room for the block.
    #[error("{} were asked for, but {resource} has no room for that: free blocks, or give it more memory", Bytes(*.asked))]
    OutOfMemory {
        /// The resource.
        resource: &'static str,
        /// Bytes asked for.
        asked: u64,
    },
    /// More than a [`Limiting`](super::Limiting) adaptor lets through.
    #[error("{} were asked for, but {} of {} are in use: free blocks, or raise the limit", Bytes(*.asked), Bytes(*.used), Bytes(*.limit))]
    LimitReached {
        /// Bytes asked for.
        asked: u64,
        /// Bytes handed out.
        used: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A pointer that the resource did not hand out.
    #[error(
        "{0} was deallocated, but {1} did not hand it out: deallocate with the resource that allocated it"
    )]
    ForeignPointer(DevicePointer, &'static str),
    /// A pointer that was freed already.
    #[error("{0} was deallocated, but {1} has it back already: deallocate each block once")]
    DoubleFree(DevicePointer, &'static str),
    /// Another size or alignment than at the allocation.
    #[error("{pointer} was deallocated with {} aligned to {}, but allocated with {} aligned to {}: give the same", Bytes(.given.0), Bytes(.given.1), Bytes(.had.0), Bytes(.had.1))]
    WrongSize {
        /// The block.
        pointer: DevicePointer,
        /// Bytes and alignment that were given.
        given: (u64, u64),
        /// Bytes and alignment that it has.
        had: (u64, u64),
    },
    /// A place outside of a buffer.
    #[error(
        "{asked} elements from {first} on were asked for, but there are {length}: stay within them, or grow the buffer"
    )]
    OutOfBounds {
        /// First element.
        first: usize,
        /// Elements asked for.
        asked: usize,
        /// Elements that there are.
        length: usize,
    },
    /// A log could not be written.
    #[error("the log of allocations cannot be written ({0}): free space, or write it elsewhere")]
    Log(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] crate::Error),
}

impl Error {
    /// Whether the resource says of a block that it had handed out that it has it back: then it is gone, though whoever
    /// asked did not give it back.
    #[must_use]
    pub fn is_of_a_block_that_is_gone(&self) -> bool {
        matches!(self, Self::DoubleFree(..) | Self::ForeignPointer(..))
    }

    /// Whether there would be memory if blocks were freed.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(
            self,
            Self::OutOfMemory { .. }
                | Self::LimitReached { .. }
                | Self::Device(
                    crate::Error::OutOfMemory { .. } | crate::Error::OutOfDeviceMemory { .. }
                )
        )
    }
}
