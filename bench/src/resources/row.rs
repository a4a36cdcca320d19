//! Figures as a table: `scenario,resource,threads,metric,value`.

use crate::{Error, Result};
use serde::Serialize;
use std::path::Path;

/// A figure and what it is of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Name of the resource.
    pub resource: &'static str,
    /// Number of threads.
    pub threads: u16,
    /// See `docs/resources.md`.
    pub metric: &'static str,
    /// Nanoseconds, ratios or numbers.
    pub value: f64,
}

/// Writes a table.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_rows(rows: &[Row], path: &Path) -> Result<()> {
    let write = || -> std::result::Result<(), csv::Error> {
        let mut table = csv::Writer::from_path(path)?;
        rows.iter().try_for_each(|row| table.serialize(row))?;
        Ok(table.flush()?)
    };
    write().map_err(|error| {
        Error::Scenario(format!(
            "{} cannot be written ({error}): choose another place",
            path.display()
        ))
    })
}
