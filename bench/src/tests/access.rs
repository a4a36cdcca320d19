//! `access`: how fast blocks are read that threads allocated; up to a warp of threads shares a
//! block. The baseline reads blocks that lie side by side in one array.

use super::counters::Counters;
use crate::bench::{Bench, Ground};
use crate::contents::Faults;
use crate::error::{Error, Result};
use crate::figures::Figures;
use bench_kernels::access::{AccessArguments, PIECE_BYTES, Read, Write};
use scatterheap_host::{Grid, Memory};
use simt::warp::LANES;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let Bench {
        ground,
        allocator,
        figures,
    } = bench;
    let n = ground.case.n;
    let arrays = ground.arrays(n as usize)?;
    let request = arrays.request(&ground.case, 0, n);
    // SAFETY: the array has `n` elements.
    unsafe { allocator.allocate(&request)? };
    let outcome = read(ground, figures, &arrays.blocks);
    // SAFETY: the blocks were just allocated.
    unsafe { allocator.free(&request)? };
    ground.device.synchronize()?;
    outcome
}

/// Measures one array.
pub(super) fn packed(ground: &Ground<'_>, figures: &mut Figures<'_>) -> Result<()> {
    let (n, size) = (u64::from(ground.case.n), ground.case.most);
    let array = ground.device.allocate(n * size)?;
    let arrays = ground.arrays(ground.case.n as usize)?;
    let addresses: Vec<u64> = (0..n).map(|index| array.address() + index * size).collect();
    arrays.blocks.write(0, &addresses)?;
    read(ground, figures, &arrays.blocks)
}

/// Writes the blocks, verifies them and times how long reading them takes.
fn read(ground: &Ground<'_>, figures: &mut Figures<'_>, blocks: &Memory) -> Result<()> {
    let (device, n) = (ground.device, ground.case.n);
    check_addresses(blocks, n, figures)?;
    let counters = Counters::new(device)?;
    let pieces = (ground.case.most / PIECE_BYTES).max(1);
    let share = pieces.min(LANES.into());
    let arguments = AccessArguments {
        blocks: blocks.address(),
        count: n.into(),
        pieces,
        share,
        faults: counters.address(),
    };
    let grid = Grid::of(u32::try_from(u64::from(n) * share).unwrap_or(u32::MAX));
    let read = || -> Result<()> {
        // SAFETY: there are `n` blocks with that many pieces, aligned to 16.
        unsafe { device.launch::<Read>(grid, &arguments)? };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { device.launch::<Write>(grid, &arguments)? };
    read()?;
    counters.read()?.report(figures, n.into())?;
    let mut speeds = Vec::new();
    #[allow(clippy::cast_precision_loss, reason = "a speed, for people")]
    let gigabytes = (u64::from(n) * pieces * PIECE_BYTES) as f64 / 1e9;
    ground.sample(figures, |counts| {
        let time = device.time_calls(read)?;
        if counts {
            speeds.push(gigabytes / time);
        }
        Ok(())
    })?;
    figures.spread("read_gbps", &speeds);
    Ok(())
}

/// NULL cannot be read, nor what is not aligned.
fn check_addresses(blocks: &Memory, n: u32, figures: &mut Figures<'_>) -> Result<()> {
    let addresses = blocks.read::<u64>(0, n as usize)?;
    let count = |is_wrong: fn(&u64) -> bool| {
        addresses.iter().filter(|block| is_wrong(block)).count() as u64
    };
    let faults = Faults {
        nulls: count(|block| *block == 0),
        corrupt: 0,
        misaligned: count(|block| !block.is_multiple_of(PIECE_BYTES)),
    };
    if faults.misaligned > 0 {
        return faults.report(figures, n.into());
    }
    if faults.nulls > 0 {
        figures.count("null", faults.nulls);
        let nulls = faults.nulls;
        return Err(Error::Unfit(format!(
            "{nulls} of {n} threads got NULL, so that there is less to read"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, Test};
    use crate::tests::try_out::{try_baseline, try_out};

    const METRICS: [&str; 3] = ["null", "corrupt", "read_gbps"];

    fn case(size: u64) -> Case {
        Case {
            test: Test::Access,
            least: size,
            most: size,
            n: 100,
        }
    }

    #[test]
    fn blocks_are_read_as_they_were_written() {
        for size in [16, 48, 512, 4096] {
            let found = try_out(case(size)).into_iter();
            for found in found.chain([try_baseline(case(size))]) {
                found.expect_metrics(&METRICS);
                found.expect_zero(&["null", "corrupt"]);
            }
        }
    }
}
