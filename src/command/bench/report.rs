//! The report for people: where it was measured, a table for each test and figure, and what was wrong.

use super::measure::Measured;
use super::table::Table;
use crate::command::output::{count, table_of};
use scatterheap::size::Bytes;
use scatterheap_bench::{Row, Test};
use std::fmt::Write as _;

/// Figures that have a table, and what they are.
const FIGURES: [(&str, &str); 16] = [
    ("alloc_us", "malloc, µs"),
    ("free_us", "free, µs"),
    ("churn_us", "µs of the launch"),
    ("utilization", "share of the heap handed out before NULL"),
    ("range_ratio", "address range over bytes asked for"),
    ("init_ms", "ms"),
    ("registers", "registers of malloc"),
    ("stack_bytes", "bytes of stack of malloc"),
    ("free_registers", "registers of free"),
    ("free_stack_bytes", "bytes of stack of free"),
    ("workgen_us", "µs"),
    ("read_gbps", "GB/s read"),
    ("insert_us", "insert, µs"),
    ("delete_us", "delete, µs"),
    ("realloc_us", "µs"),
    (
        "utilization_at_end",
        "share handed out when there was nothing but NULL",
    ),
];

pub fn text(measured: &Measured) -> String {
    let plan = &measured.plan;
    let mut text = format!(
        "{}\nheap of {}; medians of {} samples after {}; seed {}\n",
        measured.machine.line(),
        Bytes(plan.heap_bytes),
        plan.samples,
        plan.warm_ups,
        plan.seed,
    );
    let (mut met, mut targets) = (0, 0);
    for test in Test::ALL {
        for (metric, words) in FIGURES
            .into_iter()
            .filter(|(metric, _)| is_shown(test, metric))
        {
            let Some(table) = Table::new(measured, test, metric) else {
                continue;
            };
            let lines = table_of(table.head(), table.lines());
            let _ = write!(text, "\n{test}: {words}\n{lines}\n");
            let (reached, wanted) = table.score();
            met += reached;
            targets += wanted;
        }
    }
    if measured.machine.gpu && targets > 0 {
        let _ = write!(text, "\n{met} of {targets} targets met\n");
    }
    text + &faults(measured)
}

/// The range is told of every block that is verified, but it is the point of one test only.
fn is_shown(test: Test, metric: &str) -> bool {
    match metric {
        "range_ratio" => test == Test::Frag,
        _ => true,
    }
}

/// NULLs where there should be none, and blocks that did not hold what was written.
fn faults(measured: &Measured) -> String {
    let mut lines = String::new();
    for row in &measured.rows {
        let is_full = row.test == Test::Oom.name() || row.test == Test::Oommix.name();
        let what = match row.metric.as_str() {
            "null" if !is_full => "NULLs",
            "aged_null" => "NULLs while the heap aged",
            "corrupt" => "corrupt blocks",
            "misaligned" => "misaligned blocks",
            _ => continue,
        };
        if row.value > 0.0 {
            let number = super::table::number(row.value);
            let Row {
                test, allocator, ..
            } = row;
            let (size, n) = (count(row.size), count(row.n));
            let _ = writeln!(
                lines,
                "{allocator}, {test}, {size} bytes, n = {n}: {number} {what}"
            );
        }
    }
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}
