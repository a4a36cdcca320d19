//! A heap read back: what it held at a moment, and where and when that was.
//!
//! [`Heap::snapshot`](crate::Heap::snapshot) makes one, which can be [saved](Snapshot::save), and
//! [loaded](Snapshot::load) on another machine and another day.

mod error;
mod format;

pub use error::SnapshotError;
pub use format::VERSION;

use crate::device::Device;
use core::ops::Deref;
use heap_core::inspect;
use scatterheap_trace::file;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

/// Where and when a snapshot was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Version of scatterheap that took it.
    pub version: String,
    /// How the device is selected, as `cuda:0`.
    pub device: String,
    /// What the device is, for people.
    pub device_name: String,
    /// When it was taken, in seconds since 1970-01-01 UTC.
    pub taken_at: u64,
}

impl Origin {
    fn here(device: &Device) -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            device: device.label(),
            device_name: device.name(),
            // A clock before 1970 is wrong anyway.
            taken_at: since_1970.map_or(0, |duration| duration.as_secs()),
        }
    }
}

/// What a heap held at a moment; reads like [`inspect::Snapshot`], which it contains.
#[derive(Clone, Debug)]
pub struct Snapshot {
    content: inspect::Snapshot,
    origin: Origin,
}

impl Deref for Snapshot {
    type Target = inspect::Snapshot;

    fn deref(&self) -> &inspect::Snapshot {
        &self.content
    }
}

impl Snapshot {
    /// A snapshot whose metadata were copied by other means, as from a heap that another program
    /// made.
    #[must_use]
    pub fn from_parts(content: inspect::Snapshot, origin: Origin) -> Self {
        Self { content, origin }
    }

    pub(crate) fn new(content: inspect::Snapshot, device: &Device) -> Self {
        Self {
            content,
            origin: Origin::here(device),
        }
    }

    /// Where and when it was taken.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Writes it to a file, [replaced as a whole](file::replace): if that fails, what was at `path` before is still there.
    ///
    /// # Errors
    ///
    /// If the directory does not take the file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let path = path.as_ref();
        self.to_bytes()
            .and_then(|bytes| file::replace(path, |file| file.write_all(&bytes)))
            .map_err(|source| SnapshotError::Write {
                path: path.to_owned(),
                source,
            })
    }

    /// Reads a file that [`save`](Self::save) wrote.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is anything else.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| SnapshotError::Open {
            path: path.to_owned(),
            source,
        })?;
        Self::read(file).map_err(|error| SnapshotError::InFile {
            path: path.to_owned(),
            source: Box::new(error),
        })
    }
}
