//! What `--output` and `--json` give: every figure, as CSV and as JSON, and plots.

use super::measure::{Failure, Interrupted, Measured};
use crate::command::machine::Machine;
use crate::command::output::{note, with_causes};
use anyhow::{Result, anyhow};
use scatterheap_bench::{Plan, Row, plot, write_csv};
use scatterheap_trace::file;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of the files beside the plots.
const TABLE: &str = "latest.csv";
const DOCUMENT: &str = "latest.json";

/// Every figure, and where it came from.
#[derive(Serialize)]
pub struct Document<'a> {
    command: &'static str,
    machine: &'a Machine,
    plan: &'a Plan,
    rows: &'a [Row],
    failures: &'a [Failure],
    /// How far it was when it was interrupted, if it was.
    interrupted: Option<Interrupted>,
    /// Why it ended before all was measured, if the device was lost.
    lost: Option<&'a str>,
}

impl<'a> Document<'a> {
    pub fn new(measured: &'a Measured) -> Self {
        Self {
            command: "bench",
            machine: &measured.machine,
            plan: &measured.plan,
            rows: &measured.rows,
            failures: &measured.failures,
            interrupted: measured.interrupted,
            lost: measured.lost.as_deref(),
        }
    }
}

/// The files in a directory that are written or removed.
pub fn all(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let tables = [TABLE, DOCUMENT].map(|name| directory.join(name));
    tables.into_iter().chain(plot::files(directory))
}

/// Makes the directory for what is written, and tries to write there, before anything is measured.
pub fn prepare(directory: &Path) -> Result<()> {
    let path = directory.display();
    fs::create_dir_all(directory).map_err(|error| {
        anyhow!("cannot make the directory {path} ({error}): choose another for --output")
    })?;
    for file in all(directory) {
        file::try_out(&file).map_err(|error| {
            anyhow!(
                "cannot write {} ({error}): choose another directory for --output",
                file.display()
            )
        })?;
    }
    Ok(())
}

/// Writes latest.csv, latest.json and the plots, and notes their paths. What cannot be written does not keep the
/// rest from being written.
pub fn write(measured: &Measured, directory: &Path) -> Result<()> {
    let mut errors = Vec::new();
    for written in [
        write_table(measured, directory),
        write_document(measured, directory),
        write_plots(measured, directory),
    ] {
        match written {
            Ok(paths) => paths
                .iter()
                .for_each(|path| note(&format!("written: {}", path.display()))),
            Err(error) => errors.push(with_causes(&error)),
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(anyhow!("{}", errors.join("; ")))
}

fn write_table(measured: &Measured, directory: &Path) -> Result<Vec<PathBuf>> {
    let path = directory.join(TABLE);
    write_csv(&measured.rows, &path)?;
    Ok(vec![path])
}

fn write_document(measured: &Measured, directory: &Path) -> Result<Vec<PathBuf>> {
    let path = directory.join(DOCUMENT);
    let mut text = serde_json::to_string_pretty(&Document::new(measured))?;
    text.push('\n');
    file::replace(&path, |file| file.write_all(text.as_bytes()))
        .map_err(|error| anyhow!("cannot write {}: {error}", path.display()))?;
    Ok(vec![path])
}

fn write_plots(measured: &Measured, directory: &Path) -> Result<Vec<PathBuf>> {
    let pictures = plot::draw_all(
        &plot::merge([measured.rows.clone()]),
        &measured.machine.line(),
    )?;
    Ok(plot::write_all(&pictures, directory)?)
}
