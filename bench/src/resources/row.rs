//! Figures as a table: `scenario,resource,threads,metric,value`.

use crate::{Error, Result};
use scatterheap_trace::{file, text};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// A figure and what it is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the resource.
    pub resource: String,
    /// Number of threads.
    pub threads: u16,
    /// See `docs/resources.md`.
    pub metric: String,
    /// Nanoseconds, ratios or numbers.
    pub value: f64,
}

impl Row {
    /// Whether both are figures of the same case.
    #[must_use]
    pub fn is_of_case_of(&self, other: &Self) -> bool {
        (&self.scenario, &self.resource, self.threads)
            == (&other.scenario, &other.resource, other.threads)
    }
}

/// Writes a table.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_rows(rows: &[Row], path: &Path) -> Result<()> {
    let write = |file: &mut dyn Write| -> io::Result<()> {
        let mut table = csv::Writer::from_writer(file);
        rows.iter().try_for_each(|row| table.serialize(row))?;
        table.flush()
    };
    file::replace(path, write).map_err(|error| unwritable(path, &error))
}

/// Finds out whether a table can be written, before what is in it is measured.
///
/// # Errors
///
/// If it cannot.
pub fn try_rows(path: &Path) -> Result<()> {
    file::try_out(path).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::Scenario(format!(
        "{} cannot be written ({error}): choose another place",
        path.display()
    ))
}

/// The columns.
const HEAD: [&str; 5] = ["scenario", "resource", "threads", "metric", "value"];

/// Reads a table.
///
/// # Errors
///
/// If the file is none, has more than 256 MiB, or a value that no figure has.
pub fn read_rows(path: &Path) -> Result<Vec<Row>> {
    let text = File::open(path).and_then(text::read);
    let text = text.map_err(|error| error.to_string());
    text.and_then(|text| parse(&text)).map_err(|problem| {
        Error::Scenario(format!(
            "{} cannot be read ({problem}): name a table of {}",
            path.display(),
            HEAD.join(",")
        ))
    })
}

fn parse(text: &str) -> std::result::Result<Vec<Row>, String> {
    let mut table = csv::Reader::from_reader(text.as_bytes());
    let head = table.headers().map_err(|error| error.to_string())?;
    // Without rows nobody else would look.
    if let Some(missing) = HEAD
        .iter()
        .find(|name| !head.iter().any(|one| one == **name))
    {
        return Err(format!("there is no column `{missing}`"));
    }
    let mut rows = Vec::new();
    for row in table.deserialize() {
        let row: Row = row.map_err(|error| error.to_string())?;
        if !row.value.is_finite() || row.value < 0.0 {
            let Row { metric, value, .. } = row;
            return Err(format!("row {}: `{metric}` is {value}", rows.len() + 1));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Rows of one table and of another one beside it. Of a case that both have the other one's are taken.
#[must_use]
pub fn beside(mut rows: Vec<Row>, others: &[Row]) -> Vec<Row> {
    rows.retain(|row| !others.iter().any(|other| other.is_of_case_of(row)));
    rows.extend_from_slice(others);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(resource: &str, threads: u16, value: f64) -> Row {
        Row {
            scenario: "large".into(),
            resource: resource.into(),
            threads,
            metric: "ns_per_pair".into(),
            value,
        }
    }

    #[test]
    fn tables_are_read_as_written_and_put_together() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("rows.csv");
        let others = vec![row("torch", 1, 800.0), row("driver", 1, 1240.5)];
        write_rows(&others, &path).expect("written");
        let read = read_rows(&path).expect("a table");
        assert_eq!(read, others);
        let both = beside(vec![row("driver", 1, 1.0), row("driver", 2, 2.0)], &read);
        assert_eq!(both[0], row("driver", 2, 2.0));
        assert_eq!(both[1..], others);
    }

    #[test]
    fn what_is_no_table_of_figures_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("rows.csv");
        let refused = |path: &Path| {
            let error = read_rows(path).expect_err("no table").to_string();
            assert!(error.starts_with(&path.display().to_string()), "{error}");
            assert!(error.contains("name a table of"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        };
        refused(directory.path());
        for text in ["", "what\nelse\n", "scenario,resource,threads,metric\n"] {
            std::fs::write(&path, text).expect("written");
            refused(&path);
        }
        for value in ["NaN", "inf", "-inf", "-1", "1e999", "x"] {
            let head = HEAD.join(",");
            let text = format!("{head}\nlarge,torch,1,ns_per_pair,{value}\n");
            std::fs::write(&path, text).expect("written");
            refused(&path);
        }
    }
}
