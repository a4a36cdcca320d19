//! The report for people: where it was measured, a table for each test and figure, and what was wrong.

use super::measure::Measured;
use super::table::{MARK, Table};
use crate::command::output::{count, table_of};
use scatterheap::size::Bytes;
use scatterheap_bench::{Flaw, Flaws, Row, Test};
use std::fmt::Write as _;

/// Figures that have a table, and what they are.
const FIGURES: [(&str, &str); 26] = [
    ("alloc_us", "malloc, µs"),
    ("free_us", "free, µs"),
    ("churn_us", "µs of the launch"),
    ("alloc_ns", "a call of malloc, ns"),
    (
        "alloc_p99_ns",
        "malloc, ns that 99 % of the calls take at most",
    ),
    (
        "alloc_p999_ns",
        "malloc, ns that 99.9 % of the calls take at most",
    ),
    ("alloc_max_ns", "malloc, ns of the slowest call"),
    ("free_ns", "a call of free, ns"),
    (
        "free_p99_ns",
        "free, ns that 99 % of the calls take at most",
    ),
    (
        "free_p999_ns",
        "free, ns that 99.9 % of the calls take at most",
    ),
    ("free_max_ns", "free, ns of the slowest call"),
    ("utilization", "share of the heap handed out before NULL"),
    (
        "utilization_rounded",
        "share of the heap that the blocks took before NULL",
    ),
    ("range_ratio", "address range over bytes asked for"),
    ("init_ms_first", "the first of a process, ms"),
    ("init_ms", "after one that was given back, ms"),
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
    let plural = if number == "1" { "" } else { "s" };
    let what = match row.metric.as_str() {
        "null" => {
            let requests = super::table::whole(requests(measured, row));
            format!("{number} NULL{plural} of {requests} requests")
        }
        "aged_null" => format!("{number} NULL{plural} while the heap aged"),
        "churned_null" => format!("{number} NULL{plural} in launches that churned"),
        metric => format!("{number} {metric} block{plural}"),
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::command::machine::Machine;
    use scatterheap::Device;
    use scatterheap_bench::{Plan, Settings};

    /// What was measured of two allocators in the first cases of a test.
    pub fn measured(test: Test, figures: &[(&str, &str, f64)]) -> Measured {
        let device = Device::cpu();
        let settings = Settings {
            sizes: Vec::new(),
            tests: vec![test],
            heap_bytes: None,
            samples: None,
            quick: true,
            seed: 1,
            stripes: None,
        };
        let plan = Plan::new(&device, &settings).expect("the heap is large enough");
        let row = |(allocator, metric, value): &(&str, &str, f64)| Row {
            test: test.name().into(),
            allocator: (*allocator).into(),
            size: plan.cases[0].most,
            n: plan.cases[0].n.into(),
            metric: (*metric).into(),
            value: *value,
        };
        Measured {
            machine: Machine::new(&device),
            rows: figures.iter().map(row).collect(),
            failures: Vec::new(),
            lost: None,
            interrupted: None,
            allocators: ["floor", "scatterheap", "other"].map(str::to_owned).into(),
            plan,
        }
    }

    #[test]
    fn figures_of_cases_with_nulls_are_marked() {
        let figures = [
            ("floor", "alloc_us", 10.0),
            ("scatterheap", "alloc_us", 15.0),
            ("scatterheap", "null", 0.0),
            ("other", "alloc_us", 9.92),
            ("other", "null", 1.0),
        ];
        let text = text(&measured(Test::Uniform, &figures));
        let line = text.lines().find(|line| line.contains("2^11"));
        let words: Vec<_> = line.expect("a line").split_whitespace().collect();
        let expected = [
            "16", "2^11", "10.0", "15.0", "1.50", "9.92", "!", "0.992", "!",
        ];
        assert_eq!(words, expected);
        assert!(text.contains("\n! some requests got NULL\n"), "{text}");
        let fault = "\nother, uniform, 16 bytes, n = 2,048: 1 NULL of 2,048 requests\n";
        assert!(text.contains(fault), "{text}");
    }

    #[test]
    fn nulls_are_what_a_full_heap_is_for() {
        let figures = [
            ("scatterheap", "utilization", 0.9),
            ("scatterheap", "null", 7.0),
        ];
        let text = text(&measured(Test::Oom, &figures));
        assert!(text.contains("0.900"), "{text}");
        assert!(!text.contains('!') && !text.contains("7 NULLs"), "{text}");
    }

    #[test]
    fn requests_are_those_of_all_launches() {
        let figures = [
            ("other", "churn_us", 5.0),
            ("other", "requests", 65536.0),
            ("other", "null", 3.0),
            ("other", "corrupt", 1.0),
        ];
        let text = text(&measured(Test::Churn, &figures));
        assert!(text.contains(": 3 NULLs of 65,536 requests\n"), "{text}");
        assert!(text.contains(": 1 corrupt block\n"), "{text}");
        assert!(text.contains("\n! some blocks did not hold"), "{text}");
    }
}
