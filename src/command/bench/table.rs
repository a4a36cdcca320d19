//! A table of one figure: a line for each case, columns for the allocators, with ratios to the floor.

use super::measure::{FLOOR, Measured, OURS};
use crate::command::output::count;
use scatterheap_bench::{Case, Row, Test, target};

/// The lines of one test with one figure.
pub struct Table<'a> {
    measured: &'a Measured,
    metric: &'a str,
    cases: Vec<&'a Case>,
    /// Those that have a figure in one of the cases.
    allocators: Vec<&'a str>,
    rows: Vec<&'a Row>,
}

impl<'a> Table<'a> {
    /// Nothing if nobody has such a figure.
    pub fn new(measured: &'a Measured, test: Test, metric: &'a str) -> Option<Self> {
        let is_ours = |row: &&Row| row.test == test.name() && row.metric == metric;
        let rows: Vec<_> = measured.rows.iter().filter(is_ours).collect();
        let has = |name: &str| rows.iter().any(|row| row.allocator == name);
        let allocators = measured.allocators.iter().map(String::as_str);
        let allocators: Vec<_> = allocators.filter(|name| has(name)).collect();
        let of_test = measured.plan.cases.iter().filter(|case| case.test == test);
        let cases = of_test.filter(|case| rows.iter().any(|row| is_of(row, case)));
        let table = Self {
            measured,
            metric,
            cases: cases.collect(),
            allocators,
            rows,
        };
        (!table.rows.is_empty()).then_some(table)
    }

    fn value(&self, case: &Case, allocator: &str) -> Option<f64> {
        let mut rows = self.rows.iter();
        let found = rows.find(|row| row.allocator == allocator && is_of(row, case));
        found.map(|row| row.value)
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
            line.push(value.map_or_else(nothing, number));
            if self.has_floor() && *allocator != FLOOR {
                let ratio = value.zip(floor).filter(|(_, floor)| *floor > 0.0);
                line.push(ratio.map_or_else(nothing, |(value, floor)| number(value / floor)));
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

    /// Whether we reach the target of a case, if it has one.
    fn is_met(&self, case: &Case) -> Option<bool> {
        let target = target(case, self.metric)?;
        target.is_met(self.value(case, OURS)?, self.value(case, FLOOR))
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

/// Three digits, or all of a large number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are not negative, and the part behind the point is not shown"
)]
pub fn number(value: f64) -> String {
    match value {
        100.0.. => count(value.round() as u64),
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
