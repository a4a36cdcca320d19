//! One allocator in one case: what the tests have at hand.

use crate::allocator::{Allocator, Request};
use crate::case::Case;
use crate::error::Result;
use crate::figures::Figures;
use crate::plan::Plan;
use kernels::sizes::Sizes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use scatterheap_host::{Device, Memory};
use std::time::{Duration, Instant};

/// Samples that even a slow allocator gives.
const LEAST_SAMPLES: usize = 3;

/// The ground on which something is measured.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    /// The device.
    pub device: &'a Device,
    /// The plan.
    pub plan: &'a Plan,
    /// The case.
    pub case: Case,
}

/// An allocator on that ground, with an empty heap, and where its figures go.
pub(crate) struct Bench<'a> {
    pub ground: Ground<'a>,
    pub allocator: &'a mut dyn Allocator,
    pub figures: Figures<'a>,
}

/// The arrays of a request.
pub(crate) struct Arrays {
    /// Addresses of blocks.
    pub blocks: Memory,
    /// Sizes, if they are mixed.
    pub sizes: Option<Memory>,
}

impl Ground<'_> {
    /// Random numbers that are the same for each allocator.
    pub fn random(&self) -> StdRng {
        StdRng::seed_from_u64(self.plan.seed)
    }

    /// Sizes that `count` threads ask for, in the case's range.
    pub fn sizes(&self, count: usize) -> Vec<u32> {
        sizes_of(self.case.least, self.case.most, self.plan.seed, count)
    }

    /// Arrays for `count` blocks, all NULL, with sizes if the case has mixed ones.
    pub fn arrays(&self, count: usize) -> Result<Arrays> {
        let blocks = self.device.allocate(count as u64 * 8)?;
        blocks.clear()?;
        let sizes = if self.case.least == self.case.most {
            None
        } else {
            let sizes = self.device.allocate(count as u64 * 4)?;
            sizes.write(0, &self.sizes(count))?;
            Some(sizes)
        };
        Ok(Arrays { blocks, sizes })
    }

    /// Takes samples as often as the plan says, warm-ups before. A slow allocator gives fewer; how many is told.
    /// Gives how often `take` was called, warm-ups included.
    pub fn sample(
        &self,
        figures: &mut Figures<'_>,
        mut take: impl FnMut(bool) -> Result<()>,
    ) -> Result<u64> {
        let mut calls = 0;
        let mut take = |counts| {
            calls += 1;
            take(counts)
        };
        let start = Instant::now();
        let patience = Duration::from_secs_f64(self.plan.patience);
        for _ in 0..self.plan.warm_ups {
            take(false)?;
            if start.elapsed() > patience {
                break;
            }
        }
        let asked = self.plan.samples.max(1) as usize;
        for taken in 0..asked {
            if taken >= LEAST_SAMPLES && start.elapsed() > patience {
                figures.count("samples", taken as u64);
                break;
            }
            take(true)?;
        }
        Ok(calls)
    }
}

impl Arrays {
    /// The request for `n` blocks from block `first` on.
    pub fn request(&self, case: &Case, first: usize, n: u32) -> Request {
        Request {
            blocks: self.blocks.address() + first as u64 * 8,
            sizes: self
                .sizes
                .as_ref()
                .map_or(0, |sizes| sizes.address() + first as u64 * 4),
            size: u32::try_from(case.most).unwrap_or(u32::MAX),
            n,
        }
    }
}

/// Sizes from `least` to `most` that `count` threads ask for.
pub(crate) fn sizes_of(least: u64, most: u64, seed: u64, count: usize) -> Vec<u32> {
    let sizes = Sizes { least, most, seed };
    let of = |thread| u32::try_from(sizes.of(thread, 0)).unwrap_or(u32::MAX);
    (0..count as u64).map(of).collect()
}
