//! Tables of several runs as one, in which each figure keeps the floor of its own run.

use super::axis::can_show;
use super::style::FLOOR;
use crate::flaw::sound;
use crate::row::Row;
use std::collections::HashMap;

/// What a figure is of: test, allocator, size, number of threads and metric.
type Key = (String, String, u64, u64, String);

/// Joined tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Joined {
    /// Of the figures that several tables have, those of the last.
    pub rows: Vec<Row>,
    /// Floors of the figures, each of the table that its figure is from.
    floors: HashMap<Key, f64>,
}

/// Joins tables. Where two have the same figure, the later one counts.
#[must_use]
pub fn merge(tables: impl IntoIterator<Item = Vec<Row>>) -> Joined {
    let mut places = HashMap::new();
    let mut joined = Joined::default();
    for table in tables {
        let floors = Floors::of(&table);
        for row in table {
            let key = key(&row);
            match floors.of_case(&row) {
                Some(floor) => joined.floors.insert(key.clone(), floor),
                None => joined.floors.remove(&key),
            };
            if let Some(place) = places.get(&key) {
                joined.rows[*place] = row;
            } else {
                places.insert(key, joined.rows.len());
                joined.rows.push(row);
            }
        }
    }
    joined.borrow_floors();
    joined
}

impl Joined {
    /// What the launch that allocates nothing took in a figure's case, in the same run if that measured it: its figure
    /// of the same metric, or of `alloc_us` for `free_us`.
    #[must_use]
    pub fn floor(&self, of: &Row) -> Option<f64> {
        self.floors.get(&key(of)).copied()
    }

    /// Without the cases that have a flaw.
    pub(super) fn sound(&self) -> Self {
        Self {
            rows: sound(&self.rows),
            floors: self.floors.clone(),
        }
    }

    /// A run that has measured no floor is compared with that of another: it is of the same device, or should be.
    fn borrow_floors(&mut self) {
        let floors = Floors::of(&self.rows);
        for row in &self.rows {
            if let Some(floor) = floors.of_case(row) {
                self.floors.entry(key(row)).or_insert(floor);
            }
        }
    }
}

fn key(row: &Row) -> Key {
    (
        row.test.clone(),
        row.allocator.clone(),
        row.size,
        row.n,
        row.metric.clone(),
    )
}

/// The floors of a table, by test, size, number of threads and metric.
struct Floors(HashMap<(String, u64, u64, String), f64>);

impl Floors {
    fn of(table: &[Row]) -> Self {
        let floors = table
            .iter()
            .filter(|row| row.allocator == FLOOR && can_show(row.value));
        Self(
            floors
                .map(|row| {
                    let case = (row.test.clone(), row.size, row.n, row.metric.clone());
                    (case, row.value)
                })
                .collect(),
        )
    }

    fn of_case(&self, row: &Row) -> Option<f64> {
        let floor = |metric: &str| {
            let case = (row.test.clone(), row.size, row.n, metric.to_owned());
            self.0.get(&case).copied()
        };
        let is_free = row.metric == "free_us";
        floor(&row.metric).or_else(|| floor("alloc_us").filter(|_| is_free))
    }
}
