//! `scatterheap stress`: tries a heap hard and verifies everything.

use super::heap::{self, HeapArguments};
use super::live::{Live, LiveArguments};
use super::output::{conclude, count, note, occupancy_table, rate, table, threads};
use super::progress::Progress;
use super::report::ReportArguments;
use super::session::{DeviceDescription, Document, Judged};
use super::sizes::SizeArguments;
use super::{Common, workload_parser};
use anyhow::{Result, bail};
use scatterheap::size::Bytes;
use scatterheap::stress::{self, Report, Settings, Workload};
use scatterheap::{Hardening, Heap};
use serde::Serialize;

const HELP: &str = "\
Workloads:
  uniform     all threads allocate the same size, then all free
  mixed       all threads allocate different sizes, then all free
  churn       every thread holds a few blocks and replaces them again and again
  cross-warp  blocks are allocated by one thread and freed by another, far away
  divergent   lanes of a warp do different things at once
  grow        blocks double by realloc
  exhaust     all threads allocate until nothing is left, then give everything back, twice
  misuse      every thread passes each kind of bad pointer once, among good calls

Examples:
  scatterheap stress
  scatterheap stress mixed churn --device cuda:0 --heap 16GiB --threads 1048576
  scatterheap stress uniform --least 256 --most 256 --json
  scatterheap stress --report heap.html

NULL is not a failure: it is what malloc answers when nothing is left. The exit code is 1 if a \
block was corrupt, overlapped, misplaced or leaked, or if an invariant of the heap did not hold.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// What to run [default: all workloads]
    #[arg(value_name = "WORKLOAD", value_parser = workload_parser())]
    workloads: Vec<Workload>,
    /// Threads [default: 1048576 on a GPU, 4096 on the CPU]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// How often each thread repeats its work [default: by workload]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    #[command(flatten)]
    sizes: SizeArguments,
    #[command(flatten)]
    live: LiveArguments,
    #[command(flatten)]
    report: ReportArguments,
    #[command(flatten)]
    how: HeapArguments,
}

#[derive(Serialize)]
struct Content<'a> {
    passed: bool,
    reports: Vec<Judged<'a, Report>>,
}

impl Arguments {
    fn workloads(&self) -> Vec<Workload> {
        if !self.workloads.is_empty() {
            return self.workloads.clone();
        }
        let all = Workload::ALL.into_iter();
        all.filter(|workload| !(self.leaves_misuse_out() && *workload == Workload::Misuse))
            .collect()
    }

    /// A heap that traps would end what is to be caught.
    fn leaves_misuse_out(&self) -> bool {
        self.workloads.is_empty() && self.how.modes().contains(Hardening::TRAP)
    }

    fn note_what_is_left_out(&self) {
        if self.leaves_misuse_out() {
            note("misuse: left out, as the mode trap ends the run at the first bad pointer");
        }
    }

    fn settings(&self, common: &Common, workload: Workload, heap: &Heap) -> Settings {
        let usual = Settings::for_workload(workload, heap);
        Settings {
            threads: self.threads.unwrap_or(usual.threads),
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: common.seed,
            moments: self.report.moments(),
            ..self.sizes.apply(workload, usual)
        }
    }
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    arguments.report.prepare()?;
    let device = common.open_device()?;
    let heap = arguments.how.build(common, &device, false)?;
    let first = Bytes(heap.capacity());
    arguments.note_what_is_left_out();
    let live = arguments
        .live
        .watch(std::slice::from_ref(&heap), "stress")?;
    // A device that is lost does not tell later.
    let described = DeviceDescription::new(&device)?;
    let mut reports = Vec::new();
    let ended = run_all(common, arguments, &heap, &live, &mut reports);
    if reports.is_empty() {
        return ended;
    }
    let told = arguments.report.tell(
        common,
        || text(&heap, first, &reports),
        || {
            let content = Content::of(&reports, ended.is_ok());
            Ok(Document::on("stress", described, &heap, content))
        },
    );
    conclude(ended.and(told), judge(&reports))
}

/// Runs one workload after the other. The reports are of those that were finished.
fn run_all(
    common: &Common,
    arguments: &Arguments,
    heap: &Heap,
    live: &Live,
    reports: &mut Vec<Report>,
) -> Result<()> {
    for workload in arguments.workloads() {
        let settings = arguments.settings(common, workload, heap);
        let progress = Progress::new(common, workload.name());
        live.say(|| workload.to_string());
        let mut show = |done, total| {
            live.say(|| format!("{workload}, {done} of {total}"));
            progress.show(done, total);
        };
        reports.push(stress::run(heap, workload, &settings, &mut show)?);
        heap.reset()?;
    }
    Ok(())
}

impl<'a> Content<'a> {
    /// A run that ended early has not passed, whatever was finished.
    fn of(reports: &'a [Report], is_whole: bool) -> Self {
        let judge = |report: &'a Report| Judged {
            passed: report.passed(),
            report,
        };
        Self {
            passed: is_whole && reports.iter().all(Report::passed),
            reports: reports.iter().map(judge).collect(),
        }
    }
}

/// An error if a workload found something wrong.
fn judge(reports: &[Report]) -> Result<()> {
    let failed: Vec<_> = reports.iter().filter(|report| !report.passed()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    for report in &failed {
        for fault in faults(report) {
            note(&format!("{}: {fault}", report.workload));
        }
    }
    let names: Vec<_> = failed.iter().map(|report| report.workload.name()).collect();
    bail!(
        "{} of {} workloads found something wrong: {}",
        failed.len(),
        reports.len(),
        names.join(", ")
    )
}

/// What was found wrong beyond the counts in the table.
fn faults(report: &Report) -> Vec<String> {
    let mut faults = report.violations.clone();
    if report.operations == 0 {
        faults.push("no call gave or took a block, so nothing was tried".into());
    }
    for kind in report.misuses.iter() {
        let expected = report.expected(kind.kind);
        if kind.count != expected {
            faults.push(format!(
                "{} calls were refused as {}, and {} should have been: {kind}",
                count(kind.count),
                kind.kind.name(),
                count(expected)
            ));
        }
    }
    if !report.whole_heap_at_end {
        faults.push("at the end, one request could not take the whole heap".into());
    }
    faults
}

fn text(heap: &Heap, first: Bytes, reports: &[Report]) -> String {
    let (size, device) = (heap::size(heap, first), heap.device());
    let number = reports.first().map_or(0, |report| report.settings.threads);
    let threads = threads(number.into());
    let columns = [
        "workload",
        "bytes each",
        "operations",
        "speed",
        "NULL",
        "corrupt",
        "overlaps",
        "misplaced",
        "leaked",
        "result",
    ];
    let rows = reports.iter().map(|report| {
        let settings = &report.settings;
        [
            report.workload.to_string(),
            sizes_text(settings),
            count(report.operations),
            rate(report.operations_per_second),
            count(report.nulls),
            count(report.corrupt),
            count(report.overlaps),
            count(report.misaligned + report.out_of_bounds),
            count(report.leaked),
            if report.passed() { "ok" } else { "FAILED" }.to_owned(),
        ]
    });
    let results = table(columns, rows);
    let at_peak = occupancy_table(
        reports
            .iter()
            .map(|report| (report.workload.to_string(), &report.peak)),
    );
    let misuses = reports
        .iter()
        .filter(|report| !report.misuses.is_empty())
        .map(|report| format!("\nrefused in {}:\n{}\n", report.workload, report.misuses))
        .collect::<Vec<_>>()
        .concat();
    format!("heap of {size} on {device}; {threads}\n\n{results}\n\n{at_peak}\n{misuses}")
}

fn sizes_text(settings: &Settings) -> String {
    if settings.least == settings.most {
        count(settings.least)
    } else {
        format!("{}–{}", count(settings.least), count(settings.most))
    }
}
