//! Records of runs, a line of JSON each, that add up.

use anyhow::{Context, Result};
use scatterheap::soak::{Settings, Totals};
use scatterheap::{Device, Heap};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// A run.
#[derive(Debug, Deserialize, Serialize)]
pub struct Run {
    /// The commit of the program, if it is known, and a mark of what was changed since: other changes are another program.
    pub commit: Option<String>,
    /// How the device is selected, and what it is.
    pub device: String,
    /// When the run ended.
    pub ended: String,
    /// Heaps that were in use at once.
    pub heaps: usize,
    /// Bytes of each.
    pub heap_bytes: u64,
    /// Threads of a launch.
    pub threads: u32,
    /// The seed.
    pub seed: u64,
    /// What it counted.
    #[serde(flatten)]
    pub totals: Totals,
}

impl Run {
    pub fn new(device: &Device, heaps: &[Heap], settings: &Settings, totals: Totals) -> Self {
        Self {
            commit: commit(),
            device: device.to_string(),
            ended: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            heaps: heaps.len(),
            heap_bytes: heaps.first().map_or(0, Heap::capacity),
            threads: settings.threads,
            seed: settings.seed,
            totals,
        }
    }
}

fn commit() -> Option<String> {
    option_env!("SCATTERHEAP_COMMIT").map(str::to_owned)
}

/// The runs of this commit on this device.
pub fn read(file: Option<&Path>, device: &Device) -> Result<Vec<Run>> {
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let mut runs = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let run: Run = serde_json::from_str(line).with_context(|| {
            let (file, line) = (file.display(), index + 1);
            format!("{file} was to be a record of runs, but line {line} is none: remove it, or use another file")
        })?;
        if run.commit == commit() && run.device == device.to_string() {
            runs.push(run);
        }
    }
    Ok(runs)
}

/// Appends a run.
pub fn append(file: Option<&Path>, run: &Run) -> Result<()> {
    let Some(file) = file else {
        return Ok(());
    };
    let line = serde_json::to_string(run)? + "\n";
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut record| record.write_all(line.as_bytes()))
        .with_context(|| format!("cannot append to {}", file.display()))
}
