//! What `--output` and `--json` give: every figure, as CSV and as JSON, and plots.

use super::machine::Machine;
use super::measure::{Failure, Measured};
use anyhow::{Result, anyhow};
use scatterheap_bench::{Plan, Row, plot, write_csv};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Every figure, and where it came from.
#[derive(Serialize)]
pub struct Document<'a> {
    command: &'static str,
    machine: &'a Machine,
    plan: &'a Plan,
    rows: &'a [Row],
    failures: &'a [Failure],
}

impl<'a> Document<'a> {
    pub fn new(measured: &'a Measured) -> Self {
        Self {
            command: "bench",
            machine: &measured.machine,
            plan: &measured.plan,
            rows: &measured.rows,
            failures: &measured.failures,
        }
    }
}

/// Makes the directory for what is written, before anything is measured.
pub fn prepare(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(|error| {
        let path = directory.display();
        anyhow!("cannot make the directory {path} ({error}): choose another for --output")
    })
}

/// Writes latest.csv, latest.json and the plots; gives their paths.
pub fn write(measured: &Measured, directory: &Path) -> Result<Vec<PathBuf>> {
    let csv = directory.join("latest.csv");
    write_csv(&measured.rows, &csv)?;
    let json = directory.join("latest.json");
    let mut text = serde_json::to_string_pretty(&Document::new(measured))?;
    text.push('\n');
    fs::write(&json, text).map_err(|error| anyhow!("cannot write {}: {error}", json.display()))?;
    let plots = plot::write_all(&measured.rows, directory, &measured.machine.line())?;
    Ok([csv, json].into_iter().chain(plots).collect())
}
