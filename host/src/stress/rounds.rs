//! Workloads in which each thread works alone for some rounds, in launches of a few rounds each.

use super::{FIRST_OWNER, Progress, Run};
use crate::device::Grid;
use crate::error::Result;
use kernels::blocks::{Block, BlocksArguments, CheckAndFree};
use kernels::churn::{Churn, HELD, RoundsArguments};
use kernels::divergent::Divergent;
use kernels::grow::Grow;
use simt::kernel::Kernel;

/// Launches that a workload is cut into, so that progress can be shown and the heap be looked at: more for a timeline.
const LAUNCHES: u32 = 8;

fn launches<K: Kernel<Arguments = RoundsArguments>>(
    run: &mut Run<'_>,
    blocks_per_thread: u64,
    progress: Progress<'_>,
) -> Result<()> {
    let count = u64::from(run.settings.threads) * blocks_per_thread;
    let held = run
        .heap
        .device()
        .allocate(count * size_of::<Block>() as u64)?;
    held.clear()?;
    let rounds = run.settings.rounds;
    let launches = run.launches(LAUNCHES);
    for launch in 0..launches {
        let share = rounds / launches + u32::from(launch < rounds % launches);
        let arguments = RoundsArguments {
            // The blocks keep their owners from launch to launch.
            first_owner: FIRST_OWNER,
            held: held.address(),
            ..run.rounds(launch, share)?
        };
        // SAFETY: the table has the blocks that a thread may hold.
        unsafe { run.timed::<K>(&arguments)? };
        run.look_at(launch, launches, 1, || format!("launch {}", launch + 1))?;
        progress(u64::from(launch) + 1, u64::from(launches) + 1);
    }
    run.note_peak()?;
    let arguments = BlocksArguments {
        heap: run.heap.handle()?,
        blocks: held.address(),
        count,
        tally: run.tally.address(),
        first_owner: FIRST_OWNER,
        sizes: run.sizes(0),
        stride: 1,
    };
    let grid = Grid::of(u32::try_from(count).unwrap_or(u32::MAX));
    // SAFETY: the table is the array of blocks, each as its owner filled it.
    unsafe { run.timed_on::<CheckAndFree>(grid, &arguments)? };
    run.look_at(0, 1, 1, || "all freed".into())?;
    progress(u64::from(launches) + 1, u64::from(launches) + 1);
    Ok(())
}

pub(super) fn churn(run: &mut Run<'_>, progress: Progress<'_>) -> Result<()> {
    launches::<Churn>(run, HELD, progress)
}

pub(super) fn divergent(run: &mut Run<'_>, progress: Progress<'_>) -> Result<()> {
    launches::<Divergent>(run, 1, progress)
}

pub(super) fn grow(run: &mut Run<'_>, progress: Progress<'_>) -> Result<()> {
    launches::<Grow>(run, 1, progress)
}
