//! Readings as files: `PROCESS-NUMBER.json`, replaced as a whole, so that nobody reads half of one.
//!
//! Beside it lies `PROCESS-NUMBER.lock`, which the process keeps locked. The system unlocks it when the process ends, however
//! that happens: who can lock it knows that the reading is of no heap any more, and removes both.

use super::Reading;
use crate::error::{Error, Result};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Of the next heap of this process that is published.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Where a heap's readings are published; removed when it is dropped.
pub(super) struct Publication {
    number: u32,
    reading: PathBuf,
    lock: PathBuf,
    /// Locked as long as it is open.
    _locked: File,
}

impl Publication {
    pub fn new(directory: &Path) -> Result<Self> {
        // Relaxed: the numbers only have to differ.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        let lock = directory.join(format!("{name}.lock"));
        // It has its name only when it is locked: else it would be taken for one that was left behind.
        let before = directory.join(format!(".{name}.lock"));
        let locked = File::create(&before)
            .and_then(|file| try_lock(&file).map(|_| file))
            .and_then(|file| fs::rename(&before, &lock).map(|()| file))
            .map_err(|error| refuse(directory, &error))?;
        Ok(Self {
            number,
            reading: directory.join(format!("{name}.json")),
            lock,
            _locked: locked,
        })
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn file(&self) -> &Path {
        &self.reading
    }

    pub fn publish(&self, reading: &Reading) -> Result<()> {
        let before = self.reading.with_extension("next");
        serde_json::to_vec(reading)
            .map_err(io::Error::from)
            .and_then(|text| fs::write(&before, text))
            .and_then(|()| fs::rename(&before, &self.reading))
            .map_err(|error| refuse(self.reading.parent().unwrap_or(&before), &error))
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        remove(&self.lock);
    }
}

fn refuse(directory: &Path, error: &io::Error) -> Error {
    Error::RunDirectory {
        path: directory.to_owned(),
        reason: error.to_string(),
    }
}

/// Removes all files of a heap, of which one is its lock.
fn remove(lock: &Path) {
    for extension in ["json", "next", "lock"] {
        // What is not there need not be removed, and else an error has nobody to go to.
        let _removed = fs::remove_file(lock.with_extension(extension));
    }
}

/// The last reading of each heap that is published in a directory now, by process and number. Files of processes
/// that live no more are removed.
///
/// # Errors
///
/// If the directory cannot be read. One that is not there has no readings.
pub fn published(directory: &Path) -> Result<Vec<Reading>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| refuse(directory, &error))?,
    };
    let mut readings = Vec::new();
    for entry in entries {
        let lock = entry.map_err(|error| refuse(directory, &error))?.path();
        let hidden = lock
            .file_stem()
            .is_some_and(|stem| stem.as_encoded_bytes().starts_with(b"."));
        if lock.extension() == Some(OsStr::new("lock")) && !hidden {
            readings.extend(last_of(&lock));
        }
    }
    readings.sort_by_key(|reading: &Reading| (reading.process, reading.number));
    Ok(readings)
}

/// The last reading of the heap with this lock. None if it ended meanwhile, was not looked at yet, or is of another
/// version that says other things.
fn last_of(lock: &Path) -> Option<Reading> {
    let file = File::open(lock).ok()?;
    if try_lock(&file).ok()? {
        remove(lock);
        return None;
    }
    let text = fs::read(lock.with_extension("json")).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Locks a file, if nobody has locked it.
#[cfg(unix)]
fn try_lock(file: &File) -> io::Result<bool> {
    use rustix::fs::{FlockOperation, flock};
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Where files have no such locks, they are taken for locked: what is left behind stays until it is removed.
#[cfg(not(unix))]
fn try_lock(_file: &File) -> io::Result<bool> {
    Ok(false)
}
