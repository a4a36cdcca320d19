//! `uniform`, `mixed`, `sizes`, `scale`, `large`, `warp`: all allocate, then all free, each in a launch that is
//! timed. `frag` looks only where the blocks lie.
//!
//! Contents are verified before and after what is timed, so that a heap that was used is looked at, too; which
//! requests got NULL is counted in every launch.

use super::counters::Counters;
use crate::allocator::Request;
use crate::bench::{Arrays, Bench, Ground};
use crate::case::Test;
use crate::contents::{Faults, range_ratio, verify};
use crate::error::Result;
use crate::{Allocator, figures::Figures};

/// Seconds to microseconds.
pub(super) const MICROSECONDS: f64 = 1e6;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    run_after(bench, |_| Ok(()))
}

/// The same, each time after what else is enqueued before.
pub(super) fn run_after(
    bench: &mut Bench<'_>,
    mut before: impl FnMut(&mut dyn Allocator) -> Result<()>,
) -> Result<()> {
    let n = bench.ground.case.n;
    let arrays = bench.ground.arrays(n as usize)?;
    if bench.allocator.is_floor() {
        time(bench, &arrays, before)?.tell(&mut bench.figures);
        return Ok(());
    }
    before(bench.allocator)?;
    let first = check(bench, &arrays)?;
    first.tell_spread(&mut bench.figures);
    let times = time(bench, &arrays, &mut before)?;
    before(bench.allocator)?;
    let last = check(bench, &arrays)?;
    let mut faults = first.faults;
    faults += times.faults;
    faults += last.faults;
    faults.report_of_all(&mut bench.figures, (times.launches + 2) * u64::from(n))?;
    times.tell(&mut bench.figures);
    Ok(())
}

pub(super) fn spread(bench: &mut Bench<'_>) -> Result<()> {
    let n = bench.ground.case.n;
    let arrays = bench.ground.arrays(n as usize)?;
    let checked = check(bench, &arrays)?;
    checked.tell_spread(&mut bench.figures);
    checked.faults.report(&mut bench.figures, n.into())
}

/// Whether one lane of each warp works.
fn is_of_warps(ground: &Ground<'_>) -> bool {
    ground.case.test == Test::Warp
}

/// Enqueues the launch that allocates.
///
/// # Safety
///
/// The request's arrays must be as long as it says.
unsafe fn allocate(allocator: &mut dyn Allocator, of_warps: bool, request: &Request) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        if of_warps {
            allocator.allocate_of_warps(request)
        } else {
            allocator.allocate(request)
        }
    }
}

/// Enqueues the launch that frees.
///
/// # Safety
///
/// As for `allocate`, and the blocks must be the allocator's.
unsafe fn free(allocator: &mut dyn Allocator, of_warps: bool, request: &Request) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        if of_warps {
            allocator.free_of_warps(request)
        } else {
            allocator.free(request)
        }
    }
}

/// What a launch gave.
struct Checked {
    faults: Faults,
    range_ratio: Option<f64>,
}

impl Checked {
    fn tell_spread(&self, figures: &mut Figures<'_>) {
        if let Some(ratio) = self.range_ratio {
            figures.one("range_ratio", ratio);
        }
    }
}

/// Allocates, verifies the blocks and looks where they are, and frees them; fails if they are corrupt.
fn check(bench: &mut Bench<'_>, arrays: &Arrays) -> Result<Checked> {
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let (of_warps, n) = (is_of_warps(ground), ground.case.n);
    let request = arrays.request(&ground.case, 0, n);
    // SAFETY: the arrays have `n` elements.
    unsafe { allocate(*allocator, of_warps, &request)? };
    ground.device.synchronize()?;
    let range_ratio = find_range_ratio(ground, arrays)?;
    let faults = verify(ground, arrays, n as usize)?;
    faults.refuse_corrupt(figures, n.into())?;
    // SAFETY: the blocks were just allocated, and found to be ours.
    unsafe { free(*allocator, of_warps, &request)? };
    ground.device.synchronize()?;
    Ok(Checked {
        faults,
        range_ratio,
    })
}

fn find_range_ratio(ground: &Ground<'_>, arrays: &Arrays) -> Result<Option<f64>> {
    let count = ground.case.n as usize;
    let blocks = arrays.blocks.read::<u64>(0, count)?;
    Ok(match &arrays.sizes {
        Some(_) => range_ratio(&blocks, ground.sizes(count).into_iter().map(u64::from)),
        None => range_ratio(&blocks, std::iter::repeat(ground.case.most)),
    })
}

/// What was timed.
struct Times {
    /// Microseconds of each launch that allocates, and that frees.
    allocating: Vec<f64>,
    freeing: Vec<f64>,
    /// Launches that allocate, warm-ups included, and what was wrong with what they gave.
    launches: u64,
    faults: Faults,
}

impl Times {
    fn tell(&self, figures: &mut Figures<'_>) {
        figures.spread("alloc_us", &self.allocating);
        figures.spread("free_us", &self.freeing);
    }
}

/// Times the two launches, one after the other, each time after what else is enqueued before.
fn time(
    bench: &mut Bench<'_>,
    arrays: &Arrays,
    mut before: impl FnMut(&mut dyn Allocator) -> Result<()>,
) -> Result<Times> {
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let of_warps = is_of_warps(ground);
    let (device, n) = (ground.device, ground.case.n);
    let request = arrays.request(&ground.case, 0, n);
    let counters = Counters::new(device)?;
    let (mut allocating, mut freeing) = (Vec::new(), Vec::new());
    let launches = ground.sample(figures, |counts| {
        before(*allocator)?;
        // SAFETY: the arrays have `n` elements.
        let allocated =
            device.time_calls(|| unsafe { allocate(*allocator, of_warps, &request) })?;
        counters.count_nulls(device, arrays, n)?;
        // SAFETY: as above; what is freed was just allocated.
        let freed = device.time_calls(|| unsafe { free(*allocator, of_warps, &request) })?;
        if counts {
            allocating.push(allocated * MICROSECONDS);
            freeing.push(freed * MICROSECONDS);
        }
        Ok(())
    })?;
    Ok(Times {
        allocating,
        freeing,
        launches,
        faults: counters.read()?,
    })
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, Test};
    use crate::tests::try_out::{HEAP_BYTES, try_out_leaking};

    #[test]
    fn nulls_of_launches_that_are_timed_are_counted() {
        let case = |n| Case {
            test: Test::Uniform,
            least: 4096,
            most: 4096,
            n,
        };
        // All fit once, but not as often as they are timed.
        let n = u32::try_from(HEAP_BYTES / 4096 / 2).expect("few");
        let found = try_out_leaking(case(n));
        assert!(found.value("null") > 0.0, "{found:?}");
        assert!(found.value("null") < found.value("requests"), "{found:?}");
        found.expect_zero(&["corrupt"]);
        // A warm-up, three samples, and a check before and after them.
        let requests = found.value("requests");
        assert!((requests - f64::from(n) * 6.0).abs() < 0.5, "{found:?}");
    }
}
