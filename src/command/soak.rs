//! `scatterheap soak`: pairs of malloc and free for as long as one likes, in runs whose records add up.

mod record;

use super::Common;
use super::bench::stop_by_signal;
use super::live::LiveArguments;
use super::output::{conclude, count, note, print, print_json, rate, table, threads};
use super::progress::Progress;
use super::session::DeviceDescription;
use anyhow::{Result, bail};
use record::Run;
use scatterheap::size::Bytes;
use scatterheap::soak::{self, Settings, Totals};
use scatterheap::{Device, Heap};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const HELP: &str = "\
Blocks of 16 bytes to 8 KiB lie in mailboxes, which fill 70 % of each heap. Threads put new ones there and verify and free what \
they find: blocks of other threads, from other multiprocessors, of any age. All heaps are in use in the same launches.

Ctrl-C or SIGTERM ends a run early, like --seconds: everything is then freed and checked, and the totals are kept. With --record, runs add up: \
the next goes on from the pairs that are on record for the same commit, with the same changes if there are any, and device.

Examples:
  scatterheap soak --pairs 1000000
  scatterheap soak --pairs 100000000000 --record soak.jsonl --seconds 600 --device cuda:0

The exit code is 1 if a block was corrupt, misplaced or leaked, a free was refused, or an invariant did not hold.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Pairs of malloc and free, with those on record
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pairs: u64,
    /// Heaps that are in use at once; each has the bytes of --heap, shared among them where nothing is said
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    heaps: u32,
    /// Seconds after which this run ends
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Threads [default: 262144 on a GPU, 4096 on the CPU]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// File to which this run's record is appended, a line of JSON
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    live: LiveArguments,
}

/// What all runs on record counted, and this one.
#[derive(Serialize)]
struct Content {
    command: &'static str,
    version: &'static str,
    device: DeviceDescription,
    passed: bool,
    /// Runs on record, this one among them.
    runs: usize,
    all: Totals,
    /// This one, or the last on record if nothing was left to do.
    run: Run,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let device = common.open_device()?;
    let mut runs = record::read(arguments.record.as_deref(), &device)?;
    // A record may say anything.
    let pairs = runs.iter().map(|run| run.totals.pairs);
    let done = pairs.fold(0, u64::saturating_add);
    let mut recorded = Ok(());
    let is_done = done >= arguments.pairs;
    if is_done {
        note(&format!(
            "{} of {} pairs are on record, so nothing is run: ask for more --pairs",
            count(done),
            count(arguments.pairs)
        ));
    } else {
        record::try_out(arguments.record.as_deref())?;
        let heaps = build(common, arguments, &device)?;
        let usual = if device.is_gpu() { 1 << 18 } else { 1 << 12 };
        let settings = Settings {
            threads: arguments.threads.unwrap_or(usual),
            pairs: arguments.pairs - done,
            // Each run has its own, so that it does not repeat the one before.
            seed: common.seed.wrapping_add(runs.len() as u64),
        };
        let totals = soak(common, arguments, &device, &heaps, &settings)?;
        let run = Run::new(&device, &heaps, &settings, totals);
        recorded = record::append(arguments.record.as_deref(), &run);
        runs.push(run);
    }
    let mut all = Totals::default();
    for run in &runs {
        all.add(&run.totals);
    }
    // What was counted is not lost if it cannot be recorded.
    let told = tell(common, &device, runs, all, is_done);
    conclude(recorded.and(told), judge(&all, arguments))
}

fn build(common: &Common, arguments: &Arguments, device: &Device) -> Result<Vec<Heap>> {
    let capacity = common.capacity(device)?;
    let share = match common.heap {
        Some(_) => capacity,
        None => capacity / u64::from(arguments.heaps),
    };
    let each = |_| Ok(Heap::builder(device).capacity(share).build()?);
    (0..arguments.heaps).map(each).collect()
}

/// Runs, and shows rate and errors, until there are enough pairs, the time is over, or Ctrl-C comes.
fn soak(
    common: &Common,
    arguments: &Arguments,
    device: &Device,
    heaps: &[Heap],
    settings: &Settings,
) -> Result<Totals> {
    let stop = stop_by_signal()?;
    let progress = Progress::new(common, "soak");
    let live = arguments.live.watch(heaps, "soak")?;
    let begin = Instant::now();
    let limit = arguments.seconds.map(Duration::from_secs);
    let mut go_on = |totals: &Totals| {
        let errors = count(totals.errors());
        progress.say(&format!("{}, {errors} errors", speed(totals)));
        live.say(|| {
            let (pairs, speed) = (count(totals.pairs), speed(totals));
            format!("{pairs} pairs, {speed}, {errors} errors")
        });
        progress.show(totals.pairs, settings.pairs);
        let over = limit.is_some_and(|limit| begin.elapsed() >= limit);
        // Relaxed: nothing else is told by it.
        !over && !stop.load(Ordering::Relaxed)
    };
    Ok(soak::run(device, heaps, settings, &mut go_on)?)
}

#[allow(clippy::cast_precision_loss, reason = "a rate for people")]
fn speed(totals: &Totals) -> String {
    rate(totals.pairs as f64 / totals.seconds.max(1e-9))
}

/// Tells of all runs, the last of them by itself: this one, or one on record.
fn tell(
    common: &Common,
    device: &Device,
    mut runs: Vec<Run>,
    all: Totals,
    is_on_record: bool,
) -> Result<()> {
    let count_of_runs = runs.len();
    let Some(run) = runs.pop() else {
        return Ok(());
    };
    if !common.json {
        let label = if is_on_record {
            "last on record"
        } else {
            "this run"
        };
        return print(&text(device, label, &run, &all, count_of_runs));
    }
    print_json(&Content {
        command: "soak",
        version: env!("CARGO_PKG_VERSION"),
        device: DeviceDescription::new(device)?,
        passed: all.errors() == 0,
        runs: count_of_runs,
        all,
        run,
    })
}

/// An error if something was found wrong.
fn judge(all: &Totals, arguments: &Arguments) -> Result<()> {
    if all.pairs < arguments.pairs {
        let advice = match arguments.record {
            Some(_) => "run the same command again for the rest",
            None => "use --record FILE to be able to go on",
        };
        note(&format!(
            "ended after {} of {} pairs; {advice}",
            count(all.pairs),
            count(arguments.pairs)
        ));
    }
    if all.errors() > 0 {
        bail!(
            "{} errors in {} pairs",
            count(all.errors()),
            count(all.pairs)
        );
    }
    Ok(())
}

fn text(device: &Device, label: &str, run: &Run, all: &Totals, runs: usize) -> String {
    let columns = [
        "soak",
        "pairs",
        "seconds",
        "speed",
        "NULL",
        "corrupt",
        "misplaced",
        "leaked",
        "refused",
        "violations",
        "result",
    ];
    let row = |label: String, totals: &Totals| {
        [
            label,
            count(totals.pairs),
            format!("{:.1}", totals.seconds),
            speed(totals),
            count(totals.nulls),
            count(totals.corrupt),
            count(totals.misplaced),
            count(totals.leaked),
            count(totals.refused),
            count(totals.violations),
            if totals.errors() == 0 { "ok" } else { "FAILED" }.to_owned(),
        ]
    };
    let mut rows = vec![row(label.into(), &run.totals)];
    if runs > 1 {
        rows.push(row(format!("all {runs} runs"), all));
    }
    format!(
        "{} heaps of {} on {device}; {}\n\n{}\n",
        run.heaps,
        Bytes(run.heap_bytes),
        threads(run.threads.into()),
        table(columns, rows)
    )
}
