//! Records of runs, a line of JSON each, that add up.

use anyhow::{Context, Result, anyhow, bail};
use scatterheap::soak::{Settings, Totals};
use scatterheap::{Device, Heap};
use scatterheap_trace::file;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
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
    // What never ends would be read until the memory is gone.
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        bail!(
            "{} was to be a record of runs, but is no regular file: use another",
            file.display()
        );
    }
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let mut runs = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let run = serde_json::from_str(line).map_err(|error| anyhow!(reason(&error)));
        let run: Run = run.with_context(|| {
            let (file, line) = (file.display(), index + 1);
            format!("{file} was to be a record of runs, but line {line} is none: remove it, or use another file")
        })?;
        if !(run.totals.seconds.is_finite() && run.totals.seconds >= 0.0) {
            bail!(
                "{} was to be a record of runs, but line {} says that a run took {} seconds: remove it, or use another file",
                file.display(),
                index + 1,
                run.totals.seconds
            );
        }
        if run.commit == commit() && run.device == device.to_string() {
            runs.push(run);
        }
    }
    Ok(runs)
}

/// What is wrong with a line, without its place, which would be that in the line alone.
fn reason(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// Finds out before a run whether it can be recorded; nothing is left of that.
pub fn try_out(file: Option<&Path>) -> Result<()> {
    let Some(path) = file else {
        return Ok(());
    };
    let opened = match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => file::try_out(path),
        opened => opened.map(drop),
    };
    opened.map_err(|error| refusal(path, &error))
}

/// Appends a run.
pub fn append(file: Option<&Path>, run: &Run) -> Result<()> {
    let Some(file) = file else {
        return Ok(());
    };
    let line = serde_json::to_string(run)? + "\n";
    append_line(file, &line).map_err(|error| refusal(file, &error))
}

fn append_line(file: &Path, line: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut record = options.create(true).read(true).append(true).open(file)?;
    let length = record.metadata()?.len();
    let before = if is_unended(&mut record)? { "\n" } else { "" };
    let written = record.write_all(format!("{before}{line}").as_bytes());
    // Half a line would make the whole record unreadable. Not if another program has added one meanwhile.
    let most = length + (before.len() + line.len()) as u64;
    let is_ours = || record.metadata().is_ok_and(|found| found.len() <= most);
    if written.is_err() && is_ours() {
        let _cut = record.set_len(length);
    }
    written
}

/// Whether the last line has no end, as editors leave it.
fn is_unended(record: &mut File) -> io::Result<bool> {
    if record.metadata()?.len() == 0 {
        return Ok(false);
    }
    record.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    record.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

fn refusal(file: &Path, error: &io::Error) -> anyhow::Error {
    let file = file.display();
    anyhow!("cannot append to {file} ({error}): choose another file for --record")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pairs: u64) -> Run {
        Run {
            commit: commit(),
            device: Device::cpu().to_string(),
            ended: String::new(),
            heaps: 1,
            heap_bytes: 1 << 20,
            threads: 1,
            seed: 1,
            totals: Totals {
                pairs,
                ..Totals::default()
            },
        }
    }

    fn pairs(file: &Path) -> Result<Vec<u64>> {
        let runs = read(Some(file), &Device::cpu())?;
        Ok(runs.iter().map(|run| run.totals.pairs).collect())
    }

    #[test]
    fn a_record_that_was_edited_is_gone_on_with() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("record");
        try_out(Some(&file)).expect("writable");
        assert!(!file.exists());
        append(Some(&file), &run(1)).expect("writable");
        let text = fs::read_to_string(&file).expect("readable");
        fs::write(&file, format!("\n{}", text.trim_end())).expect("writable");
        append(Some(&file), &run(2)).expect("writable");
        append(Some(&file), &run(3)).expect("writable");
        assert_eq!(pairs(&file).expect("a record"), [1, 2, 3]);
        let text = fs::read_to_string(&file).expect("readable");
        assert_eq!(text.lines().count(), 4, "{text}");
    }

    #[test]
    fn a_line_that_is_no_run_is_told_by_its_place_in_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("record");
        fs::write(&file, "\n{\"ended\": 1}\n").expect("writable");
        let error = format!("{:#}", pairs(&file).expect_err("no run"));
        assert!(error.contains("but line 2 is none"), "{error}");
        assert!(error.contains(": invalid type"), "{error}");
        assert!(!error.contains("line 1"), "{error}");
    }

    #[test]
    fn a_run_that_took_less_than_no_time_is_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("record");
        let mut odd = run(1);
        odd.totals.seconds = -5.0;
        append(Some(&file), &odd).expect("writable");
        let error = format!("{:#}", pairs(&file).expect_err("no run"));
        assert!(
            error.contains("line 1 says that a run took -5 seconds"),
            "{error}"
        );
    }
}
