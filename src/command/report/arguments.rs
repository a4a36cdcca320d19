//! The options of runs that can make a page of themselves.

use super::page_file;
use anyhow::Result;
use serde::Serialize;
use std::path::PathBuf;

/// Moments where a page is asked for and nothing else is said.
const USUAL_MOMENTS: u32 = 64;

/// Whether a run makes a page of itself, and how often the heap is looked at for that.
#[derive(Debug, clap::Args)]
pub struct ReportArguments {
    /// Write a page with pictures of the run to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Look at the heap so often between launches, about, and tell that in the page and in JSON [default: 64 with
    /// --report]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1024))]
    moments: Option<u32>,
}

impl ReportArguments {
    /// Whether a page is asked for.
    pub fn is_wanted(&self) -> bool {
        self.report.is_some()
    }

    /// How often the heap is to be looked at.
    pub fn moments(&self) -> u32 {
        let usual = if self.is_wanted() { USUAL_MOMENTS } else { 0 };
        self.moments.unwrap_or(usual)
    }

    /// Finds out before the run whether the page can be written.
    pub fn prepare(&self) -> Result<()> {
        self.report.as_deref().map_or(Ok(()), page_file::prepare)
    }

    /// Writes the page of a run, if it is asked for.
    pub fn write(&self, document: &impl Serialize) -> Result<()> {
        match &self.report {
            Some(path) => page_file::write_run(path, document),
            None => Ok(()),
        }
    }
}
