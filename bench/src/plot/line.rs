//! Lines of a plot, picked from the rows of a table.

use super::axis::can_show;
use super::style::{rank, title};
use crate::row::Row;
use std::collections::BTreeMap;

/// A figure and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub median: f64,
    /// Tenth and ninetieth percentile, where they are known.
    pub spread: Option<(f64, f64)>,
}

/// An allocator's figures, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub allocator: String,
    pub label: String,
    pub points: Vec<Point>,
}

/// The lines of one metric, the floor's first; allocators that have no figure with a place on the
/// plot have no line.
pub(super) fn lines(rows: &[&Row], metric: &str, x: impl Fn(&Row) -> u64) -> Vec<Line> {
    let mut found = BTreeMap::<(usize, String), BTreeMap<u64, Point>>::new();
    for row in rows.iter().filter(|row| row.metric == metric) {
        let place = x(row);
        let point = Point {
            x: float(place),
            median: row.value,
            spread: spread(rows, row),
        };
        if can_show(point.x) && can_show(point.median) {
            let line = found.entry(rank(&row.allocator)).or_default();
            line.insert(place, point);
        }
    }
    let lines = found.into_iter().map(|((_, allocator), points)| Line {
        label: title(&allocator),
        allocator,
        points: points.into_values().collect(),
    });
    lines.collect()
}

/// The percentiles that belong to a median.
fn spread(rows: &[&Row], of: &Row) -> Option<(f64, f64)> {
    let percentile = |suffix: &str| {
        let metric = format!("{}{suffix}", of.metric);
        let same = |row: &&&Row| {
            row.metric == metric
                && row.allocator == of.allocator
                && (row.size, row.n) == (of.size, of.n)
                && row.test == of.test
        };
        rows.iter()
            .find(same)
            .map(|row| row.value)
            .filter(|value| can_show(*value))
    };
    Some((percentile("_p10")?, percentile("_p90")?))
}

#[allow(
    clippy::cast_precision_loss,
    reason = "sizes and counts in a picture need no 53 bits"
)]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}
