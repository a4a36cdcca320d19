//! Workloads in launches: all allocate, all fill, overlap is looked for, all check and free.

use super::{Progress, Run, Settings, Workload};
use crate::device::Grid;
use crate::error::Result;
use crate::heap::Heap;
use crate::memory::Memory;
use crate::tally::DeviceTally;
use heap_core::hardened::Hardening;
use kernels::blocks::{Allocate, Block, BlocksArguments, CheckAndFree, Fill, Release};
use kernels::overlap::{GRANULE_BYTES, MarkGranules, OverlapArguments};
use kernels::sizes::Sizes;
use kernels::tally::Count;

/// Steps of a round.
const STEPS: u64 = 4;
/// Bytes of poison that one thread looks at.
const MOST_POISON: u64 = 64 << 20;

/// A bit for each granule of a heap that may grow.
struct Granules {
    bits: Memory,
    count: u64,
}

impl Granules {
    /// For what the heap has now.
    fn of(heap: &Heap) -> Result<Self> {
        let count = heap.capacity() / GRANULE_BYTES;
        let bits = heap.device().allocate(count.div_ceil(8))?;
        Ok(Self { bits, count })
    }

    /// Clears all, of which there are enough for what the heap has now.
    fn clear_for(&mut self, heap: &Heap) -> Result<()> {
        if self.count < heap.capacity() / GRANULE_BYTES {
            *self = Self::of(heap)?;
        }
        self.bits.clear()
    }
}

/// Threads free blocks far from those that they allocated.
fn stride(count: u32) -> u64 {
    // A prime that is no divisor reaches every block once.
    [1_000_003, 65_537, 257, 1]
        .into_iter()
        .find(|prime| *prime == 1 || !u64::from(count).is_multiple_of(*prime))
        .unwrap_or(1)
}

pub(super) fn run(run: &mut Run<'_>, progress: Progress<'_>) -> Result<()> {
    let device = run.heap.device();
    let threads = run.settings.threads;
    let blocks = device.allocate(u64::from(threads) * size_of::<Block>() as u64)?;
    let mut granules = Granules::of(run.heap)?;
    let rounds = run.settings.rounds;
    let total = u64::from(rounds) * STEPS;
    for round in 0..rounds {
        let done = u64::from(round) * STEPS;
        let mut arguments = BlocksArguments {
            heap: run.heap.handle()?,
            blocks: blocks.address(),
            count: u64::from(threads),
            tally: run.tally.address(),
            first_owner: 1 + (u64::from(round) << 40),
            sizes: run.sizes(round),
            stride: 1,
        };
        // SAFETY: the arrays are as long as the arguments say and live until the end of the
        // round; the heap is this function's for that time.
        unsafe {
            run.timed::<Allocate>(&arguments)?;
            progress(done + 1, total);
            run.untimed::<Fill>(&arguments)?;
            progress(done + 2, total);
            granules.clear_for(run.heap)?;
            run.untimed::<MarkGranules>(&OverlapArguments {
                heap: arguments.heap,
                blocks: arguments.blocks,
                count: arguments.count,
                tally: arguments.tally,
                granules: granules.bits.address(),
                granule_count: granules.count,
            })?;
            if round == 0 {
                run.note_peak()?;
            }
            progress(done + 3, total);
            run.look_at(round, rounds, 2, || {
                format!("round {}: all allocated", round + 1)
            })?;
            // Every other round, another thread frees than allocated.
            arguments.stride = if round % 2 == 1 { stride(threads) } else { 1 };
            run.timed::<CheckAndFree>(&arguments)?;
        }
        run.look_at(round, rounds, 2, || {
            format!("round {}: all freed", round + 1)
        })?;
        progress(done + STEPS, total);
    }
    Ok(())
}

/// Whether one request takes the whole heap, as it must when everything was freed.
///
/// With poison, the thread that takes a block looks at every byte of it. Where that would take minutes, the
/// heap is asked whether it would give the block.
pub(crate) fn takes_whole_heap(heap: &Heap) -> Result<bool> {
    if heap.hardening().contains(Hardening::POISON) && heap.capacity() > MOST_POISON {
        heap.drain_quarantine()?;
        return Ok(heap.snapshot()?.occupancy().largest_request == heap.largest_request());
    }
    let settings = Settings {
        threads: 1,
        rounds: 1,
        least: heap.largest_request(),
        most: heap.largest_request(),
        seed: 0,
        moments: 0,
    };
    let filled = fill(heap, &settings)?;
    let taken = filled.nulls() == 0;
    filled.release()?;
    Ok(taken)
}

/// Blocks that stay allocated until they are released.
#[derive(Debug)]
pub struct Filled<'a> {
    heap: &'a Heap,
    settings: Settings,
    blocks: Memory,
    nulls: u64,
}

/// Lets `settings.threads` threads allocate a block each, which stays until it is released.
///
/// # Errors
///
/// If the device fails.
pub fn fill<'a>(heap: &'a Heap, settings: &Settings) -> Result<Filled<'a>> {
    settings.check(Workload::Mixed, heap)?;
    let _turn = heap.take_turn();
    let device = heap.device();
    let mut filled = Filled {
        heap,
        settings: *settings,
        blocks: device.allocate(u64::from(settings.threads) * size_of::<Block>() as u64)?,
        nulls: 0,
    };
    let tally = DeviceTally::new(device)?;
    let arguments = filled.arguments(&tally)?;
    // SAFETY: the array has a block for each thread; the tally lives until the launch ended.
    unsafe { heap.launch::<Allocate>(Grid::of(settings.threads), &arguments)? };
    device.synchronize()?;
    filled.nulls = tally.read()?.of(Count::Nulls);
    Ok(filled)
}

impl Filled<'_> {
    fn arguments(&self, tally: &DeviceTally) -> Result<BlocksArguments> {
        Ok(BlocksArguments {
            heap: self.heap.handle()?,
            blocks: self.blocks.address(),
            count: u64::from(self.settings.threads),
            tally: tally.address(),
            first_owner: 1,
            sizes: Sizes {
                least: self.settings.least,
                most: self.settings.most,
                seed: self.settings.seed,
            },
            stride: 1,
        })
    }

    /// The blocks; those of threads that got NULL have the address 0.
    pub(super) fn blocks(&self) -> Result<Vec<Block>> {
        self.blocks.read(0, self.settings.threads as usize)
    }

    /// Frees `going`, and keeps `staying`; both have a place for each thread, and are empty where
    /// the other is not.
    pub(super) fn release_only(&mut self, going: &[Block], staying: &[Block]) -> Result<()> {
        self.blocks.write(0, going)?;
        self.free()?;
        self.blocks.write(0, staying)
    }

    /// Threads that got NULL.
    #[must_use]
    pub fn nulls(&self) -> u64 {
        self.nulls
    }

    /// Frees the blocks.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn release(self) -> Result<()> {
        self.free()
    }

    fn free(&self) -> Result<()> {
        let _turn = self.heap.take_turn();
        let device = self.heap.device();
        let tally = DeviceTally::new(device)?;
        let arguments = self.arguments(&tally)?;
        // SAFETY: as in `fill`.
        unsafe {
            self.heap
                .launch::<Release>(Grid::of(self.settings.threads), &arguments)?;
        }
        device.synchronize()
    }
}
