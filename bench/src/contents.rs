//! Verifies blocks of any allocator: fills all, and looks whether all are still as they were filled.

use crate::bench::{Arrays, Ground};
use crate::error::{Error, Result};
use crate::figures::Figures;
use bench_kernels::contents::{Check, ContentsArguments, Fill};
use kernels::tally::{COUNTS, Count, Tally};
use scatterheap_host::{Grid, Memory};
use std::ops::AddAssign;

/// Bytes of a block for each thread that shares it.
const BYTES_OF_A_SHARE: u64 = 128;
/// Threads at most that share a block.
const MOST_SHARES: u64 = 1024;
/// Threads at most of a launch.
const MOST_THREADS: u64 = 1 << 30;

/// What was found wrong with blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Threads that got NULL.
    pub nulls: u64,
    /// Blocks that did not hold what was written.
    pub corrupt: u64,
    /// Blocks that are not aligned to 16 bytes.
    pub misaligned: u64,
}

/// Fills and checks the first `count` blocks.
pub(crate) fn verify(ground: &Ground<'_>, arrays: &Arrays, count: usize) -> Result<Faults> {
    let device = ground.device;
    let count = count as u64;
    let share = (ground.case.most / BYTES_OF_A_SHARE)
        .clamp(1, MOST_SHARES)
        .min((MOST_THREADS / count.max(1)).max(1));
    let tally = device.allocate(size_of::<Tally>() as u64)?;
    let marks = device.allocate(count * 4)?;
    tally.clear()?;
    marks.clear()?;
    let arguments = ContentsArguments {
        blocks: arrays.blocks.address(),
        sizes: arrays.sizes.as_ref().map_or(0, Memory::address),
        bytes: ground.case.most,
        count,
        share,
        marks: marks.address(),
        tally: tally.address(),
        seed: ground.plan.seed,
    };
    let threads = u32::try_from(count * share).unwrap_or(u32::MAX);
    // SAFETY: the arrays have `count` elements; the blocks are an allocator's, which says that they are ours.
    unsafe {
        device.launch::<Fill>(Grid::of(threads), &arguments)?;
        device.launch::<Check>(Grid::of(threads), &arguments)?;
    }
    device.synchronize()?;
    let counts = tally.read::<u64>(0, COUNTS)?;
    Ok(Faults {
        nulls: counts[Count::Nulls as usize],
        corrupt: counts[Count::Corrupt as usize],
        misaligned: counts[Count::Misaligned as usize],
    })
}

impl AddAssign for Faults {
    fn add_assign(&mut self, more: Self) {
        self.nulls += more.nulls;
        self.corrupt += more.corrupt;
        self.misaligned += more.misaligned;
    }
}

impl Faults {
    /// Tells what was found in `requests`, and how many these are, as they are of more than one launch.
    pub fn report_of_all(&self, figures: &mut Figures<'_>, requests: u64) -> Result<()> {
        figures.count("requests", requests);
        self.report(figures, requests)
    }

    /// Fails if blocks are no blocks, and tells of it then: they are not to be freed, nor timed.
    pub fn refuse_corrupt(&self, figures: &mut Figures<'_>, count: u64) -> Result<()> {
        match (self.corrupt, self.misaligned) {
            (0, 0) => Ok(()),
            _ => self.report(figures, count),
        }
    }

    /// Tells what was found, and fails if blocks are no blocks: then times of them are not told.
    pub fn report(&self, figures: &mut Figures<'_>, count: u64) -> Result<()> {
        figures.count("null", self.nulls);
        figures.count("corrupt", self.corrupt);
        if self.misaligned > 0 {
            figures.count("misaligned", self.misaligned);
        }
        if self.corrupt == 0 && self.misaligned == 0 {
            return Ok(());
        }
        Err(Error::Unfit(format!(
            "of {count} blocks, {} did not hold what was written and {} were not aligned to 16 bytes, so times of them are worth nothing",
            self.corrupt, self.misaligned
        )))
    }
}

/// Bytes from the first block's first byte to the last block's last, over the bytes asked for.
#[allow(clippy::cast_precision_loss, reason = "a ratio, for people")]
pub(crate) fn range_ratio(blocks: &[u64], sizes: impl Iterator<Item = u64>) -> Option<f64> {
    let (mut first, mut end, mut bytes) = (u64::MAX, 0, 0);
    for (block, size) in blocks.iter().zip(sizes).filter(|(block, _)| **block != 0) {
        first = first.min(*block);
        end = end.max(block + size);
        bytes += size;
    }
    (bytes > 0).then(|| (end - first) as f64 / bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_that_of_the_blocks_that_there_are() {
        let sizes = || std::iter::repeat(16);
        assert_eq!(range_ratio(&[64, 0, 16], sizes()), Some(2.0));
        assert_eq!(range_ratio(&[32, 16], sizes()), Some(1.0));
        assert_eq!(range_ratio(&[0, 0], sizes()), None);
    }
}
