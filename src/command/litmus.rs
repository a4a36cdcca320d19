//! `scatterheap litmus`: whether what was done before `free` is seen after `malloc`.

use super::Common;
use super::output::{conclude, count, note, print, print_json, rate, table};
use super::progress::Progress;
use super::session::{DeviceDescription, DeviceDocument, Judged};
use super::unused::UnusedHeap;
use super::watchdog::Watchdog;
use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use scatterheap::Device;
use scatterheap::litmus::{self, Report, Settings, Variant};
use serde::Serialize;

const HELP: &str = "\
Variants:
  slots            slots of one slab, as many as players
  store-buffering  two players, two slots: each frees its own and takes one
  retirement       slabs are retired, and their pages serve another class
  runs             runs of pages, and slabs in the same pages
  resize           blocks that realloc moves
  warps            warps that free together and allocate together
  warp-frees       warps that free together and allocate in turns
  warp-mallocs     warps that free in turns and allocate together

A try: a thread takes a block, compares every part of it with what its last owner noted, also what that owner wrote elsewhere \
before free, stamps it, and frees it. A meeting is a try whose last owner was another thread. A crossing is a pair of tries in which \
two threads freed a block each and then got each other's. Forbidden is what the next owner must not see.

Examples:
  scatterheap litmus
  scatterheap litmus slots warps --tries 100000000 --device cuda:0 --json

The exit code is 1 if there was a forbidden outcome, or no meeting; 3 if a launch did not end.";

/// Tries where nothing is said.
const CPU_TRIES: u64 = 100_000;
const GPU_TRIES: u64 = 100_000_000;

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// What to try [default: all variants]
    #[arg(value_name = "VARIANT", value_parser = variant_parser())]
    variants: Vec<Variant>,
    /// Tries of each variant, at least [default: 100000000 on a GPU, 100000 on the CPU]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    tries: Option<u64>,
    /// Seconds that a launch may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    unused: UnusedHeap,
}

fn variant_parser() -> impl TypedValueParser<Value = Variant> {
    PossibleValuesParser::new(Variant::ALL.map(Variant::name))
        .try_map(|name| name.parse::<Variant>())
}

#[derive(Serialize)]
struct Content<'a> {
    passed: bool,
    reports: Vec<Judged<'a, Report>>,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let device = common.open_device()?;
    // A device that is lost does not tell later.
    let described = DeviceDescription::new(&device)?;
    let mut reports = Vec::new();
    let ended = run_all(common, arguments, &device, &mut reports);
    if reports.is_empty() {
        return ended;
    }
    let told = if common.json {
        let content = content(&reports, ended.is_ok());
        print_json(&DeviceDocument::on("litmus", described, content))
    } else {
        print(&text(&device, &reports))
    };
    conclude(ended.and(told), judge(&reports))
}

/// Runs one variant after the other. The reports are of those that were finished.
fn run_all(
    common: &Common,
    arguments: &Arguments,
    device: &Device,
    reports: &mut Vec<Report>,
) -> Result<()> {
    let usual = if device.is_gpu() {
        GPU_TRIES
    } else {
        CPU_TRIES
    };
    let settings = Settings {
        tries: arguments.tries.unwrap_or(usual),
        seed: common.seed,
        lie: 0,
    };
    let variants = if arguments.variants.is_empty() {
        &Variant::ALL[..]
    } else {
        &arguments.variants
    };
    for variant in variants {
        let progress = Progress::new(common, variant.name());
        let watchdog = Watchdog::new(variant.name(), arguments.limit)?;
        let mut show = |done, total| {
            watchdog.step();
            progress.show(done, total);
        };
        reports.push(litmus::run(device, *variant, &settings, &mut show)?);
    }
    Ok(())
}

/// A run that ended early has not passed, whatever was finished.
fn content(reports: &[Report], is_whole: bool) -> Content<'_> {
    let judged = reports.iter().map(|report| Judged {
        passed: report.passed(),
        report,
    });
    Content {
        passed: is_whole && reports.iter().all(Report::passed),
        reports: judged.collect(),
    }
}

fn judge(reports: &[Report]) -> Result<()> {
    let failed: Vec<_> = reports.iter().filter(|report| !report.passed()).collect();
    for report in &failed {
        for violation in &report.violations {
            note(&format!("{}: {violation}", report.variant));
        }
        if report.meetings == 0 {
            note(&format!(
                "{}: no thread met another: use more --tries",
                report.variant
            ));
        }
        if report.unprepared > 0 {
            note(&format!(
                "{}: {} cells gave NULL when they were empty",
                report.variant, report.unprepared
            ));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = failed.iter().map(|report| report.variant.name()).collect();
    bail!(
        "{} of {} litmus tests failed: {}",
        failed.len(),
        reports.len(),
        names.join(", ")
    )
}

fn text(device: &Device, reports: &[Report]) -> String {
    let columns = [
        "litmus",
        "tries",
        "speed",
        "meetings",
        "crossings",
        "NULL",
        "stale block",
        "stale elsewhere",
        "stale copy",
        "shared",
        "result",
    ];
    let rows = reports.iter().map(|report| {
        #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
        let speed = report.tries as f64 / report.seconds.max(1e-9);
        [
            report.variant.to_string(),
            count(report.tries),
            rate(speed),
            count(report.meetings),
            count(report.crossings),
            count(report.nulls),
            count(report.stale_blocks),
            count(report.stale_elsewhere),
            count(report.stale_copies),
            count(report.shared),
            if report.passed() { "ok" } else { "FAILED" }.to_owned(),
        ]
    });
    format!(
        "message passing and store buffering through free and malloc on {device}\n\n{}\n",
        table(columns, rows)
    )
}
