//! What can go wrong, each in one line.

use crate::case::Case;
use scatterheap_host::size::Bytes;
use std::path::PathBuf;

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device or scatterheap's heap failed.
    #[error(transparent)]
    Host(#[from] scatterheap_host::Error),
    /// A plug-in could not be measured.
    #[error(transparent)]
    Peer(#[from] crate::peer::Error),
    /// An allocator that is not one of ours failed.
    #[error("{allocator} failed to {action}: {message}")]
    Allocator {
        /// Its name.
        allocator: String,
        /// What it was asked to do.
        action: &'static str,
        /// What it said.
        message: String,
    },
    /// A new process could not make a heap.
    #[error("a process that was to make its first heap failed ({0})")]
    FirstHeap(String),
    /// A memory resource of the host failed.
    #[error(transparent)]
    Resource(#[from] scatterheap_host::resource::Error),
    /// A scenario of memory resources cannot be read or written.
    #[error("{0}")]
    Scenario(String),
    /// A resource that did too little for a figure.
    #[error("{pairs} pairs in {} s are too few for a figure: give it more by --seconds", limit.as_secs_f64())]
    TooSlow {
        /// Pairs of all threads in the timed rounds.
        pairs: u64,
        /// The time that these may take.
        limit: std::time::Duration,
    },
    /// An allocator gave blocks that cannot be measured.
    #[error("{0}")]
    Unfit(String),
    /// A name that is no test's.
    #[error("`{asked}` is no test: choose from {known}")]
    NoSuchTest {
        /// What was asked for.
        asked: String,
        /// The names that there are.
        known: String,
    },
    /// A case that the kernels of its test cannot do.
    #[error("`{case}` cannot be measured: {advice}")]
    BadCase {
        /// The case.
        case: Case,
        /// What would do.
        advice: &'static str,
    },
    /// An allocator of another device, or of another handle of it.
    #[error(
        "`{allocator}` allocates on {its}, but {measured} is measured: make it of that device handle, or of a clone of it"
    )]
    OtherDevice {
        /// Its name.
        allocator: String,
        /// The device that it allocates on.
        its: String,
        /// The device that is measured.
        measured: String,
    },
    /// A heap in which no case fits.
    #[error("a heap of {} was asked for, but the benchmark needs {} at least: give it more by --heap", Bytes(*.asked), Bytes(*.least))]
    HeapTooSmall {
        /// Bytes asked for.
        asked: u64,
        /// Bytes that would do.
        least: u64,
    },
    /// No case has a size asked for.
    #[error("no case of these tests has size {asked}: choose among {known}")]
    NoSuchSize {
        /// Bytes asked for.
        asked: u64,
        /// Sizes of the cases in bytes, with commas between.
        known: String,
    },
    /// No kernel of the benchmark runs on the device.
    #[error(
        "the benchmark has no kernels for {0}: build it with the feature `cuda` for a GPU of compute capability 7.5 or newer, or use the device `cpu`"
    )]
    NoKernels(String),
    /// A file could not be written or read.
    #[error("cannot {action} {}: {message}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
}

impl Error {
    /// An allocator was asked to work before it had a heap.
    pub(crate) fn no_heap(allocator: &str) -> Self {
        Self::Unfit(format!(
            "{allocator} was asked for blocks before it had a heap"
        ))
    }
}
