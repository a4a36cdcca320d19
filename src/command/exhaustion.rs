//! `scatterheap exhaustion`: what a full heap answers, and what it is like afterwards.

use super::Common;
use super::heap::{self, HeapArguments};
use super::output::{conclude, count, note, percent, print, print_json, rate, table, threads};
use super::progress::Progress;
use super::session::{Document, Judged};
use super::watchdog::Watchdog;
use anyhow::{Result, bail};
use scatterheap::Heap;
use scatterheap::exhaustion::{self, Report, Settings};
use scatterheap::size::Bytes;

const HELP: &str = "\
The heap is filled with blocks of 16 bytes to 16 KiB, and then with small ones, until all threads got NULL for 16 bytes. Then all \
threads ask for all sizes up to the heap's. Every other block is freed, the heap is filled again, and asked again. At the end \
every block is verified and freed, and one request must get the whole heap.

Examples:
  scatterheap exhaustion
  scatterheap exhaustion --device cuda:0 --threads 1048576 --heap 1GiB --json

The exit code is 1 if a request was served that could not be, a block was corrupt, or something was lost; 3 if a launch did not end.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Threads [default: 1048576 on a GPU, 4096 on the CPU]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Requests of each thread when the heap is full
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Seconds that a launch may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    how: HeapArguments,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let device = common.open_device()?;
    let heap = arguments.how.build(common, &device, false)?;
    let first = Bytes(heap.capacity());
    let usual = if device.is_gpu() { 1 << 20 } else { 1 << 12 };
    let settings = Settings {
        threads: arguments.threads.unwrap_or(usual),
        requests: arguments.requests,
        seed: common.seed,
    };
    let report = {
        let progress = Progress::new(common, "exhaustion");
        let watchdog = Watchdog::new("exhaustion", arguments.limit)?;
        let mut show = |done, total| {
            watchdog.step();
            progress.show(done, total);
        };
        exhaustion::run(&heap, &settings, &mut show)?
    };
    conclude(tell(common, &heap, first, &report), judge(&report))
}

fn tell(common: &Common, heap: &Heap, first: Bytes, report: &Report) -> Result<()> {
    if !common.json {
        return print(&text(heap, first, report));
    }
    let judged = Judged {
        passed: report.passed(),
        report,
    };
    print_json(&Document::new("exhaustion", heap, judged)?)
}

fn judge(report: &Report) -> Result<()> {
    if report.passed() {
        return Ok(());
    }
    for violation in &report.violations {
        note(violation);
    }
    if !report.whole_heap_at_end {
        note("at the end, one request could not take the whole heap");
    }
    if report.answers.iter().any(|answer| answer.blocks == 0) {
        note("no block was allocated, so nothing was tried");
    }
    let served: u64 = report.answers.iter().map(|answer| answer.served).sum();
    bail!(
        "the full heap served {served} requests; {} blocks were corrupt, {} misplaced, {} leaked; {} frees were refused",
        report.corrupt,
        report.misplaced,
        report.leaked,
        report.refused
    )
}

fn text(heap: &Heap, first: Bytes, report: &Report) -> String {
    let columns = [
        "a full heap",
        "used",
        "blocks",
        "requests",
        "served",
        "seconds",
        "speed",
    ];
    let names = ["at first", "thinned out, filled"];
    let rows = report.answers.iter().zip(names).map(|(answer, name)| {
        #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
        let speed = answer.requests as f64 / answer.seconds.max(1e-9);
        [
            name.to_owned(),
            percent(answer.used),
            count(answer.blocks),
            count(answer.requests),
            count(answer.served),
            format!("{:.3}", answer.seconds),
            rate(speed),
        ]
    });
    let (size, device) = (heap::size(heap, first), heap.device());
    let threads = threads(report.settings.threads.into());
    let verdict = if report.passed() { "ok" } else { "FAILED" };
    format!(
        "heap of {size} on {device}; {threads}\n\n{}\n\n{verdict}: {} corrupt, {} leaked, {}\n",
        table(columns, rows),
        count(report.corrupt),
        count(report.leaked),
        if report.whole_heap_at_end {
            "one request takes the whole heap at the end"
        } else {
            "the heap is not whole at the end"
        },
    )
}
