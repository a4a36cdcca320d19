//! Tables of figures from files: CSV with the columns of [`Row`].

use super::{Error, Result};
use crate::row::Row;
use csv::Reader;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

const COLUMNS: [&str; 6] = ["test", "allocator", "size", "n", "metric", "value"];

/// Reads a table.
///
/// # Errors
///
/// If there is no such file, its first line does not name the columns, or a line is not a row; the
/// line is named.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    let file = File::open(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let mut reader = Reader::from_reader(file);
    let head = reader
        .headers()
        .map_err(|error| explain(path, &error))?
        .clone();
    if head != COLUMNS[..] {
        return Err(Error::Line {
            path: path.to_owned(),
            line: 1,
            message: format!(
                "found the columns `{}`, but a table of the benchmark has `{}`",
                head.iter().collect::<Vec<_>>().join(","),
                COLUMNS.join(",")
            ),
        });
    }
    let rows = reader.deserialize();
    rows.map(|row| row.map_err(|error| explain(path, &error)))
        .collect()
}

fn explain(path: &Path, error: &csv::Error) -> Error {
    let message = match error.kind() {
        csv::ErrorKind::Io(error) => error.to_string(),
        csv::ErrorKind::Utf8 { .. } => "it is not UTF-8".into(),
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("found {len} fields, expected {expected_len}"),
        csv::ErrorKind::Deserialize { err, .. } => {
            let field = err.field().and_then(|field| usize::try_from(field).ok());
            let column = field.and_then(|field| COLUMNS.get(field));
            let column = column.map_or(String::new(), |column| format!("column `{column}`: "));
            format!("{column}{}", err.kind())
        }
        _ => error.to_string(),
    };
    Error::Line {
        path: path.to_owned(),
        line: error.position().map_or(1, csv::Position::line),
        message,
    }
}

/// Joins tables. Where two have the same figure, the later one counts.
#[must_use]
pub fn merge(tables: impl IntoIterator<Item = Vec<Row>>) -> Vec<Row> {
    let mut places = HashMap::new();
    let mut merged: Vec<Row> = Vec::new();
    for row in tables.into_iter().flatten() {
        let key = (
            row.test.clone(),
            row.allocator.clone(),
            row.size,
            row.n,
            row.metric.clone(),
        );
        if let Some(place) = places.get(&key) {
            merged[*place] = row;
        } else {
            places.insert(key, merged.len());
            merged.push(row);
        }
    }
    merged
}
