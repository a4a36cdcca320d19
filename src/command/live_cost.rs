//! `scatterheap live-cost`: what it costs to watch a heap.
//!
//! The same work is done with and without somebody who watches, by turns, so that what else changes on the machine
//! meets both alike.

use super::Common;
use super::output::{count, percent, print, print_json, rate, table, threads};
use super::progress::Progress;
use super::session::Document;
use anyhow::{Context, Result, ensure};
use scatterheap::Heap;
use scatterheap::monitor::{self, Reading, published};
use scatterheap::size::Bytes;
use scatterheap::stress::{self, Settings, Workload};
use scatterheap_trace::file;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What watching may cost at most.
const TARGET: f64 = 0.02;

const HELP: &str = "\
Runs the workload churn of `scatterheap stress`, whose threads do nothing but allocate, verify and free, with and without --live by \
turns, and compares the medians of the speeds, by the device's clock. It is meant for an idle machine: what else runs there \
is part of the difference.

Examples:
  scatterheap live-cost --device cuda:0
  scatterheap live-cost --runs 15 --output top.csv";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Runs of each kind
    #[arg(long, value_name = "NUMBER", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Milliseconds that a run takes, about
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    milliseconds: u32,
    /// Threads [default: 1048576 on a GPU, 4096 on the CPU]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Write each run to this file, as CSV
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A run.
#[derive(Serialize)]
struct Run {
    watched: bool,
    /// Of the launches, by the device's clock.
    seconds: f64,
    operations: u64,
    operations_per_second: f64,
    /// Seconds that the last copy took, and seconds between two, if it was watched.
    copying: Option<f64>,
    period: Option<f64>,
}

#[derive(Serialize)]
struct Content {
    threads: u32,
    rounds: u32,
    /// Medians of operations in a second.
    alone: f64,
    watched: f64,
    /// Share of the speed that is lost, which may be below 0 by chance, and what it may be at most.
    cost: f64,
    target: f64,
    runs: Vec<Run>,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    if let Some(path) = &arguments.output {
        file::try_out(path).with_context(|| cannot_write(path))?;
    }
    let device = common.open_device()?;
    let heap = Heap::builder(&device)
        .capacity(common.capacity(&device)?)
        .build()?;
    let usual = Settings::for_workload(Workload::Churn, &heap);
    let usual = Settings {
        threads: arguments.threads.unwrap_or(usual.threads),
        seed: common.seed,
        ..usual
    };
    let progress = Progress::new(common, "live-cost");
    let settings = calibrate(&heap, usual, arguments.milliseconds)?;
    let mut runs = Vec::new();
    for turn in 0..2 * arguments.runs {
        progress.show(turn.into(), (2 * arguments.runs).into());
        // Neither kind is always the first of a pair.
        let watched = turn % 4 == 1 || turn % 4 == 2;
        runs.push(measure(&heap, &settings, watched)?);
    }
    drop(progress);
    report(common, arguments, &heap, &content(&settings, runs))
}

/// As many rounds as take that time, as far as the first run tells, which warms the device up.
fn calibrate(heap: &Heap, settings: Settings, milliseconds: u32) -> Result<Settings> {
    let first = measure(heap, &settings, false)?;
    let wanted = f64::from(settings.rounds) * f64::from(milliseconds) / 1000.0 / first.seconds;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within bounds"
    )]
    let rounds = wanted.clamp(1.0, f64::from(1 << 24)) as u32;
    Ok(Settings { rounds, ..settings })
}

fn measure(heap: &Heap, settings: &Settings, watched: bool) -> Result<Run> {
    heap.reset()?;
    let how = monitor::Settings {
        name: "scatterheap live-cost".into(),
        ..monitor::Settings::default()
    };
    let monitor = watched.then(|| heap.monitor(&how)).transpose()?;
    let report = stress::run(heap, Workload::Churn, settings, &mut |_, _| ())?;
    ensure!(
        report.passed(),
        "churn was run to measure, and found something wrong: run `scatterheap stress churn`"
    );
    let reading: Option<Reading> = match &monitor {
        None => None,
        Some(monitor) => {
            if let Some(failure) = monitor.failure() {
                anyhow::bail!("{failure}");
            }
            let directory = monitor.file().parent().unwrap_or(Path::new("."));
            let own = published(directory)?.into_iter();
            own.rev()
                .find(|reading| reading.process == std::process::id())
        }
    };
    Ok(Run {
        watched,
        seconds: report.seconds,
        operations: report.operations,
        operations_per_second: report.operations_per_second,
        copying: reading.as_ref().map(|reading| reading.copying),
        period: reading.as_ref().map(|reading| reading.period),
    })
}

fn content(settings: &Settings, runs: Vec<Run>) -> Content {
    let speed = |watched| {
        let runs = runs.iter().filter(|run| run.watched == watched);
        median(runs.map(|run| run.operations_per_second).collect())
    };
    let (alone, watched) = (speed(false), speed(true));
    Content {
        threads: settings.threads,
        rounds: settings.rounds,
        alone,
        watched,
        cost: 1.0 - watched / alone,
        target: TARGET,
        runs,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values[..] {
        [] => f64::NAN,
        _ if values.len() % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

fn report(common: &Common, arguments: &Arguments, heap: &Heap, content: &Content) -> Result<()> {
    let printed = if common.json {
        Document::new("live-cost", heap, content).and_then(|document| print_json(&document))
    } else {
        print(&text(heap, content))
    };
    let written = match &arguments.output {
        Some(path) => write(path, &csv(heap, content)),
        None => Ok(()),
    };
    // What was measured is not lost if the file cannot be written.
    written.and(printed)
}

fn write(path: &Path, text: &str) -> Result<()> {
    file::replace(path, |file| file.write_all(text.as_bytes())).with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

fn csv(heap: &Heap, content: &Content) -> String {
    let mut lines = String::from(
        "device,heap_bytes,threads,rounds,watched,seconds,operations,operations_per_second,copying_seconds,period_seconds\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for run in &content.runs {
        let _written = writeln!(
            lines,
            "{},{},{},{},{},{},{},{},{},{}",
            heap.device().label(),
            heap.capacity(),
            content.threads,
            content.rounds,
            run.watched,
            run.seconds,
            run.operations,
            run.operations_per_second,
            number(run.copying),
            number(run.period),
        );
    }
    lines
}

fn text(heap: &Heap, content: &Content) -> String {
    let (capacity, device) = (Bytes(heap.capacity()), heap.device());
    let row = |label: &str, watched: bool, speed: f64| {
        let runs: Vec<_> = content
            .runs
            .iter()
            .filter(|run| run.watched == watched)
            .collect();
        let seconds = median(runs.iter().map(|run| run.seconds).collect());
        let milliseconds = |of: fn(&Run) -> Option<f64>| {
            let values: Vec<_> = runs.iter().filter_map(|run| of(run)).collect();
            match &values[..] {
                [] => String::new(),
                _ => format!("{:.2}", median(values) * 1000.0),
            }
        };
        [
            label.to_owned(),
            runs.len().to_string(),
            format!("{seconds:.3}"),
            rate(speed),
            milliseconds(|run| run.copying),
            milliseconds(|run| run.period),
        ]
    };
    let columns = [
        "churn",
        "runs",
        "seconds",
        "speed",
        "ms of a copy",
        "ms between",
    ];
    let rows = [
        row("alone", false, content.alone),
        row("watched", true, content.watched),
    ];
    let met = if content.cost <= TARGET {
        "met"
    } else {
        "MISSED"
    };
    format!(
        "heap of {capacity} on {device}; {}, {} rounds; medians\n\n{}\n\nwatching costs {} (target: at most {}, {met})\n",
        threads(content.threads.into()),
        count(content.rounds.into()),
        table(columns, rows),
        percent(content.cost),
        percent(TARGET)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }
}
