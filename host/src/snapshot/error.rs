//! What can be wrong with a snapshot's file.

use heap_core::inspect::InspectError;
use std::io;
use std::path::PathBuf;

/// Why a snapshot could not be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file could not be opened.
    #[error("cannot open {}: {source}; check that the path is right and readable", path.display())]
    Open {
        /// The file that was asked for.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file could not be written.
    #[error("cannot write {}: {source}; check that its directory exists, is writable and has room", path.display())]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Something is wrong inside a file.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<SnapshotError>,
    },
    /// Reading failed part of the way.
    #[error("reading the snapshot failed: {0}; try again, or copy the file to a local disk")]
    Read(#[source] io::Error),
    /// The first bytes belong to something else.
    #[error(
        "not a snapshot: a snapshot begins with \"SCTRSNAP\", this begins with {found:?}; give a file that \
         `scatterheap snapshot` wrote"
    )]
    NotASnapshot {
        /// The first bytes, as text.
        found: String,
    },
    /// The file is of another version of the format.
    #[error(
        "the snapshot's format is version {found}, but this program reads version {}: read it with the scatterheap that \
         wrote it, or take it again",
        super::VERSION
    )]
    Version {
        /// Version found.
        found: u32,
    },
    /// The head's length is none that a head has.
    #[error(
        "the snapshot's head is to have {found} bytes, but heads are shorter: the file is damaged, copy or take it again"
    )]
    HeadLength {
        /// Length found.
        found: u32,
    },
    /// The file ends too early.
    #[error("the snapshot ends too early: the file was cut short, copy or take it again")]
    TooShort,
    /// The file goes on after its end.
    #[error(
        "the snapshot goes on after its end: the file is damaged or has something appended, copy or take it again"
    )]
    TooLong,
    /// The checksum is not that of the content.
    #[error("the snapshot's checksum is wrong: the file is damaged, copy or take it again")]
    Checksum,
    /// The head is not what it should be.
    #[error("the snapshot's head cannot be read ({0}): it was not written by scatterheap")]
    Head(#[source] serde_json::Error),
    /// This version lays out such a heap differently.
    #[error(
        "the snapshot is of a heap that this version of scatterheap lays out differently: read it with version {version}, \
         which took it"
    )]
    OtherLayout {
        /// Version that took it.
        version: String,
    },
    /// The metadata cannot be unpacked.
    #[error("the snapshot's metadata cannot be unpacked ({0}): it was not written by scatterheap")]
    Unpack(#[source] io::Error),
    /// The metadata are shorter or longer than the head says.
    #[error(
        "the snapshot's metadata are to be {expected} bytes, but are not: it was not written by scatterheap"
    )]
    MetadataLength {
        /// Length that the head says.
        expected: u64,
    },
    /// Head and metadata are of different heaps.
    #[error(
        "the snapshot's head is of another heap than its metadata: it was not written by scatterheap"
    )]
    Contradiction,
    /// The metadata are no heap's.
    #[error("the snapshot's metadata cannot be read: {0}")]
    Metadata(#[source] InspectError),
}
