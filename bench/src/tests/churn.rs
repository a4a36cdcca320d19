//! `churn`: every thread allocates, writes, reads, verifies and frees, again and again, in one launch.

use super::blocks::MICROSECONDS;
use crate::allocator::Churn;
use crate::bench::Bench;
use crate::error::{Error, Result};

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let faults = ground.device.allocate(8)?;
    faults.clear()?;
    let narrow = |number| u32::try_from(number).unwrap_or(u32::MAX);
    let churn = Churn {
        n: ground.case.n,
        rounds: ground.plan.churn_rounds,
        least: narrow(ground.case.least),
        most: narrow(ground.case.most),
        seed: narrow(ground.plan.seed & u64::from(u32::MAX)),
        faults: faults.address(),
    };
    let (mut times, mut launches) = (Vec::new(), 0);
    ground.sample(figures, |counts| {
        // SAFETY: there are two counters.
        let time = ground
            .device
            .time_calls(|| unsafe { allocator.churn(&churn) })?;
        launches += 1;
        if counts {
            times.push(time * MICROSECONDS);
        }
        Ok(())
    })?;
    let found = faults.read::<u32>(0, 2)?;
    let of_a_launch = u64::from(churn.n) * u64::from(churn.rounds);
    figures.count("requests", launches * of_a_launch);
    figures.count("null", found[0].into());
    figures.count("corrupt", found[1].into());
    if found[1] > 0 {
        let corrupt = found[1];
        return Err(Error::Unfit(format!(
            "{corrupt} blocks did not hold what was written, so the times are worth nothing"
        )));
    }
    figures.spread("churn_us", &times);
    Ok(())
}
