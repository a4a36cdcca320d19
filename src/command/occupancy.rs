//! `scatterheap occupancy`: fills a heap with a workload's blocks and shows it.

use super::Common;
use super::filling::{FILL_OPTIONS, FillArguments, Filling};
use super::output::{count, has_colours, percent, percent_of, print, print_json};
use super::picture::{Picture, grid_columns, most_cells};
use super::saved::{SnapshotDocument, describe};
use super::session::Document;
use anyhow::Result;
use scatterheap::heat_map::HeatMap;
use scatterheap::size::Bytes;
use scatterheap::stress::Workload;
use scatterheap::{Occupancy, Snapshot};
use serde::Serialize;
use std::path::PathBuf;

const HELP: &str = "\
Each cell of the map is a number of pages: the shade tells how much of them is handed out, the \
colour how large their blocks are. Without colours (NO_COLOR, or no terminal) a second map has \
letters in place of the colours.

Examples:
  scatterheap occupancy
  scatterheap occupancy --workload churn --fill 90 --heap 64MiB
  scatterheap occupancy --device cuda:0 --json
  scatterheap occupancy --snapshot heap.snapshot";

/// Width where it is unknown.
const USUAL_WIDTH: usize = 80;
/// Columns of the map in JSON, which does not depend on the terminal.
const JSON_COLUMNS: usize = 64;

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Snapshot to draw, in place of a heap made for that
    #[arg(long, value_name = "FILE", conflicts_with_all = FILL_OPTIONS)]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    fill: FillArguments,
}

/// With what a heap was filled that was made for this.
#[derive(Serialize)]
struct Filled {
    workload: Workload,
    least: u64,
    most: u64,
    seed: u64,
    /// Threads that got a block, and threads that got NULL.
    blocks: u64,
    nulls: u64,
}

#[derive(Serialize)]
struct Drawn {
    occupancy: Occupancy,
    map: HeatMap,
}

#[derive(Serialize)]
struct Content {
    #[serde(flatten)]
    filled: Filled,
    #[serde(flatten)]
    drawn: Drawn,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    if let Some(path) = &arguments.snapshot {
        return draw_saved(common, &common.load_snapshot(path)?);
    }
    let filling = arguments.fill.fill(common)?;
    let Filling {
        heap,
        settings,
        snapshot,
        ..
    } = &filling;
    if common.json {
        let content = Content {
            filled: filled(&filling),
            drawn: drawn(snapshot),
        };
        return print_json(&Document::new("occupancy", heap, content)?);
    }
    print(&format!(
        "heap of {} on {}, with blocks of {} to {} bytes ({})\n\n{}",
        Bytes(heap.capacity()),
        heap.device(),
        count(settings.least),
        count(settings.most),
        filling.workload,
        picture(snapshot, Some(filling.nulls))
    ))
}

/// Shows a snapshot from a file.
fn draw_saved(common: &Common, snapshot: &Snapshot) -> Result<()> {
    if common.json {
        let document = SnapshotDocument::new("occupancy", snapshot, drawn(snapshot));
        return print_json(&document);
    }
    print(&format!(
        "heap of {} on {}\n\n{}",
        Bytes(snapshot.layout().capacity),
        describe(snapshot.origin()),
        picture(snapshot, None)
    ))
}

fn filled(filling: &Filling) -> Filled {
    let settings = &filling.settings;
    Filled {
        workload: filling.workload,
        least: settings.least,
        most: settings.most,
        seed: settings.seed,
        blocks: filling.snapshot.occupancy().used_blocks,
        nulls: filling.nulls,
    }
}

fn drawn(snapshot: &Snapshot) -> Drawn {
    let occupancy = snapshot.occupancy();
    Drawn {
        map: HeatMap::new(
            &snapshot.page_map(),
            occupancy.page_bytes,
            most_cells(JSON_COLUMNS),
        ),
        occupancy,
    }
}

/// The map and the totals; `nulls` requests got NULL, as far as that is known.
fn picture(snapshot: &Snapshot, nulls: Option<u64>) -> String {
    let occupancy = snapshot.occupancy();
    let columns = grid_columns(terminal_width());
    let map = HeatMap::new(
        &snapshot.page_map(),
        occupancy.page_bytes,
        most_cells(columns),
    );
    let picture = Picture::new(&map, &occupancy, has_colours(), columns).draw();
    format!("{picture}\n{}", totals(&occupancy, nulls))
}

/// The figures of the heap as a whole.
fn totals(occupancy: &Occupancy, nulls: Option<u64>) -> String {
    let pages = &occupancy.pages;
    let internal = occupancy.internal_fragmentation;
    let internal = internal.map_or("not counted".into(), percent);
    let lines = [
        (
            "in use",
            format!(
                "{} ({}) in {} blocks{}",
                Bytes(occupancy.used_bytes),
                percent_of(occupancy.used_bytes, occupancy.capacity),
                count(occupancy.used_blocks),
                nulls.map_or(String::new(), |nulls| format!(
                    "; {} requests got NULL",
                    count(nulls)
                )),
            ),
        ),
        (
            "pages",
            format!(
                "{} of {}: {} in slabs ({} reclaimable), {} in runs, {} free",
                count(pages.in_slabs + pages.in_runs + pages.free + pages.lost),
                Bytes(occupancy.page_bytes),
                count(pages.in_slabs),
                count(pages.reclaimable),
                count(pages.in_runs),
                count(pages.free),
            ),
        ),
        (
            "fragmentation",
            format!(
                "{internal} of slots by rounding, {} of free pages outside the longest run",
                percent(occupancy.external_fragmentation),
            ),
        ),
        (
            "largest request",
            Bytes(occupancy.largest_request).to_string(),
        ),
    ];
    let misuses = (!occupancy.misuses.is_empty()).then(|| {
        let lines = occupancy.misuses.to_string();
        ("misuse", lines.replace('\n', &format!("\n{:<17}", "")))
    });
    let lines = lines.into_iter().chain(misuses);
    let lines = lines.map(|(label, line)| format!("{label:<17}{line}\n"));
    lines.collect()
}

/// Columns of the terminal.
fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(USUAL_WIDTH, |(width, _)| width.0.into())
}
