//! What can be wrong with a trace. Every message says what was expected, what was found, where, and what to do.

use std::{fmt, io, path::PathBuf};

use crate::{
    operation::Kind,
    validate::{MAXIMUM_OPERATIONS, MAXIMUM_SIZE},
};

/// Where in a trace something was found. Both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// A line of a CSV file; its header is line 1.
    Line(u64),
    /// A record of a binary file, of a raw recording, or an operation of a list in memory.
    Record(u64),
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(formatter, "line {number}"),
            Self::Record(number) => write!(formatter, "record {number}"),
        }
    }
}

/// Why a trace could not be read, written or split.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be opened.
    #[error("cannot open {}: {source}; check that the path is right and readable", path.display())]
    Open {
        /// The file that was asked for.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file could not be created or written.
    #[error("cannot write {}: {source}; check that its directory exists, is writable and has room", path.display())]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Reading failed part of the way.
    #[error("reading the trace failed: {0}; try again, or copy the file to a local disk")]
    Read(#[source] io::Error),
    /// Something is wrong inside a file.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<TraceError>,
    },
    /// The first bytes belong to no known format.
    #[error(
        "not a trace: a trace begins with \"SCTRACE1\" or with the line \"thread,operation,id,size,alignment\", \
         this begins with {found:?}; give a file that `cargo xtask record` wrote, or a CSV file with that header"
    )]
    Unrecognised {
        /// The first bytes, as text.
        found: String,
    },
    /// The file is not a recorder's raw file.
    #[error(
        "not a recording: a recording begins with \"SCRAWTR1\", this begins with {found:?}; \
         give the file that SCATTERHEAP_TRACE_FILE named while the program ran"
    )]
    NotARecording {
        /// The first bytes, as text.
        found: String,
    },
    /// The file ends too early.
    #[error(
        "the trace ends in the middle of {location}; the file was cut short: copy or record it again"
    )]
    Truncated {
        /// Where the end was found.
        location: Location,
    },
    /// A CSV line cannot be understood.
    #[error(
        "line {line}: {problem}; expected five fields, such as \"0,malloc,17,64,16\" or \"0,free,17,,\": correct the line"
    )]
    BadLine {
        /// The line's number; the header is line 1.
        line: u64,
        /// What the parser said.
        problem: String,
    },
    /// A CSV file is longer than any trace.
    #[error(
        "the text has more than {limit} bytes, and no trace in CSV needs as many; record a shorter run, or remove blanks"
    )]
    TooManyBytes {
        /// The most bytes that a file may have.
        limit: u64,
    },
    /// A binary block cannot be understood.
    #[error(
        "the block that begins at {location} is damaged: {problem}; copy or record the file again"
    )]
    BadBlock {
        /// The first record of the block.
        location: Location,
        /// What was found.
        problem: String,
    },
    /// There are more operations than a trace may have.
    #[error(
        "{location}: a trace has at most {MAXIMUM_OPERATIONS} operations, this has more; record a shorter run"
    )]
    TooManyOperations {
        /// The first operation too many.
        location: Location,
    },
    /// A `free` or `realloc` of an object that is not live.
    #[error(
        "{location}: {} of object {id}, which is not live; put its malloc before it, or remove the line", kind.name()
    )]
    UnknownId {
        /// Where it was found.
        location: Location,
        /// What was asked for.
        kind: Kind,
        /// The object.
        id: u64,
    },
    /// An allocation of an object that is live already.
    #[error(
        "{location}: {} of object {id}, which is live since {since}; free it first, or use another id", kind.name()
    )]
    LiveId {
        /// Where it was found.
        location: Location,
        /// What was asked for.
        kind: Kind,
        /// The object.
        id: u64,
        /// Where the object was allocated.
        since: Location,
    },
    /// A size of zero, or one that no memory has.
    #[error(
        "{location}: {} of {size} bytes; a size is between 1 and {MAXIMUM_SIZE} bytes: correct the size", kind.name()
    )]
    BadSize {
        /// Where it was found.
        location: Location,
        /// What was asked for.
        kind: Kind,
        /// The size in bytes.
        size: u64,
    },
    /// An alignment that is not a power of two.
    #[error(
        "{location}: alignment {alignment}; an alignment is a power of two, such as 16: correct the alignment"
    )]
    BadAlignment {
        /// Where it was found.
        location: Location,
        /// The alignment in bytes.
        alignment: u32,
    },
    /// A split over no lanes, in no windows, or into more pieces than can be numbered.
    #[error(
        "cannot split a trace over {lanes} lanes in {windows} windows; \
         both must be at least 1 and their product at most {}: ask for fewer",
        crate::lanes::MAXIMUM_PIECES
    )]
    BadSplit {
        /// The lanes that were asked for.
        lanes: u32,
        /// The windows that were asked for.
        windows: u32,
    },
}
