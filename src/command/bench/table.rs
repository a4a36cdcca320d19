//! A table of one figure: a line for each case, columns for the allocators, with ratios to the floor.

use super::measure::{FLOOR, Measured, OURS};
use crate::command::output::count;
use scatterheap_bench::{Case, Flaw, Flaws, Row, Test, target};
use std::collections::BTreeSet;

/// Stands behind figures that are not to be compared with others.
pub const MARK: char = '!';

/// The lines of one test with one figure.
pub struct Table<'a> {
    measured: &'a Measured,
    flaws: &'a Flaws<'a>,
    metric: &'a str,
    cases: Vec<&'a Case>,
    /// Those that have a figure in one of the cases.
    allocators: Vec<&'a str>,
    rows: Vec<&'a Row>,
}

impl<'a> Table<'a> {
    /// Nothing if nobody has such a figure.
    pub fn new(
        measured: &'a Measured,
        flaws: &'a Flaws<'a>,
        test: Test,
        metric: &'a str,
    ) -> Option<Self> {
        let is_ours = |row: &&Row| row.test == test.name() && row.metric == metric;
        let rows: Vec<_> = measured.rows.iter().filter(is_ours).collect();
        let has = |name: &str| rows.iter().any(|row| row.allocator == name);
        let allocators = measured.allocators.iter().map(String::as_str);
        let allocators: Vec<_> = allocators.filter(|name| has(name)).collect();
        let of_test = measured.plan.cases.iter().filter(|case| case.test == test);
        let cases = of_test.filter(|case| rows.iter().any(|row| is_of(row, case)));
        let table = Self {
            measured,
            flaws,
            metric,
            cases: cases.collect(),
            allocators,
            rows,
        };
        (!table.rows.is_empty()).then_some(table)
    }

    fn row(&self, case: &Case, allocator: &str) -> Option<&'a Row> {
        let mut rows = self.rows.iter().copied();
        rows.find(|row| row.allocator == allocator && is_of(row, case))
    }

    fn value(&self, case: &Case, allocator: &str) -> Option<f64> {
        self.row(case, allocator).map(|row| row.value)
    }

    fn is_flawed(&self, case: &Case, allocator: &str) -> bool {
        let row = self.row(case, allocator);
        row.is_some_and(|row| self.flaws.of_case(row).is_some())
    }

    /// What is wrong with marked figures.
    pub fn flaws(&self) -> BTreeSet<Flaw> {
        let flaws = self.rows.iter().filter_map(|row| self.flaws.of_case(row));
        flaws.collect()
    }

    fn has_floor(&self) -> bool {
        self.allocators.contains(&FLOOR)
    }

    fn has_targets(&self) -> bool {
        let wanted = |case: &&Case| target(case, self.metric).is_some();
        self.measured.machine.gpu
            && self.allocators.contains(&OURS)
            && self.cases.iter().any(wanted)
    }

    /// The names of the columns.
    pub fn head(&self) -> Vec<String> {
        let mut head = vec!["bytes".to_owned(), "n".to_owned()];
        for allocator in &self.allocators {
            head.push((*allocator).to_owned());
            if self.has_floor() && *allocator != FLOOR {
                head.push("× floor".to_owned());
            }
        }
        if self.has_targets() {
            head.extend(["target".to_owned(), "met".to_owned()]);
        }
        head
    }

    /// The lines.
    pub fn lines(&self) -> Vec<Vec<String>> {
        self.cases.iter().map(|case| self.line(case)).collect()
    }

    fn line(&self, case: &Case) -> Vec<String> {
        let floor = self.value(case, FLOOR);
        let mut line = vec![bytes(case), threads(case)];
        for allocator in &self.allocators {
            let value = self.value(case, allocator);
            let mark = |text| {
                if self.is_flawed(case, allocator) {
                    format!("{text} {MARK}")
                } else {
                    text
                }
            };
            line.push(value.map_or_else(nothing, |value| mark(number(value))));
            if self.has_floor() && *allocator != FLOOR {
                let ratio = value.zip(floor).filter(|(_, floor)| *floor > 0.0);
                line.push(ratio.map_or_else(nothing, |(value, floor)| mark(number(value / floor))));
            }
        }
        if self.has_targets() {
            let target = target(case, self.metric);
            let met = self.is_met(case);
            line.push(target.map_or_else(String::new, |target| target.to_string()));
            line.push(
                met.map_or("", |met| if met { "yes" } else { "NO" })
                    .to_owned(),
            );
        }
        line
    }

    /// Whether we reach the target of a case, if it has one. A marked figure does not.
    fn is_met(&self, case: &Case) -> Option<bool> {
        let target = target(case, self.metric)?;
        let value = self.value(case, OURS)?;
        let met = target.is_met(value, self.value(case, FLOOR), self.neighbour(case))?;
        Some(met && !self.is_flawed(case, OURS))
    }

    /// Our least figure of a case's neighbours, without those that are marked.
    fn neighbour(&self, case: &Case) -> Option<f64> {
        let near = self.cases.iter().filter(|other| case.is_neighbour(other));
        near.filter(|near| !self.is_flawed(near, OURS))
            .filter_map(|near| self.value(near, OURS))
            .min_by(f64::total_cmp)
    }

    /// Targets reached, and targets that there are.
    pub fn score(&self) -> (usize, usize) {
        let verdicts: Vec<_> = self
            .cases
            .iter()
            .filter_map(|case| self.is_met(case))
            .collect();
        (verdicts.iter().filter(|met| **met).count(), verdicts.len())
    }
}

fn is_of(row: &Row, case: &Case) -> bool {
    (row.size, row.n) == (case.most, u64::from(case.n))
}

fn nothing() -> String {
    "–".to_owned()
}

fn bytes(case: &Case) -> String {
    match case {
        Case { most: 0, .. } => nothing(),
        Case { least, most, .. } if least == most => count(*most),
        Case { least, most, .. } => format!("{}..{}", count(*least), count(*most)),
    }
}

fn threads(case: &Case) -> String {
    match case.n {
        0 => nothing(),
        n if n.is_power_of_two() && n >= 1 << 10 => format!("2^{}", n.ilog2()),
        n => count(n.into()),
    }
}

/// A number without what is behind its point.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are not negative, and the part behind the point is not shown"
)]
pub fn whole(value: f64) -> String {
    count(value.round() as u64)
}

/// Three digits, or all of a large number.
pub fn number(value: f64) -> String {
    match value {
        100.0.. => whole(value),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.98765, "0.988"),
            (1.2345, "1.23"),
            (12.345, "12.3"),
            (123.45, "123"),
            (302_333.0, "302,333"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn threads_are_powers_where_they_are_many() {
        let of = |n| {
            threads(&Case {
                test: Test::Scale,
                least: 16,
                most: 16,
                n,
            })
        };
        assert_eq!([of(32), of(1 << 20), of(0)], ["32", "2^20", "–"]);
    }
}
