//! Tables of figures from files: CSV with the columns of [`Row`].

use super::{Error, Result};
use crate::row::Row;
use csv::{Position, Reader, StringRecord};
use scatterheap_trace::text;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const COLUMNS: [&str; 6] = ["test", "allocator", "size", "n", "metric", "value"];

/// Reads a table.
///
/// # Errors
///
/// If there is no such file, it has more than 256 MiB or is no UTF-8, its first line does not name the columns, or a line is not a row; the
/// line and the value are named.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    let file = File::open(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    if path.is_dir() {
        return Err(no_table(path, "it is a directory: give a CSV file in it"));
    }
    read_from(file, path)
}

/// Whether a text begins as a table does.
#[must_use]
pub fn is_table(text: &str) -> bool {
    text.starts_with(&COLUMNS.join(","))
}

/// Reads a table from wherever it comes; `path` is for messages.
///
/// # Errors
///
/// As [`read`].
pub fn read_from(source: impl Read, path: &Path) -> Result<Vec<Row>> {
    let text = text::read(source).map_err(|error| {
        let advice = "give a CSV file that `scatterheap bench --output` wrote";
        no_table(path, &format!("{error}: {advice}"))
    })?;
    let mut reader = Reader::from_reader(text.as_bytes());
    let head = reader
        .headers()
        .map_err(|error| explain(path, &error))?
        .clone();
    if head.is_empty() {
        return Err(no_table(
            path,
            "it is empty: give what `scatterheap bench --output` wrote",
        ));
    }
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
    let records = reader.records();
    let records = records.map(|record| record.map_err(|error| explain(path, &error)));
    records.map(|record| row_of(path, &record?)).collect()
}

fn no_table(path: &Path, message: &str) -> Error {
    Error::NoTable {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}

/// A line as a row: sizes and threads are whole numbers, values finite and not negative.
fn row_of(path: &Path, record: &StringRecord) -> Result<Row> {
    let refuse = |column: usize, what: &str| {
        Err(Error::Line {
            path: path.to_owned(),
            line: record.position().map_or(1, Position::line),
            message: format!(
                "column `{}`: `{}` is {what}",
                COLUMNS[column], &record[column]
            ),
        })
    };
    for column in [2, 3] {
        if record[column].parse::<u64>().is_err() {
            return refuse(column, "no whole number");
        }
    }
    match record[5].parse::<f64>() {
        Err(_) => return refuse(5, "no number"),
        Ok(value) if !value.is_finite() => return refuse(5, "not finite"),
        Ok(value) if value < 0.0 => return refuse(5, "negative"),
        Ok(_) => {}
    }
    record
        .deserialize(None)
        .map_err(|error| explain(path, &error))
}

fn explain(path: &Path, error: &csv::Error) -> Error {
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("found {len} fields, expected {expected_len}"),
        _ => error.to_string(),
    };
    Error::Line {
        path: path.to_owned(),
        line: error.position().map_or(1, Position::line),
        message,
    }
}
