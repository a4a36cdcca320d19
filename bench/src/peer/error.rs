//! What can go wrong with a plug-in as a whole, each in one line. What goes wrong in a case is an
//! event instead.

use std::path::PathBuf;

/// An error that ends the measurement of a plug-in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such file.
    #[error("plug-in {} was asked for, but cannot be read ({reason}): give the path of a shared library", .library.display())]
    NoSuchFile {
        /// Path as it was given.
        library: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The system's loader refuses the file.
    #[error("plug-in {} cannot be loaded ({reason}): build it for this machine, as a shared library with all that it needs", .library.display())]
    NotLoadable {
        /// Path of the plug-in.
        library: PathBuf,
        /// The loader's reason.
        reason: String,
    },
    /// Functions of the interface are missing.
    #[error("plug-in {} lacks {}: export all functions of scatterheap_peer.h with C linkage", .library.display(), .missing.join(", "))]
    MissingFunctions {
        /// Path of the plug-in.
        library: PathBuf,
        /// Names of the functions.
        missing: Vec<&'static str>,
    },
    /// `peer_name` gives no usable name.
    #[error("plug-in {} calls itself {name}: let peer_name give {advice}", .library.display())]
    BadName {
        /// Path of the plug-in.
        library: PathBuf,
        /// What it gave, in words or quoted.
        name: String,
        /// What it may give.
        advice: &'static str,
    },
    /// Two plug-ins have the same name.
    #[error("plug-ins {} and {} both call themselves `{name}`: give one, or build them with different names", .libraries[0].display(), .libraries[1].display())]
    SameName {
        /// The name.
        name: String,
        /// Their paths.
        libraries: [PathBuf; 2],
    },
    /// A function of the plug-in gave an error.
    #[error("{function} of `{name}` gave error {code}")]
    Function {
        /// Name of the plug-in.
        name: String,
        /// Name of the function.
        function: &'static str,
        /// What it gave.
        code: i32,
    },
    /// It ended, or was ended, before it began with a case.
    #[error("plug-in {} came to no case: it {reason}: mend it, or leave it out", .library.display())]
    EndedEarly {
        /// Path of the plug-in.
        library: PathBuf,
        /// How it ended.
        reason: String,
    },
    /// The worker process says why it cannot work.
    #[error("{0}")]
    Refused(String),
    /// The system does not let processes work as they must.
    #[error("plug-ins run in processes of their own, but the system refuses to {action}: {reason}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        reason: String,
    },
    /// A worker does not end though it was killed.
    #[error(
        "process {process} of a plug-in was killed, but does not end: the driver may hold it; restart the machine if nothing else helps"
    )]
    NotKillable {
        /// Its number.
        process: u32,
    },
    /// The worker was started by something else than this library.
    #[error(
        "a worker for plug-ins was started by hand ({0}): use `scatterheap bench --peer LIBRARY`, which starts it"
    )]
    NotAWorker(String),
}

impl Error {
    /// Wraps an error of the system.
    pub(super) fn system(action: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::System {
            action,
            reason: error.to_string(),
        }
    }
}
