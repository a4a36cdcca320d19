//! What is published of a heap: a JSON document.

use super::look::Look;
use super::publication::Publication;
use crate::heap::Heap;
use crate::timeline::HeapState;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant, SystemTime};

/// What a heap held at about one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Version of scatterheap that took it.
    pub version: String,
    /// The process.
    pub process: u32,
    /// Number of the heap in its process, from 1.
    pub number: u32,
    /// What people know the heap by.
    pub name: String,
    /// What is done with it, as far as that was said.
    pub doing: String,
    /// How the device is selected, as `cuda:0`.
    pub device: String,
    /// What the device is, for people.
    pub device_name: String,
    /// When it was taken, in seconds since 1970-01-01 UTC.
    pub taken_at: f64,
    /// Seconds that the heap has been watched for.
    pub watched: f64,
    /// Seconds between two readings at present.
    pub period: f64,
    /// Seconds that the copy of the metadata took.
    pub copying: f64,
    /// Bytes that can be allocated once the heap has grown as far as it may.
    pub largest_capacity: u64,
    /// Calls that gave or took a block so far, where the program counts them: as threads end.
    pub operations: Option<u64>,
    /// Calls that were refused as misuse so far.
    pub misuses: u64,
    /// What the heap held.
    #[serde(flatten)]
    pub state: HeapState,
}

impl Reading {
    pub(super) fn new(origin: &Origin, doing: String, period: Duration, look: &Look) -> Self {
        let occupancy = look.glimpse.occupancy();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            number: origin.number,
            name: origin.name.clone(),
            doing,
            device: origin.device.clone(),
            device_name: origin.device_name.clone(),
            taken_at: seconds_since_1970(),
            watched: origin.begin.elapsed().as_secs_f64(),
            period: period.as_secs_f64(),
            copying: look.copying.as_secs_f64(),
            largest_capacity: occupancy.largest_capacity,
            operations: look.operations,
            misuses: occupancy.misuses.total(),
            state: HeapState::new(&occupancy, &look.glimpse.page_map()),
        }
    }

    /// Seconds since it was taken, by this machine's clock.
    #[must_use]
    pub fn age(&self) -> f64 {
        (seconds_since_1970() - self.taken_at).max(0.0)
    }
}

fn seconds_since_1970() -> f64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before 1970 is wrong anyway.
    since_1970.map_or(0.0, |duration| duration.as_secs_f64())
}

/// What is the same in all readings of a heap.
pub(super) struct Origin {
    number: u32,
    name: String,
    device: String,
    device_name: String,
    /// Threads of the CPU, if that is the device.
    threads: Option<u32>,
    begin: Instant,
}

impl Origin {
    pub fn new(heap: &Heap, name: &str, publication: &Publication) -> Self {
        let device = heap.device();
        Self {
            number: publication.number(),
            name: name.to_owned(),
            device: device.label(),
            device_name: device.name(),
            threads: (!device.is_gpu()).then(|| device.multiprocessors()),
            begin: Instant::now(),
        }
    }

    /// Threads of the CPU, if that is the device.
    pub fn threads(&self) -> Option<u32> {
        self.threads
    }
}
