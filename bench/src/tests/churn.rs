//! `churn`: every thread allocates, writes, reads, verifies and frees, again and again, in one launch.

use super::blocks::MICROSECONDS;
use crate::allocator::Churn;
use crate::bench::{Bench, Ground};
use crate::error::{Error, Result};
use scatterheap_host::Memory;

/// What went wrong in churns, counted by the kernels.
pub(super) struct Faults {
    /// Requests that got NULL, and blocks that did not hold what was written.
    counters: Memory,
}

impl Faults {
    pub fn new(ground: &Ground<'_>) -> Result<Self> {
        let counters = ground.device.allocate(8)?;
        counters.clear()?;
        Ok(Self { counters })
    }

    /// A churn of the case's sizes.
    pub fn churn(&self, ground: &Ground<'_>) -> Churn {
        let narrow = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Churn {
            n: ground.case.n,
            rounds: ground.plan.churn_rounds,
            least: narrow(ground.case.least),
            most: narrow(ground.case.most),
            seed: narrow(ground.plan.seed & u64::from(u32::MAX)),
            faults: self.counters.address(),
        }
    }

    /// What was counted, in launches that have ended: the requests that got NULL, and the blocks.
    pub fn count(&self) -> Result<(u32, u32)> {
        let found = self.counters.read::<u32>(0, 2)?;
        Ok((found[0], found[1]))
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let faults = Faults::new(ground)?;
    let churn = faults.churn(ground);
    let mut times = Vec::new();
    let launches = ground.sample(figures, |counts| {
        // SAFETY: there are two counters, and sizes of cases are 16 bytes at least.
        let time = ground
            .device
            .time_calls(|| unsafe { allocator.churn(&churn) })?;
        if counts {
            times.push(time * MICROSECONDS);
        }
        Ok(())
    })?;
    let of_a_launch = u64::from(churn.n) * u64::from(churn.rounds);
    figures.count("requests", launches * of_a_launch);
    let (null, corrupt) = faults.count()?;
    figures.count("null", null.into());
    figures.count("corrupt", corrupt.into());
    fail_if_corrupt(corrupt)?;
    figures.spread("churn_us", &times);
    Ok(())
}

/// Fails if contents of so many blocks were not what they should be.
pub(super) fn fail_if_corrupt(corrupt: u32) -> Result<()> {
    if corrupt > 0 {
        return Err(Error::Unfit(format!(
            "{corrupt} blocks did not hold what was written, so the times are worth nothing"
        )));
    }
    Ok(())
}
