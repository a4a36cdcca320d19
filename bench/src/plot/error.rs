//! What can go wrong with plots and their tables.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no plot.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A table cannot be opened.
    #[error("cannot read {path} ({source}): give a CSV file that `scatterheap bench --output` wrote", path = path.display())]
    Read {
        /// The table.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is no table at all.
    #[error("cannot read {path}: {message}", path = path.display())]
    NoTable {
        /// The file.
        path: PathBuf,
        /// What it is instead, and what to do.
        message: String,
    },
    /// A line of a table is not what it should be.
    #[error("{path}, line {line}: {message}", path = path.display())]
    Line {
        /// The table.
        path: PathBuf,
        /// The line, from 1 on.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
    /// A file or directory cannot be written.
    #[error("cannot write {path} ({source}): choose another directory", path = path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The drawing library refuses.
    #[error("cannot draw a plot: {0}")]
    Draw(String),
}

impl Error {
    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "map_err gives it by value")]
    pub(super) fn draw(error: impl ToString) -> Self {
        Self::Draw(error.to_string())
    }
}
