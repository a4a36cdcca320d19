//! Time of a launch over the number of its threads: malloc on the left, free on the right, a row
//! for a size.

use super::axis::{bytes_text, threads_text};
use super::error::Result;
use super::figure::Figure;
use super::join::Joined;
use super::line::{float, lines};
use super::panel::{XAxis, panels};
use super::style::{Colours, FLOOR};
use crate::row::Row;
use std::collections::{BTreeMap, BTreeSet};

const X_AXIS: XAxis = XAxis {
    name: "threads",
    text: threads_text,
};

/// Draws the rows of the test `scale`.
pub(super) fn draw(tables: &Joined, machine: &str) -> Result<Option<String>> {
    let rows = &tables.rows;
    let of_test = rows.iter().filter(|row| row.test == "scale");
    let sizes = sizes(of_test.clone());
    let mut rows_of_panels = Vec::new();
    for size in &sizes {
        let of_size: Vec<&Row> = of_test.clone().filter(|row| row.size == *size).collect();
        let bytes = bytes_text(float(*size));
        let diagrams = [("malloc", "alloc_us"), ("free", "free_us")].map(|(what, metric)| {
            let title = format!("{what}, {bytes}");
            (title, lines(&of_size, metric, |row| row.n))
        });
        rows_of_panels.push(panels(diagrams.into(), &X_AXIS));
    }
    rows_of_panels.retain(|panels| !panels.is_empty());
    if rows_of_panels.is_empty() {
        return Ok(None);
    }
    let figure = Figure {
        title: "Time for different numbers of threads to malloc a block each, and to free it"
            .into(),
        machine,
        rows: rows_of_panels,
    };
    figure.draw(&Colours::new(rows)).map(Some)
}

/// Of the sizes that most allocators were measured with at several numbers of threads, the smallest
/// and the largest.
fn sizes<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeSet<u64> {
    const SEVERAL: usize = 3;
    let mut counts = BTreeMap::<(u64, &str), BTreeSet<u64>>::new();
    for row in rows.filter(|row| row.metric == "alloc_us" && row.allocator != FLOOR) {
        let key = (row.size, row.allocator.as_str());
        counts.entry(key).or_default().insert(row.n);
    }
    let mut allocators = BTreeMap::<u64, usize>::new();
    for ((size, _), counts) in &counts {
        *allocators.entry(*size).or_default() += usize::from(counts.len() >= SEVERAL);
    }
    let most = allocators.values().copied().max().unwrap_or(0);
    let mut best = allocators
        .into_iter()
        .filter(|(_, allocators)| *allocators == most)
        .map(|(size, _)| size);
    let smallest = best.next();
    smallest.into_iter().chain(best.next_back()).collect()
}
