//! Workloads in which each thread works alone for some rounds, in launches of a few rounds each.

use super::{Progress, Run};
use crate::error::Result;
use kernels::churn::{Churn, RoundsArguments};
use kernels::divergent::Divergent;
use kernels::grow::Grow;
use simt::kernel::Kernel;

/// Launches that a workload is cut into, so that progress can be shown.
const LAUNCHES: u32 = 8;

fn launches<K: Kernel<Arguments = RoundsArguments>>(
    run: &mut Run<'_>,
    progress: Progress<'_>,
) -> Result<()> {
    let rounds = run.settings.rounds;
    let count = rounds.min(LAUNCHES);
    for launch in 0..count {
        let share = rounds / count + u32::from(launch < rounds % count);
        let arguments = run.rounds(launch, share)?;
        // SAFETY: the heap and the tally are as the kernel says.
        unsafe { run.timed::<K>(&arguments)? };
        progress(u64::from(launch) + 1, u64::from(count));
    }
    Ok(())
}

pub(super) fn churn(run: &mut Run<'_>, progress: Progress<'_>) -> Result<()> {
    launches::<Churn>(run, progress)
}

pub(super) fn divergent(run: &mut Run<'_>, progress: Progress<'_>) -> Result<()> {
    launches::<Divergent>(run, progress)
}

pub(super) fn grow(run: &mut Run<'_>, progress: Progress<'_>) -> Result<()> {
    launches::<Grow>(run, progress)
}
