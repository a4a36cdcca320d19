//! Ratios to the floor, picked from the rows of a table.

use super::axis::{bytes_text, can_show, count_text};
use super::join::Joined;
use super::line::float;
use super::style::{FLOOR, rank};
use crate::case::{Case, Test};
use crate::target::{Target, target};
use std::collections::BTreeMap;

/// One case and what it cost each allocator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub key: Key,
    pub label: String,
    /// Allocators and their times in multiples of the floor's.
    pub bars: Vec<(String, f64)>,
    /// What scatterheap's should be at most.
    pub target: Option<f64>,
}

/// Tests whose launches have a floor, in the order of the picture. (Not those that compare sizes with each other.)
const TESTS: [Test; 11] = [
    Test::Uniform,
    Test::UniformAged,
    Test::Mixed,
    Test::MixedAged,
    Test::MixedChurned,
    Test::UniformNew,
    Test::MixedNew,
    Test::Warp,
    Test::Large,
    Test::Scale,
    Test::MixedScale,
];

/// A case: the place of its test, size and number of threads.
pub(super) type Key = (usize, u64, u64);

/// Groups of bars for a metric, each figure over the floor of its own run.
pub(super) fn groups(tables: &Joined, metric: &str) -> Vec<Group> {
    let rows = &tables.rows;
    // Targets are for a GPU, which has so many threads.
    let is_full = rows.iter().any(|row| row.n >= 1 << 20);
    let mut most_threads = BTreeMap::<&str, u64>::new();
    for row in rows {
        let most = most_threads.entry(&row.test).or_default();
        *most = row.n.max(*most);
    }
    let mut cases = BTreeMap::<Key, BTreeMap<(usize, &str), f64>>::new();
    for row in rows
        .iter()
        .filter(|row| row.metric == metric && row.allocator != FLOOR)
    {
        let test = TESTS.iter().position(|test| test.name() == row.test);
        let (Some(test), Some(floor)) = (test, tables.floor(row)) else {
            continue;
        };
        let ratio = row.value / floor;
        if can_show(ratio) {
            let bars = cases.entry((test, row.size, row.n)).or_default();
            bars.insert((rank(&row.allocator).0, &row.allocator), ratio);
        }
    }
    let groups = cases.into_iter().map(|((test, size, n), bars)| Group {
        key: (test, size, n),
        label: label(TESTS[test], size, n, most_threads[TESTS[test].name()]),
        bars: bars
            .into_iter()
            .map(|((_, allocator), ratio)| (allocator.to_owned(), ratio))
            .collect(),
        target: target_of(TESTS[test], size, n, metric).filter(|_| is_full),
    });
    groups.collect()
}

/// A case in words; its threads, too, if there are fewer than in others of its test.
fn label(test: Test, size: u64, n: u64, most_threads: u64) -> String {
    let bytes = bytes_text(float(size));
    let name = test.name().replace('_', " ");
    let case = match test {
        Test::Mixed | Test::MixedAged | Test::MixedChurned | Test::MixedNew => {
            format!("{name}, 16 B to {bytes}")
        }
        Test::Scale => bytes,
        Test::MixedScale => format!("16 B to {bytes}"),
        _ => format!("{name}, {bytes}"),
    };
    if !matches!(test, Test::Scale | Test::MixedScale) && n == most_threads {
        case
    } else {
        format!("{case}, {}", count_text(float(n)))
    }
}

/// What a ratio of scatterheap's is to be at most, on a GPU.
fn target_of(test: Test, size: u64, n: u64, metric: &str) -> Option<f64> {
    let case = Case {
        test,
        least: size,
        most: size,
        n: u32::try_from(n).ok()?,
    };
    match target(&case, metric)? {
        Target::TimesFloor(times) => Some(times),
        Target::TimesNeighbour(_) | Target::AtMost(_) | Target::AtLeast(_) => None,
    }
}
