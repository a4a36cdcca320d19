//! `scatterheap replay`: a real program's allocations, many copies at once.

use super::Common;
use super::heap::{self, HeapArguments};
use super::live::LiveArguments;
use super::output::{conclude, count, note, occupancy_table, rate, table, threads};
use super::progress::Progress;
use super::report::ReportArguments;
use super::session::{DeviceDescription, Document, Judged};
use anyhow::{Result, bail};
use scatterheap::Heap;
use scatterheap::replay::{self, Report, Settings};
use scatterheap::size::Bytes;
use scatterheap_trace::{Summary, Trace};
use serde::Serialize;
use std::path::{Path, PathBuf};

const HELP: &str = "\
A trace is a CSV file with the columns thread,operation,id,size,alignment, or the compact form that \
`cargo xtask record -- PROGRAM ARGS` writes. Every copy is spread over the lanes of a warp.

Examples:
  scatterheap replay traces/sqlite3.sctrace
  scatterheap replay traces/sqlite3.sctrace --device cuda:0 --heap 16GiB --copies 2000
  scatterheap replay traces/sqlite3.sctrace --report heap.html

The exit code is 1 if a block was corrupt, misplaced or leaked, or if an invariant of the heap did \
not hold.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// File of the trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Copies at once [default: as many as a quarter of the heap holds, within reason]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    copies: Option<u32>,
    /// Lanes that each copy is spread over
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = Settings::default().lanes,
        value_parser = clap::value_parser!(u32).range(1..=32)
    )]
    lanes: u32,
    /// Launches that the trace is cut into, so that lanes stay in step
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = Settings::default().windows,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    windows: u32,
    /// Replay a second time, with a clock around each call, to know how long single calls take
    /// [default: with --report]
    #[arg(long)]
    latencies: bool,
    #[command(flatten)]
    live: LiveArguments,
    #[command(flatten)]
    report: ReportArguments,
    #[command(flatten)]
    how: HeapArguments,
}

/// Figures of the trace, as it is in the file.
#[derive(Serialize)]
struct TraceDescription {
    path: String,
    operations: u64,
    mallocs: u64,
    reallocs: u64,
    frees: u64,
    never_freed: u64,
    threads: u64,
    peak_live_blocks: u64,
    peak_live_bytes: u64,
}

impl TraceDescription {
    fn new(path: &Path, summary: &Summary) -> Self {
        Self {
            // Names need not be UTF-8, as JSON is.
            path: path.display().to_string(),
            operations: summary.operations,
            mallocs: summary.mallocs,
            reallocs: summary.reallocs,
            frees: summary.frees,
            never_freed: summary.never_freed,
            threads: summary.threads,
            peak_live_blocks: summary.peak_live_blocks,
            peak_live_bytes: summary.peak_live_bytes,
        }
    }
}

#[derive(Serialize)]
struct Content<'a> {
    passed: bool,
    trace: &'a TraceDescription,
    reports: [Judged<'a, Report>; 1],
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let inputs = std::slice::from_ref(&arguments.trace);
    arguments.report.keep_apart(inputs)?;
    arguments.report.prepare()?;
    let trace = Trace::read(&arguments.trace)?;
    let described = TraceDescription::new(&arguments.trace, &trace.summary());
    if described.operations == 0 {
        bail!(
            "the trace {} has no operations, so there is nothing to replay: record a program that allocates",
            arguments.trace.display()
        );
    }
    let device = common.open_device()?;
    let heap = arguments.how.build(common, &device, false)?;
    let first = Bytes(heap.capacity());
    let settings = Settings {
        copies: arguments.copies,
        lanes: arguments.lanes,
        windows: arguments.windows,
        moments: arguments.report.moments(),
    };

    let live = arguments
        .live
        .watch(std::slice::from_ref(&heap), "replay")?;
    // A device that is lost does not tell later.
    let device = DeviceDescription::new(&device)?;
    let mut report = {
        let progress = Progress::new(common, "replay");
        let mut show = |done, total| {
            live.say(|| format!("window {done} of {total}"));
            progress.show(done, total);
        };
        replay::run(&heap, &trace, &settings, &mut show)?
    };
    let timed = if arguments.latencies || arguments.report.is_wanted() {
        live.say(|| "times calls".into());
        time_calls(common, &heap, &trace, &settings, &mut report)
    } else {
        Ok(())
    };
    let told = arguments.report.tell(
        common,
        || text(&heap, first, &described, &report),
        || {
            let content = Content::of(&described, &report, timed.is_ok());
            Ok(Document::on("replay", device, &heap, content))
        },
    );
    conclude(timed.and(told), judge(&report))
}

impl<'a> Content<'a> {
    /// What the replay that times calls found wrong, or that it failed, counts too.
    fn of(trace: &'a TraceDescription, report: &'a Report, is_timed: bool) -> Self {
        let passed = report.passed();
        Self {
            passed: passed && is_timed,
            trace,
            reports: [Judged { passed, report }],
        }
    }
}

/// An error if the replay found something wrong.
fn judge(report: &Report) -> Result<()> {
    if report.passed() {
        return Ok(());
    }
    for violation in &report.violations {
        note(violation);
    }
    if !report.misuses.is_empty() {
        note(&report.misuses.to_string());
    } else if report.operations == 0 && report.nulls > 0 && report.violations.is_empty() {
        bail!(
            "every request got NULL ({}), so nothing was tried: give the heap more than the trace's largest blocks with --heap",
            count(report.nulls)
        );
    }
    bail!("the replay found something wrong")
}

/// Replays again with clocks.
fn time_calls(
    common: &Common,
    heap: &Heap,
    trace: &Trace,
    settings: &Settings,
    report: &mut Report,
) -> Result<()> {
    heap.reset()?;
    let progress = Progress::new(common, "times calls");
    let mut show = |done, total| progress.show(done, total);
    let settings = Settings {
        copies: Some(report.copies),
        moments: 0,
        ..*settings
    };
    let (timed, latencies) = replay::time_calls(heap, trace, &settings, &mut show)?;
    report.latencies = latencies;
    if timed.passed() {
        return Ok(());
    }
    for violation in &timed.violations {
        note(violation);
    }
    bail!(
        "the replay that times calls found something wrong: {} blocks corrupt, {} misplaced, {} leaked, {} calls refused",
        timed.corrupt,
        timed.misaligned + timed.out_of_bounds,
        timed.leaked,
        timed.misuses.total()
    )
}

fn text(heap: &Heap, first: Bytes, trace: &TraceDescription, report: &Report) -> String {
    let (size, device) = (heap::size(heap, first), heap.device());
    let summary = format!(
        "{}: {} operations ({} malloc, {} realloc, {} free) of {}, at peak {} blocks of {}",
        trace.path,
        count(trace.operations),
        count(trace.mallocs),
        count(trace.reallocs),
        count(trace.frees),
        threads(trace.threads),
        count(trace.peak_live_blocks),
        Bytes(trace.peak_live_bytes),
    );
    let columns = [
        "replay",
        "lanes",
        "operations",
        "speed",
        "NULL",
        "corrupt",
        "misplaced",
        "leaked",
        "result",
    ];
    let label = match report.copies {
        1 => "1 copy".to_owned(),
        copies => format!("{} copies", count(copies.into())),
    };
    let row = [
        label.clone(),
        count(report.lanes.into()),
        count(report.operations),
        rate(report.operations_per_second),
        count(report.nulls),
        count(report.corrupt),
        count(report.misaligned + report.out_of_bounds),
        count(report.leaked),
        if report.passed() { "ok" } else { "FAILED" }.to_owned(),
    ];
    let results = table(columns, [row]);
    let at_peak = occupancy_table(std::iter::once((label, &report.peak)));
    let calls = calls(report);
    format!("{summary}\nheap of {size} on {device}\n\n{results}\n\n{at_peak}\n{calls}")
}

/// How long single calls took, if that was measured.
fn calls(report: &Report) -> String {
    if report.latencies.is_empty() {
        return String::new();
    }
    let head = ["ns", "calls", "half", "90 %", "99 %", "99.9 %", "all"];
    let rows = report.latencies.iter().map(|latency| {
        let time = |nanoseconds: f64| format!("{nanoseconds:.0}");
        [
            latency.call.clone(),
            count(latency.count),
            time(latency.p50),
            time(latency.p90),
            time(latency.p99),
            time(latency.p999),
            time(latency.most),
        ]
    });
    format!("\n{}\n", table(head, rows))
}
