//! The report for people: where it was measured, a table for each test and figure, and what was wrong.

use super::measure::Measured;
use super::table::{MARK, Table};
use crate::command::output::{count, table_of};
use scatterheap::size::Bytes;
use scatterheap_bench::{Flaw, Flaws, Row, Test};
use std::fmt::Write as _;

/// Figures that have a table, and what they are.
const FIGURES: [(&str, &str); 17] = [
    ("alloc_us", "malloc, µs"),
    ("free_us", "free, µs"),
    ("churn_us", "µs of the launch"),
    ("utilization", "share of the heap handed out before NULL"),
    (
        "utilization_rounded",
        "share of the heap that the blocks took before NULL",
    ),
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
        "{}\nheap of {}; medians of {}, after {}; seed {}{}\n",
        measured.machine.line(),
        Bytes(plan.heap_bytes),
        counted(plan.samples, "sample"),
        counted(plan.warm_ups, "warm-up"),
        plan.seed,
        stripes(plan.stripes),
    );
    let flaws = Flaws::of(&measured.rows);
    let (mut met, mut targets) = (0, 0);
    for test in Test::ALL {
        for (metric, words) in FIGURES
            .into_iter()
            .filter(|(metric, _)| is_shown(test, metric))
        {
            let Some(table) = Table::new(measured, &flaws, test, metric) else {
                continue;
            };
            let lines = table_of(table.head(), table.lines());
            let _ = write!(text, "\n{test}: {words}\n{lines}\n");
            for flaw in table.flaws() {
                let _ = writeln!(text, "{MARK} {}", flaw.words());
            }
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

fn counted(number: u32, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// What was chosen of scatterheap's heap, if it was.
fn stripes(stripes: Option<u32>) -> String {
    stripes.map_or_else(String::new, |stripes| {
        format!("; scatterheap with {} at most", counted(stripes, "stripe"))
    })
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
    let lines = measured
        .rows
        .iter()
        .filter(|row| Flaw::told_by(row).is_some());
    let lines: String = lines.map(|row| fault(measured, row) + "\n").collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}

/// How often something was wrong: `1 NULL of 2,048 requests`.
fn fault(measured: &Measured, row: &Row) -> String {
    let number = super::table::whole(row.value);
    let one = number == "1";
    let what = match row.metric.as_str() {
        "null" => {
            let plural = if one { "" } else { "s" };
            let requests = super::table::whole(requests(measured, row));
            format!("{number} NULL{plural} of {requests} requests")
        }
        "aged_null" => format!("{number} NULLs while the heap aged"),
        metric => format!("{number} {metric} {}", if one { "block" } else { "blocks" }),
    };
    let (size, n) = (count(row.size), count(row.n));
    format!(
        "{}, {}, {size} bytes, n = {n}: {what}",
        row.allocator, row.test
    )
}

/// Requests of a case: one of each thread, if no row says otherwise.
fn requests(measured: &Measured, of: &Row) -> f64 {
    let told = measured.rows.iter().find(|row| {
        row.metric == "requests"
            && (&row.test, &row.allocator) == (&of.test, &of.allocator)
            && (row.size, row.n) == (of.size, of.n)
    });
    #[allow(clippy::cast_precision_loss, reason = "counts are below 2^52")]
    told.map_or(of.n as f64, |row| row.value)
}
