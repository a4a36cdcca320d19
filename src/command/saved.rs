//! Snapshots in files, for subcommands that look at a heap: how they are read and described.

use super::Common;
use super::output::one_line;
use super::session::HeapDescription;
use anyhow::{Result, ensure};
use scatterheap::snapshot::Origin;
use scatterheap::{Hardening, Selector, Snapshot};
use serde::Serialize;
use std::path::Path;

impl Common {
    /// Reads a snapshot's file; no heap is made then.
    pub fn load_snapshot(&self, path: &Path) -> Result<Snapshot> {
        ensure!(
            self.heap.is_none() && self.device == Selector::Auto,
            "a device or a heap was asked for, and the snapshot {}: leave out --device and --heap, or the file",
            path.display()
        );
        Ok(Snapshot::load(path)?)
    }
}

/// When and where a snapshot was taken, for people.
pub fn describe(origin: &Origin) -> String {
    let Origin {
        version,
        device,
        device_name,
        taken_at,
    } = origin;
    let seconds = i64::try_from(*taken_at).unwrap_or(i64::MAX);
    let when = match jiff::Timestamp::from_second(seconds) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => format!("{taken_at} s after 1970"),
    };
    // The file may be anybody's.
    one_line(&format!(
        "{device} ({device_name}), {when}, scatterheap {version}"
    ))
}

/// The document about a snapshot that a subcommand prints with `--json`; the same whether the
/// snapshot is from a file or of a heap made for it.
#[derive(Debug, Serialize)]
pub struct SnapshotDocument<'a, T> {
    command: &'static str,
    version: &'static str,
    origin: &'a Origin,
    heap: HeapDescription,
    #[serde(flatten)]
    content: T,
}

impl<'a, T: Serialize> SnapshotDocument<'a, T> {
    /// What `command` found out about a snapshot.
    pub fn new(command: &'static str, snapshot: &'a Snapshot, content: T) -> Self {
        Self {
            command,
            version: env!("CARGO_PKG_VERSION"),
            origin: snapshot.origin(),
            heap: HeapDescription::new(
                snapshot.layout(),
                snapshot.capacity(),
                Hardening::of_flags(snapshot.flags()),
            ),
            content,
        }
    }
}
