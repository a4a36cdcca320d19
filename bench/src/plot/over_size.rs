//! Time of a launch over the size of the blocks: malloc on the left, free on the right.

use super::axis::{bytes_text, count_text, threads_text};
use super::error::Result;
use super::figure::Figure;
use super::join::Joined;
use super::line::{Line, float, lines};
use super::panel::{XAxis, panels};
use super::style::{Colours, rank};
use crate::row::Row;
use std::collections::{BTreeMap, BTreeSet};

const X_AXIS: XAxis = XAxis {
    name: "bytes of a block",
    text: bytes_text,
};

/// Draws the rows of the test `uniform`.
pub(super) fn draw(tables: &Joined, machine: &str) -> Result<Option<String>> {
    let rows = &tables.rows;
    let of_test: Vec<&Row> = rows.iter().filter(|row| row.test == "uniform").collect();
    let Some(usual) = usual_count(&of_test) else {
        return Ok(None);
    };
    let diagrams = [("malloc", "alloc_us"), ("free", "free_us")]
        .map(|(title, metric)| (title.to_owned(), lines_over_size(&of_test, metric, usual)));
    let panels = panels(diagrams.into(), &X_AXIS);
    if panels.is_empty() {
        return Ok(None);
    }
    let threads = count_text(float(usual));
    let figure = Figure {
        title: format!("Time for {threads} to malloc a block each, and to free it"),
        machine,
        rows: vec![panels],
    };
    figure.draw(&Colours::new(rows)).map(Some)
}

/// The number of threads that most figures are for.
fn usual_count(rows: &[&Row]) -> Option<u64> {
    let mut counts = BTreeMap::<u64, usize>::new();
    for row in rows.iter().filter(|row| row.metric.ends_with("_us")) {
        *counts.entry(row.n).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(n, rows)| (*rows, *n));
    most.map(|(n, _)| n)
}

/// Lines of the usual number of threads. An allocator that was measured with another number only
/// has a line of those, and its label says so.
fn lines_over_size(rows: &[&Row], metric: &str, usual: u64) -> Vec<Line> {
    let with = |n: u64| {
        let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.n == n).collect();
        lines(&rows, metric, |row| row.size)
    };
    let mut found = with(usual);
    let others: BTreeSet<u64> = rows.iter().map(|row| row.n).collect();
    for n in others.into_iter().rev() {
        for mut line in with(n) {
            if found.iter().all(|known| known.allocator != line.allocator) {
                line.label = format!("{}, {}", line.label, threads_text(float(n)));
                found.push(line);
            }
        }
    }
    found.sort_by_key(|line| rank(&line.allocator));
    found
}
