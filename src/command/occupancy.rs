//! `scatterheap occupancy`: fills a heap with a workload's blocks and shows it.

use super::hardening::HardeningArguments;
use super::heat_map::HeatMap;
use super::output::{count, has_colours, percent, percent_of, print, print_json};
use super::picture::{Picture, grid_columns, most_cells};
use super::session::Document;
use super::sizes::SizeArguments;
use super::{Common, workload_parser};
use anyhow::{Result, ensure};
use scatterheap::size::Bytes;
use scatterheap::stress::{Filled, Settings, Workload, fill};
use scatterheap::{Heap, Occupancy, Snapshot};
use serde::Serialize;

const HELP: &str = "\
Each cell of the map is a number of pages: the shade tells how much of them is handed out, the
colour how large their blocks are. Without colours (NO_COLOR, or no terminal) a second map has
letters in place of the colours.

Examples:
  scatterheap occupancy
  scatterheap occupancy --workload churn --fill 90 --heap 64MiB
  scatterheap occupancy --device cuda:0 --json";

/// Width where it is unknown.
const USUAL_WIDTH: usize = 80;
/// Columns of the map in JSON, which does not depend on the terminal.
const JSON_COLUMNS: usize = 64;
/// Threads that allocate first, to learn how much a block takes.
const FIRST_THREADS: u32 = 256;
/// Blocks at most, so that their records need no more memory than a heap.
const MOST_BLOCKS: u64 = 1 << 28;

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Workload whose sizes are allocated
    #[arg(
        long,
        value_name = "WORKLOAD",
        default_value = Workload::Mixed.name(),
        value_parser = workload_parser()
    )]
    workload: Workload,
    /// How much of the heap to fill, in per cent
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 60,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    fill: u32,
    #[command(flatten)]
    sizes: SizeArguments,
    #[command(flatten)]
    hardening: HardeningArguments,
}

#[derive(Serialize)]
struct Content {
    workload: Workload,
    least: u64,
    most: u64,
    seed: u64,
    /// Threads that got a block, and threads that got NULL.
    blocks: u64,
    nulls: u64,
    occupancy: Occupancy,
    map: HeatMap,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let device = common.open_device()?;
    let heap = common.build_heap(&device, true, arguments.hardening.modes())?;
    let settings = arguments.settings(common, &heap)?;
    let target = heap.capacity() / 100 * u64::from(arguments.fill);
    let parts = fill_to(&heap, &settings, target)?;
    let snapshot = heap.snapshot()?;
    let nulls = parts.iter().map(Filled::nulls).sum();
    for part in parts {
        part.release()?;
    }
    if common.json {
        let content = arguments.content(&settings, &snapshot, nulls);
        return print_json(&Document::new("occupancy", &heap, content)?);
    }
    print(&arguments.text(&heap, &settings, &snapshot, nulls))
}

/// Allocates until about `target` bytes are in use.
fn fill_to<'a>(heap: &'a Heap, settings: &Settings, target: u64) -> Result<Vec<Filled<'a>>> {
    let first_threads = (target / settings.most).clamp(1, FIRST_THREADS.into());
    let part = |threads: u64, seed| {
        let settings = Settings {
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            seed,
            ..*settings
        };
        fill(heap, &settings)
    };
    let first = part(first_threads, settings.seed)?;
    let used = heap.snapshot()?.occupancy();
    let mean = used.used_bytes.checked_div(used.used_blocks);
    let mean = mean.unwrap_or(settings.most);
    let missing = (target.saturating_sub(used.used_bytes) / mean).min(MOST_BLOCKS);
    let mut parts = vec![first];
    if missing > 0 {
        parts.push(part(missing, settings.seed.wrapping_add(1))?);
    }
    Ok(parts)
}

impl Arguments {
    fn settings(&self, common: &Common, heap: &Heap) -> Result<Settings> {
        let usual = Settings::for_workload(self.workload, heap);
        let settings = Settings {
            seed: common.seed,
            ..self.sizes.apply(self.workload, usual)
        };
        let Settings { least, most, .. } = settings;
        ensure!(
            1 <= least && least <= most,
            "sizes from {least} to {most} bytes were asked for: the smallest must be at least 1 \
             and at most the largest"
        );
        ensure!(
            most <= heap.capacity(),
            "sizes up to {} were asked for, but the heap has {}: ask for less, or use a larger heap",
            Bytes(most),
            Bytes(heap.capacity())
        );
        Ok(settings)
    }

    fn content(&self, settings: &Settings, snapshot: &Snapshot, nulls: u64) -> Content {
        let occupancy = snapshot.occupancy();
        Content {
            workload: self.workload,
            least: settings.least,
            most: settings.most,
            seed: settings.seed,
            blocks: occupancy.used_blocks,
            nulls,
            map: HeatMap::new(
                &snapshot.page_map(),
                occupancy.page_bytes,
                most_cells(JSON_COLUMNS),
            ),
            occupancy,
        }
    }

    fn text(&self, heap: &Heap, settings: &Settings, snapshot: &Snapshot, nulls: u64) -> String {
        let occupancy = snapshot.occupancy();
        let columns = grid_columns(terminal_width());
        let map = HeatMap::new(
            &snapshot.page_map(),
            occupancy.page_bytes,
            most_cells(columns),
        );
        let picture = Picture::new(&map, &occupancy, has_colours(), columns).draw();
        format!(
            "heap of {} on {}, with blocks of {} to {} bytes ({})\n\n{picture}\n{}",
            Bytes(heap.capacity()),
            heap.device(),
            count(settings.least),
            count(settings.most),
            self.workload,
            totals(&occupancy, nulls)
        )
    }
}

/// The figures of the heap as a whole.
fn totals(occupancy: &Occupancy, nulls: u64) -> String {
    let pages = &occupancy.pages;
    let internal = occupancy.internal_fragmentation;
    let internal = internal.map_or("not counted".into(), percent);
    let lines = [
        (
            "in use",
            format!(
                "{} ({}) in {} blocks; {} requests got NULL",
                Bytes(occupancy.used_bytes),
                percent_of(occupancy.used_bytes, occupancy.capacity),
                count(occupancy.used_blocks),
                count(nulls),
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
