//! `mixed_churned`: before each pair of launches that is timed, as in `mixed`, a launch churns in the same heap, with blocks of the same sizes. What an allocator
//! does for launches that allocate and free at the same time may cost those that follow.

use super::{blocks, churn};
use crate::allocator::Churn;
use crate::bench::Bench;
use crate::error::Result;

/// Threads of the launch that churns, at most: as many as in `churn`.
const MOST_THREADS: u32 = 1 << 17;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    if bench.allocator.is_floor() {
        return blocks::run(bench);
    }
    let faults = churn::Faults::new(&bench.ground)?;
    let churn = Churn {
        n: bench.ground.case.n.min(MOST_THREADS),
        ..faults.churn(&bench.ground)
    };
    // SAFETY: there are two counters, and sizes of cases are 16 bytes at least.
    blocks::run_after(bench, |allocator| unsafe { allocator.churn(&churn) })?;
    let (null, corrupt) = faults.count()?;
    bench.figures.count("churned_null", null.into());
    churn::fail_if_corrupt(corrupt)
}
