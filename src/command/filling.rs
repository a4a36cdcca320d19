//! A heap filled with a workload's blocks, and read back: for subcommands that look at a heap.

use super::heap::HeapArguments;
use super::sizes::SizeArguments;
use super::{Common, workload_parser};
use anyhow::{Result, ensure};
use scatterheap::size::Bytes;
use scatterheap::stress::{Filled, Settings, Workload, fill};
use scatterheap::{Heap, Snapshot};

/// Threads that allocate first, to learn how much a block takes.
const FIRST_THREADS: u32 = 256;
/// Blocks at most, so that their records need no more memory than a heap.
const MOST_BLOCKS: u64 = 1 << 28;

/// With what a heap is filled, and how much of it.
#[derive(Debug, clap::Args)]
pub struct FillArguments {
    /// Workload whose sizes are allocated
    #[arg(
        long,
        value_name = "WORKLOAD",
        default_value = Workload::Mixed.name(),
        value_parser = workload_parser()
    )]
    workload: Workload,
    /// How much of the heap to fill, in per cent, about; blocks count as they are rounded up
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
    how: HeapArguments,
}

/// The options that make no sense where the heap comes from a file.
pub const FILL_OPTIONS: [&str; 7] = [
    "workload", "fill", "least", "most", "harden", "max_heap", "growth",
];

/// A heap that was filled, was read back, and is empty again.
pub struct Filling {
    pub heap: Heap,
    pub workload: Workload,
    pub settings: Settings,
    /// The heap while it was full.
    pub snapshot: Snapshot,
    /// Requests that got NULL.
    pub nulls: u64,
}

impl FillArguments {
    /// Makes a heap, fills it and reads it back.
    pub fn fill(&self, common: &Common) -> Result<Filling> {
        let device = common.open_device()?;
        let heap = self.how.build(common, &device, true)?;
        let settings = self.settings(common, &heap)?;
        let target = heap.capacity() / 100 * u64::from(self.fill);
        let parts = fill_to(&heap, &settings, target)?;
        let snapshot = heap.snapshot()?;
        let nulls = parts.iter().map(Filled::nulls).sum();
        for part in parts {
            part.release()?;
        }
        Ok(Filling {
            heap,
            workload: self.workload,
            settings,
            snapshot,
            nulls,
        })
    }

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
