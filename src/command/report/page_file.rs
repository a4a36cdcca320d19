//! The page as a file.

use super::run::{self, Run};
use super::{document, page};
use crate::command::output::note;
use anyhow::{Result, anyhow};
use scatterheap_trace::file;
use serde::Serialize;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// Finds out whether a page can be written there; what is there stays as it is.
pub fn prepare(path: &Path) -> Result<()> {
    file::try_out(path).map_err(|error| refusal(path, &error))
}

/// Writes the page of one run, whose document is what it prints with `--json`.
pub fn write_run(path: &Path, of: &impl Serialize) -> Result<()> {
    // As text and back, so that the page is the same as one that is made of the printed document.
    let document = document::of(serde_json::from_str(&serde_json::to_string(of)?)?)?;
    let bytes = write(path, &run::join(vec![document]), None)?;
    note(&format!("written: {} ({bytes} bytes)", path.display()));
    Ok(())
}

/// Writes a page, and tells its size.
pub fn write(path: &Path, runs: &[Run], title: Option<&str>) -> Result<usize> {
    let page = page::make(runs, title)?;
    file::replace(path, |file| file.write_all(page.as_bytes()))
        .map_err(|error| refusal(path, &error))?;
    Ok(page.len())
}

fn refusal(path: &Path, error: &Error) -> anyhow::Error {
    let advice = match error.kind() {
        ErrorKind::NotFound => "make its directory first",
        _ => "choose another file",
    };
    anyhow!(
        "cannot write the page {} ({error}): {advice}",
        path.display()
    )
}
