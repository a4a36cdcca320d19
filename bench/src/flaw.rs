//! Figures that are not to be compared with others: those of a case in which requests got NULL, so that there
//! was less to do, or in which blocks did not hold what was written. They are shown with a mark, and not drawn.

use crate::case::Test;
use crate::row::Row;
use std::collections::HashMap;

/// What is wrong with an allocator's figures in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// Requests got NULL where a heap is not to be filled, or while it was aged.
    Null,
    /// Blocks did not hold what was written, or were not aligned.
    Corrupt,
}

impl Flaw {
    /// What a row says of its own case.
    #[must_use]
    pub fn told_by(row: &Row) -> Option<Self> {
        // There the NULLs are what is waited for.
        let is_full = [Test::Oom, Test::Oommix]
            .map(Test::name)
            .contains(&&*row.test);
        let flaw = match row.metric.as_str() {
            "null" if !is_full => Self::Null,
            "aged_null" | "churned_null" => Self::Null,
            "corrupt" | "misaligned" => Self::Corrupt,
            _ => return None,
        };
        (row.value > 0.0).then_some(flaw)
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Null => "some requests got NULL",
            Self::Corrupt => "some blocks did not hold what was written, or were not aligned",
        }
    }
}

/// An allocator in a case: test, allocator, size and number of threads.
type Key<'a> = (&'a str, &'a str, u64, u64);

/// The flaws of a table.
#[derive(Debug)]
pub struct Flaws<'a>(HashMap<Key<'a>, Flaw>);

impl<'a> Flaws<'a> {
    /// Looks for them; of two in a case, the worse counts.
    #[must_use]
    pub fn of(rows: &'a [Row]) -> Self {
        let mut flaws = HashMap::new();
        for row in rows {
            if let Some(flaw) = Flaw::told_by(row) {
                let worst = flaws.entry(key(row)).or_insert(flaw);
                *worst = flaw.max(*worst);
            }
        }
        Self(flaws)
    }

    /// That of the case which a row is of.
    #[must_use]
    pub fn of_case(&self, row: &Row) -> Option<Flaw> {
        self.0.get(&key(row)).copied()
    }
}

/// The rows of cases without a flaw.
pub(crate) fn sound(rows: &[Row]) -> Vec<Row> {
    let flaws = Flaws::of(rows);
    let sound = rows.iter().filter(|row| flaws.of_case(row).is_none());
    sound.cloned().collect()
}

fn key(row: &Row) -> Key<'_> {
    (&row.test, &row.allocator, row.size, row.n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(test: Test, size: u64, metric: &str, value: f64) -> Row {
        Row {
            test: test.name().into(),
            allocator: "any".into(),
            size,
            n: 1,
            metric: metric.into(),
            value,
        }
    }

    #[test]
    fn flaws_are_those_of_the_case() {
        let rows = [
            row(Test::Uniform, 16, "alloc_us", 2.0),
            row(Test::Uniform, 16, "null", 1.0),
            row(Test::Uniform, 32, "alloc_us", 3.0),
            row(Test::Uniform, 32, "null", 0.0),
            row(Test::UniformAged, 32, "alloc_us", 3.0),
            row(Test::UniformAged, 32, "aged_null", 5.0),
            row(Test::Churn, 32, "null", 1.0),
            row(Test::Churn, 32, "corrupt", 1.0),
            row(Test::Oom, 16, "null", 9.0),
            row(Test::Oom, 16, "utilization", 0.9),
        ];
        let flaws = Flaws::of(&rows);
        let found: Vec<_> = rows.iter().map(|row| flaws.of_case(row)).collect();
        let (null, corrupt) = (Some(Flaw::Null), Some(Flaw::Corrupt));
        let expected = [
            null, null, None, None, null, null, corrupt, corrupt, None, None,
        ];
        assert_eq!(found, expected);
        assert_eq!(sound(&rows), [&rows[2..4], &rows[8..]].concat());
    }
}
