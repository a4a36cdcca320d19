//! The tests: what each does with one allocator in one case. A file for each group.

mod access;
mod aged;
mod alloc_heavy;
mod blocks;
mod churn;
mod churned;
mod counters;
mod full;
mod graph;
mod init;
mod latency;
mod new_heap;
mod resources;
#[cfg(test)]
mod try_out;
mod workgen;

pub(crate) use graph::VERTICES as GRAPH_VERTICES;
pub(crate) use latency::ROUNDS as LATENCY_ROUNDS;

use crate::bench::{Bench, Ground};
use crate::case::Test;
use crate::error::Result;
use crate::figures::Figures;

/// Measures an allocator in a case.
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<()> {
    match bench.ground.case.test {
        Test::Uniform
        | Test::Mixed
        | Test::Sizes
        | Test::Scale
        | Test::MixedScale
        | Test::Large
        | Test::Warp => blocks::run(bench),
        Test::UniformAged | Test::MixedAged | Test::SizesAged => aged::run(bench),
        Test::MixedChurned => churned::run(bench),
        Test::UniformNew | Test::MixedNew => new_heap::run(bench),
        Test::Churn => churn::run(bench),
        Test::Latency => latency::run(bench),
        Test::Oom | Test::Oommix => full::run(bench),
        Test::Frag => blocks::spread(bench),
        Test::Init => init::run(bench),
        Test::Resources => resources::run(bench),
        Test::Workgen => workgen::run(bench),
        Test::Access => access::run(bench),
        Test::Graph => graph::run(bench),
        Test::AllocHeavy => alloc_heavy::run(bench),
    }
}

/// Name in the table of the baseline that a test has, if it has one.
#[must_use]
pub fn baseline_name(test: Test) -> Option<&'static str> {
    baseline(test).map(|(name, _)| name)
}

/// Measures what stands beside the allocators in a test but is none.
type MeasureBaseline = fn(&Ground<'_>, &mut Figures<'_>) -> Result<()>;

/// The baseline of a test and its name in the table, if it has one.
pub(crate) fn baseline(test: Test) -> Option<(&'static str, MeasureBaseline)> {
    match test {
        Test::Workgen => Some(("two_pass", workgen::two_passes)),
        Test::Access => Some(("packed", access::packed)),
        _ => None,
    }
}
