//! Litmus tests: whether what a thread did before `free` is seen by the next owner after `malloc`, tried
//! as often as one likes, in tiny heaps where threads meet all the time.

mod cells;
mod report;
mod variant;

pub use report::Report;
pub use variant::Variant;

use crate::device::{Device, Grid};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::stress::Progress;
use cells::CellMemory;
use kernels::litmus::stamp::{ROUND_BITS, THREAD_BITS};
use kernels::litmus::tally::{LITMUS_COUNTS, LitmusTally};
use kernels::litmus::{CountCrossings, LitmusArguments, Play, Prepare, PrepareArguments, Record};
use serde::Serialize;
use variant::Shape;

/// Rounds of a launch on a GPU, where many threads play.
const GPU_ROUNDS: u64 = 64;
/// Rounds of a launch on the CPU, where few threads play at once.
const CPU_ROUNDS: u64 = 2048;
/// Threads of a launch on a GPU, about.
const GPU_THREADS: u64 = 1 << 16;
/// Threads of a launch on the CPU, about.
const CPU_THREADS: u64 = 16;

/// How large a test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Rounds of all threads together, at least.
    pub tries: u64,
    /// Different seeds give different sizes.
    pub seed: u64,
    /// If not 0, one round of this many leaves a wrong word in its block, which must be noticed.
    pub lie: u64,
}

/// A number of threads and rounds that a launch has.
struct Plan {
    cells: u64,
    threads: u64,
    rounds: u64,
    launches: u64,
    grid: Grid,
}

impl Plan {
    fn new(device: &Device, shape: &Shape, settings: &Settings) -> Result<Self> {
        let gpu = device.is_gpu();
        let (threads, rounds) = if gpu {
            (GPU_THREADS, GPU_ROUNDS)
        } else {
            (CPU_THREADS, CPU_ROUNDS)
        };
        let of_a_cell = shape.players * shape.width;
        let cells = (threads / of_a_cell).max(1);
        let threads = cells * of_a_cell;
        let launches = settings.tries.div_ceil(threads * rounds);
        // Stamps have 20 bits for the launch, of which seeds take the upper half.
        if settings.tries == 0 || launches >= 1 << 16 {
            return Err(Error::BadSettings {
                asked: format!("{} tries", settings.tries),
                advice: "a run has 1 to about 270,000,000,000 on a GPU, 2,000,000,000 on the CPU",
            });
        }
        debug_assert!(threads < 1 << THREAD_BITS && rounds < 1 << ROUND_BITS);
        let count = u32::try_from(threads).unwrap_or(u32::MAX);
        let grid = if gpu {
            Grid::of(count)
        } else {
            // A block is one worker's, so players of a cell must be of several.
            Grid {
                blocks: count,
                block_dim: 1,
            }
        };
        Ok(Self {
            cells,
            threads,
            rounds,
            launches,
            grid,
        })
    }
}

/// Runs a litmus test on a device, in heaps of its own.
///
/// # Errors
///
/// If there are too many tries, too little memory, or the device fails. What the test finds is in the
/// report.
pub fn run(
    device: &Device,
    variant: Variant,
    settings: &Settings,
    progress: Progress<'_>,
) -> Result<Report> {
    let shape = variant.shape(device.is_gpu());
    let plan = Plan::new(device, &shape, settings)?;
    let cells = CellMemory::new(device, plan.cells, shape.step)?;
    let bytes = plan.threads * plan.rounds * size_of::<Record>() as u64;
    let records = device.allocate(bytes)?;
    records.clear()?;
    let tally = device.allocate(size_of::<LitmusTally>() as u64)?;
    tally.clear()?;
    prepare(device, &shape, &cells, &tally)?;

    let mut seconds = 0.0;
    for launch in 0..plan.launches {
        let arguments = LitmusArguments {
            cells: cells.cells(),
            records: records.address(),
            tally: tally.address(),
            threads: plan.threads,
            rounds: plan.rounds,
            // The seed is in the stamps, by which sizes are drawn.
            launch: (settings.seed & 0xf) << 16 | launch,
            sizes: shape.sizes,
            players: shape.players,
            width: shape.width,
            apart: u64::from(device.is_gpu()),
            malloc_turns: shape.malloc_turns,
            free_turns: shape.free_turns,
            resize: u64::from(shape.resize),
            pause: u64::from(!device.is_gpu()),
            lie: settings.lie,
        };
        // SAFETY: cells, records and tally are as the arguments say, and live until the launches ended.
        unsafe {
            seconds += device.time::<Play>(plan.grid, &arguments)?;
            device.launch::<CountCrossings>(plan.grid, &arguments)?;
        }
        progress(launch + 1, plan.launches);
    }
    device.synchronize()?;
    let counts = tally.read::<u64>(0, LITMUS_COUNTS)?;
    let violations = cells.violations()?;
    Ok(Report::new(
        device, variant, settings, &counts, seconds, violations,
    ))
}

/// Makes the cells' heaps empty, but for what nobody is to have.
fn prepare(device: &Device, shape: &Shape, cells: &CellMemory, tally: &Memory) -> Result<()> {
    let arguments = PrepareArguments {
        cells: cells.cells(),
        count: cells.count(),
        kept_run: cells.capacity() - shape.free_pages * cells.page_bytes(),
        kept_slot: shape.sizes[0],
        kept_slots: shape.kept_slots,
        tally: tally.address(),
    };
    let count = u32::try_from(cells.count()).unwrap_or(u32::MAX);
    // SAFETY: the cells' heads were written, and nobody plays yet.
    unsafe { device.launch::<Prepare>(Grid::of(count), &arguments)? };
    device.synchronize()
}
