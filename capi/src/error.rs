//! What can go wrong, each in one line: what was asked, what was found, what to do.

use scatterheap_host::resource;

/// A result with an error of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the interface, or of a resource behind it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A resource refused a call.
    #[error(transparent)]
    Resource(#[from] resource::Error),
    /// A composition that means nothing.
    #[error(
        "`{0}` composes no resource: {1}; write adaptors and a resource at the end, such as `statistics,limit=8GiB,caching`"
    )]
    BadComposition(String, String),
    /// A handle that is NULL.
    #[error("a {0} of NULL was given: create one, and see whether that succeeded")]
    NullHandle(&'static str),
    /// A handle whose resource or heap was destroyed.
    #[error("a {0} was used after it was destroyed: destroy it after its last use")]
    Destroyed(&'static str),
    /// Text that says how no heap can be.
    #[error(
        "`{0}` is how no heap can be: {1}; write a size and what else there is to say, such as `1GiB,max=16GiB`"
    )]
    BadHeap(String, String),
    /// A snapshot was not written, or not understood.
    #[error(transparent)]
    Snapshot(#[from] scatterheap_host::SnapshotError),
    /// A heap whose metadata break a rule.
    #[error(
        "the heap is damaged: {0}; a stray write did that, or freeing what was in use: run with `harden=all` to find it"
    )]
    Damaged(String),
    /// The default resource of a device is for ever.
    #[error(
        "a device's default resource was to be destroyed, but it lives as long as the process: trim it, or create one of your own"
    )]
    DestroyedDefault,
    /// A default resource that is made of something else.
    #[error(
        "default resources of `{0}` were asked for, but device {1} has one of something else: configure them before the first use"
    )]
    InUse(String, usize),
    /// A pointer that must not be NULL.
    #[error("{0} is NULL: give the address of one")]
    NullPointer(&'static str),
    /// Text that is not UTF-8.
    #[error("{0} is no UTF-8 text: use ASCII, or encode it")]
    NotText(&'static str),
    /// The stream that is another one in each thread.
    #[error(
        "the per-thread default stream was given, which is another one in each thread: use a stream of your own, or the default stream (0)"
    )]
    PerThreadStream,
    /// A device number that `PyTorch` cannot mean.
    #[error("device {0} was given, but devices are numbered from 0 to {1}: use one of these")]
    BadDevice(i32, usize),
    /// Only arenas are emptied at once.
    #[error(
        "a reset of `{0}` was asked for, but only an arena without adaptors can be reset: deallocate its blocks"
    )]
    NotAnArena(String),
    /// A block that a reset took back.
    #[error(
        "a block was used that a reset of its arena had taken back: use blocks before the reset, and allocate others after it"
    )]
    Reset,
    /// A file for a trace.
    #[error("a trace was to be written to {0}, which cannot be made ({1}): name another file")]
    TraceFile(String, std::io::Error),
    /// A panic: a defect of this library.
    #[error("scatterheap failed ({0}), which is its own mistake: please report it")]
    Panic(String),
}

impl From<scatterheap_host::Error> for Error {
    fn from(error: scatterheap_host::Error) -> Self {
        Self::Resource(error.into())
    }
}

impl Error {
    /// Whether there would be memory if blocks were freed.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Resource(error) if error.is_out_of_memory())
    }
}
