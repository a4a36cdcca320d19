//! Runs from files: what `stress`, `replay` and `bench` print with `--json`, and tables of the benchmark.

use super::run::{Device, File, Heap, HeapRun, Measured, Part, Peak};
use crate::command::machine::Machine;
use crate::command::output::{count, threads};
use anyhow::{Result, anyhow, bail};
use scatterheap::latency::CallLatency;
use scatterheap::size::Bytes;
use scatterheap::timeline::Moment;
use scatterheap_bench::{Case, Row, plot};
use scatterheap_trace::text;
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Reads a file.
pub fn read(path: &Path) -> Result<File> {
    let shown = path.display();
    if path.extension() == Some(OsStr::new("csv")) {
        return table(shown.to_string(), plot::read(path)?);
    }
    let text = fs::File::open(path).and_then(text::read);
    let text = text.map_err(|error| {
        anyhow!("cannot read {shown} ({error}): give what a run printed with --json")
    })?;
    if plot::is_table(&text) {
        return table(shown.to_string(), plot::read_from(text.as_bytes(), path)?);
    }
    let document = serde_json::from_str(&text).map_err(|error| {
        anyhow!("{shown} is no JSON and no table of the benchmark ({error}): give what a run printed with --json")
    })?;
    of(document).map_err(|error| anyhow!("{shown}: {error}"))
}

/// A table of the benchmark.
fn table(source: String, rows: Vec<Row>) -> Result<File> {
    if rows.is_empty() {
        bail!("{source} has no figures: give a table of a run that measured something");
    }
    Ok(File::Bench(Measured {
        source,
        rows,
        failures: Vec::new(),
    }))
}

/// Takes a document apart.
pub fn of(document: Value) -> Result<File> {
    let command = document.get("command").and_then(Value::as_str);
    let command = command.unwrap_or_default().to_owned();
    let cannot = |error: serde_json::Error| {
        anyhow!(
            "this is no document of `scatterheap {command}` of this version ({error}): run it again, with --json"
        )
    };
    match command.as_str() {
        "stress" | "replay" => serde_json::from_value::<HeapDocument>(document)
            .map_err(cannot)
            .and_then(HeapDocument::checked)
            .map(|document| File::Heap(Box::new(document.run()))),
        "bench" => serde_json::from_value::<BenchDocument>(document)
            .map_err(cannot)
            .and_then(BenchDocument::checked)
            .map(|document| File::Bench(document.measured())),
        "" => bail!("this is no document of scatterheap: give what a run printed with --json"),
        _ => bail!(
            "there is no page for `scatterheap {command}`: give a run of stress, replay or bench"
        ),
    }
}

/// Of `stress` or `replay`.
#[derive(Deserialize)]
struct HeapDocument {
    command: String,
    machine: Machine,
    device: Device,
    heap: Heap,
    passed: bool,
    trace: Option<TraceDocument>,
    reports: Vec<PartDocument>,
}

#[derive(Deserialize)]
struct TraceDocument {
    path: String,
    operations: u64,
    threads: u64,
    peak_live_blocks: u64,
    peak_live_bytes: u64,
}

/// Of a workload or of a replay: what either has not is left out.
#[derive(Deserialize)]
struct PartDocument {
    passed: bool,
    workload: Option<String>,
    threads: Option<u32>,
    rounds: Option<u32>,
    least: Option<u64>,
    most: Option<u64>,
    copies: Option<u32>,
    lanes: Option<u32>,
    windows: Option<u32>,
    operations: u64,
    seconds: f64,
    nulls: u64,
    corrupt: u64,
    overlaps: Option<u64>,
    misaligned: u64,
    out_of_bounds: u64,
    leaked: u64,
    misuses: Vec<MisusedDocument>,
    whole_heap_at_end: Option<bool>,
    violations: Vec<String>,
    peak: Peak,
    #[serde(default)]
    timeline: Vec<Moment>,
    #[serde(default)]
    latencies: Vec<CallLatency>,
}

#[derive(Deserialize)]
struct MisusedDocument {
    count: u64,
}

#[derive(Deserialize)]
struct BenchDocument {
    machine: Machine,
    rows: Vec<Row>,
    failures: Vec<FailureDocument>,
}

#[derive(Deserialize)]
struct FailureDocument {
    /// None: a plug-in that could not be measured any further.
    case: Option<Case>,
    allocator: String,
    reason: String,
}

impl HeapDocument {
    /// The document, if it tells of any run.
    fn checked(self) -> Result<Self> {
        if self.reports.is_empty() {
            bail!("it has no reports: give a run that did something");
        }
        Ok(self)
    }

    fn run(self) -> HeapRun {
        let about = match &self.trace {
            Some(trace) => trace.about(),
            None => String::new(),
        };
        HeapRun {
            about,
            command: self.command,
            machine: self.machine,
            device: self.device,
            heap: self.heap,
            passed: self.passed,
            parts: self.reports.into_iter().map(PartDocument::part).collect(),
        }
    }
}

impl TraceDocument {
    fn about(&self) -> String {
        format!(
            "{}: {} operations of {}, at peak {} blocks of {}",
            self.path,
            count(self.operations),
            threads(self.threads),
            count(self.peak_live_blocks),
            Bytes(self.peak_live_bytes)
        )
    }
}

impl PartDocument {
    fn part(self) -> Part {
        let (name, about) = (self.name(), self.about());
        let mut faults = self.violations;
        if self.whole_heap_at_end == Some(false) {
            faults.push("at the end, one request could not take the whole heap".into());
        }
        let mut errors = vec![
            ("corrupt", self.corrupt),
            (
                "misplaced",
                self.misaligned.saturating_add(self.out_of_bounds),
            ),
            ("leaked", self.leaked),
        ];
        if let Some(overlaps) = self.overlaps {
            errors.insert(1, ("overlapping", overlaps));
        }
        Part {
            name,
            about,
            passed: self.passed,
            operations: self.operations,
            seconds: self.seconds,
            nulls: self.nulls,
            refused: (self.misuses.iter()).fold(0, |sum: u64, kind| sum.saturating_add(kind.count)),
            errors,
            faults,
            peak: self.peak,
            timeline: self.timeline,
            latencies: self.latencies,
        }
    }

    fn name(&self) -> String {
        match (&self.workload, self.copies) {
            (Some(workload), _) => workload.clone(),
            (None, Some(1)) => "1 copy".into(),
            (None, copies) => format!("{} copies", count(copies.unwrap_or(0).into())),
        }
    }

    fn about(&self) -> String {
        let sizes = match (self.least, self.most) {
            (Some(least), Some(most)) if least != most => {
                Some(format!("{} to {} bytes", count(least), count(most)))
            }
            (Some(bytes), _) => Some(format!("{} bytes", count(bytes))),
            _ => None,
        };
        let numbers = [
            (self.threads, "threads"),
            (self.rounds, "rounds"),
            (self.lanes, "lanes to a copy"),
            (self.windows, "windows"),
        ];
        let numbers = numbers
            .into_iter()
            .filter_map(|(number, what)| Some(format!("{} {what}", count(number?.into()))));
        numbers.chain(sizes).collect::<Vec<_>>().join(", ")
    }
}

impl BenchDocument {
    /// The document, if anything was measured, or failed.
    fn checked(self) -> Result<Self> {
        if self.rows.is_empty() && self.failures.is_empty() {
            bail!("it has no figures: give a run that measured something");
        }
        Ok(self)
    }

    fn measured(self) -> Measured {
        let failures = self.failures.iter().map(|failure| {
            let FailureDocument {
                case,
                allocator,
                reason,
            } = failure;
            let allocator = plot::title(allocator);
            match case {
                Some(case) => format!("{allocator}, {case}: {reason}"),
                None => format!("{allocator}: {reason}"),
            }
        });
        Measured {
            source: self.machine.line(),
            failures: failures.collect(),
            rows: self.rows,
        }
    }
}
