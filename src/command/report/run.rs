//! What a page shows: the shape of the data in it, which the script reads.

use crate::command::machine::Machine;
use scatterheap::inspect::PageOccupancy;
use scatterheap::latency::CallLatency;
use scatterheap::timeline::Moment;
use scatterheap_bench::{Flaws, Row, plot};
use serde::{Deserialize, Serialize};

/// A section of the page.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Run {
    /// A heap that was used: by `stress` or `replay`.
    Heap(Box<HeapRun>),
    /// Allocators side by side.
    Bench(BenchRun),
}

/// Workloads on a heap.
#[derive(Debug, Serialize)]
pub struct HeapRun {
    /// The subcommand.
    pub command: String,
    /// What was run.
    pub about: String,
    pub machine: Machine,
    pub device: Device,
    pub heap: Heap,
    pub passed: bool,
    pub parts: Vec<Part>,
}

/// What the page says of the device.
#[derive(Debug, Serialize, Deserialize)]
pub struct Device {
    pub compute_capability: Option<String>,
    pub multiprocessors: u32,
    pub memory_total: u64,
}

/// What the page says of the heap's shape.
#[derive(Debug, Serialize, Deserialize)]
pub struct Heap {
    pub capacity: u64,
    pub largest_capacity: u64,
    pub page_bytes: u64,
    pub metadata_bytes: u64,
    pub classes: u32,
    pub largest_slot: u32,
    pub stripes: u32,
    pub hardening: String,
}

/// A workload.
#[derive(Debug, Serialize)]
pub struct Part {
    pub name: String,
    /// How large it was.
    pub about: String,
    pub passed: bool,
    pub operations: u64,
    /// Seconds of the launches, by the device's clock.
    pub seconds: f64,
    pub nulls: u64,
    /// Calls that the heap refused.
    pub refused: u64,
    /// What may have been wrong with blocks, and how many there were.
    pub errors: Vec<(&'static str, u64)>,
    /// What else was wrong, in words.
    pub faults: Vec<String>,
    pub peak: Peak,
    pub timeline: Vec<Moment>,
    pub latencies: Vec<CallLatency>,
}

/// The heap where it was fullest.
#[derive(Debug, Serialize, Deserialize)]
pub struct Peak {
    pub capacity: u64,
    pub page_bytes: u64,
    pub pages: PageOccupancy,
    pub used_bytes: u64,
    pub used_blocks: u64,
    pub largest_request: u64,
    pub external_fragmentation: f64,
}

/// Allocators that were measured side by side.
#[derive(Debug, Serialize)]
pub struct BenchRun {
    /// Where and when, or the files' names.
    pub sources: Vec<String>,
    /// In the order in which they are shown.
    pub allocators: Vec<Allocator>,
    pub rows: Vec<BenchRow>,
    /// Cases that could not be measured, in words.
    pub failures: Vec<String>,
}

/// An allocator by its name in tables.
#[derive(Debug, Serialize)]
pub struct Allocator {
    pub name: String,
    /// Its name for people.
    pub title: String,
}

/// A figure.
#[derive(Debug, Serialize)]
pub struct BenchRow {
    #[serde(flatten)]
    pub row: Row,
    /// What the floor took in the run that it is from.
    pub floor: Option<f64>,
    /// What is wrong with the case, if anything is.
    pub flaw: Option<&'static str>,
}

/// What was read of one file.
pub enum File {
    Heap(Box<HeapRun>),
    Bench(Measured),
}

/// Figures of the benchmark from one file.
pub struct Measured {
    pub source: String,
    pub rows: Vec<Row>,
    pub failures: Vec<String>,
}

/// The sections of a page: a run of a heap is one, all figures of the benchmark are another.
pub fn join(files: Vec<File>) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut measured = Vec::new();
    for file in files {
        match file {
            File::Heap(run) => runs.push(Run::Heap(run)),
            File::Bench(figures) => measured.push(figures),
        }
    }
    if !measured.is_empty() {
        runs.push(Run::Bench(BenchRun::new(measured)));
    }
    runs
}

impl BenchRun {
    fn new(measured: Vec<Measured>) -> Self {
        let (mut sources, mut tables, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for file in measured {
            sources.push(file.source);
            tables.push(file.rows);
            failures.extend(file.failures);
        }
        let joined = plot::merge(tables);
        let rows = &joined.rows;
        let mut names: Vec<&str> = rows.iter().map(|row| row.allocator.as_str()).collect();
        names.sort_by_key(|name| plot::rank(name));
        names.dedup();
        let allocators = names.into_iter().map(|name| Allocator {
            name: name.to_owned(),
            title: plot::title(name),
        });
        let flaws = Flaws::of(rows);
        let marked = rows.iter().map(|row| BenchRow {
            row: row.clone(),
            floor: joined.floor(row),
            flaw: flaws.of_case(row).map(scatterheap_bench::Flaw::words),
        });
        Self {
            sources,
            allocators: allocators.collect(),
            rows: marked.collect(),
            failures,
        }
    }
}
