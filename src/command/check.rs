//! `scatterheap check`: verifies every invariant of a heap.

use super::Common;
use super::filling::{FILL_OPTIONS, FillArguments};
use super::output::{conclude, count, percent_of, print, print_json};
use super::saved::{SnapshotDocument, describe};
use anyhow::{Result, bail};
use scatterheap::inspect::{MAX_VIOLATIONS, MisuseReport, Violation};
use scatterheap::size::Bytes;
use scatterheap::{Occupancy, Snapshot};
use serde::Serialize;
use std::path::PathBuf;

const HELP: &str = "\
With a file it checks the heap whose snapshot that is, and needs no GPU. Without one it makes a \
heap, fills it as `scatterheap snapshot` does and checks that. If an invariant does not hold, it \
says which, where, what was expected and what was found, and exits with 1.

Examples:
  scatterheap check heap.snapshot
  scatterheap check heap.snapshot --all --json
  scatterheap check --workload churn --heap 64MiB";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Snapshot that `scatterheap snapshot` or a program saved
    #[arg(value_name = "FILE", conflicts_with_all = FILL_OPTIONS)]
    file: Option<PathBuf>,
    /// Show all violations (64 at most), not only the first
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    fill: FillArguments,
}

#[derive(Serialize)]
struct Content<'a> {
    passed: bool,
    violations: &'a [Violation],
    occupancy: &'a Occupancy,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let snapshot = match &arguments.file {
        Some(path) => common.load_snapshot(path)?,
        None => arguments.fill.fill(common)?.snapshot,
    };
    let violations = if arguments.all {
        snapshot.violations()
    } else {
        snapshot.check().err().into_iter().collect()
    };
    let occupancy = snapshot.occupancy();
    let told = if common.json {
        let content = Content {
            passed: violations.is_empty(),
            violations: &violations,
            occupancy: &occupancy,
        };
        print_json(&SnapshotDocument::new("check", &snapshot, content))
    } else {
        print(&text(&snapshot, &occupancy, &violations))
    };
    conclude(told, judge(&violations, arguments.all))
}

/// An error if an invariant does not hold.
fn judge(violations: &[Violation], all: bool) -> Result<()> {
    match violations {
        [] => Ok(()),
        [..] if !all => bail!("the heap is damaged: an invariant does not hold"),
        [_] => bail!("the heap is damaged: one invariant does not hold"),
        [..] if violations.len() < MAX_VIOLATIONS => bail!(
            "the heap is damaged: invariants do not hold in {} places",
            violations.len()
        ),
        [..] => {
            bail!("the heap is damaged: invariants do not hold in {MAX_VIOLATIONS} places or more")
        }
    }
}

fn text(snapshot: &Snapshot, occupancy: &Occupancy, violations: &[Violation]) -> String {
    let result = match violations {
        [] => "every invariant holds\n".to_owned(),
        _ => violations
            .iter()
            .map(|violation| format!("{violation}\n"))
            .collect::<Vec<_>>()
            .concat(),
    };
    format!(
        "heap of {} on {}\n\n{}\n{result}",
        Bytes(occupancy.capacity),
        describe(snapshot.origin()),
        summary(occupancy)
    )
}

/// The figures of the heap as a whole.
fn summary(occupancy: &Occupancy) -> String {
    let pages = &occupancy.pages;
    let slabs = occupancy.classes.iter().map(|class| class.slabs).sum();
    let classes = occupancy.classes.iter().filter(|class| class.slabs > 0);
    let failures = occupancy.classes.iter().map(|class| class.failures);
    let failures = failures.chain([occupancy.runs.failures]);
    let damaged = failures.map(|failures| failures.damaged).sum();
    let all_pages = pages.free + pages.in_slabs + pages.in_runs + pages.lost;
    let lines = [
        (
            "blocks",
            format!(
                "{} of {} ({} of the heap)",
                count(occupancy.used_blocks),
                Bytes(occupancy.used_bytes),
                percent_of(occupancy.used_bytes, occupancy.capacity)
            ),
        ),
        (
            "slabs",
            format!(
                "{} of {} classes in {} pages ({} reclaimable)",
                count(slabs),
                classes.count(),
                count(pages.in_slabs),
                count(pages.reclaimable)
            ),
        ),
        (
            "runs",
            format!(
                "{} in {} pages",
                count(occupancy.runs.count),
                count(pages.in_runs)
            ),
        ),
        (
            "free",
            format!(
                "{} of {} pages of {}; the largest request that can be served is {}",
                count(pages.free),
                count(all_pages),
                Bytes(occupancy.page_bytes),
                Bytes(occupancy.largest_request)
            ),
        ),
        ("lost", format!("{} pages", count(pages.lost))),
        ("misuse", misuse(&occupancy.misuses)),
        (
            "damage",
            format!("the allocator came upon it {} times", count(damaged)),
        ),
    ];
    // Lost pages and damage are news.
    let lines = lines.into_iter().filter(|(label, _)| match *label {
        "lost" => pages.lost > 0,
        "damage" => damaged > 0,
        _ => true,
    });
    lines
        .map(|(label, line)| format!("{label:<8}{line}\n"))
        .collect::<Vec<_>>()
        .concat()
}

/// The misuses, by kind.
fn misuse(misuses: &MisuseReport) -> String {
    let kinds: Vec<_> = misuses
        .iter()
        .filter(|misused| misused.count > 0)
        .map(|misused| {
            let (number, kind) = (count(misused.count), misused.kind.name());
            match misused.addresses.first() {
                Some(first) => format!("{number} {kind} (first {first:#x})"),
                None => format!("{number} {kind}"),
            }
        })
        .collect();
    match &kinds[..] {
        [] => "none".into(),
        kinds => kinds.join(", "),
    }
}
