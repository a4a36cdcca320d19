//! The options of runs that can make a page of themselves.

use super::page_file;
use crate::command::Common;
use crate::command::apart::keep_apart;
use crate::command::output::{print, print_json};
use anyhow::Result;
use serde::Serialize;
use std::path::{Path, PathBuf};

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

    /// Refuses a page in the place of a file that the run reads.
    pub fn keep_apart(&self, inputs: &[PathBuf]) -> Result<()> {
        match &self.report {
            Some(page) => keep_apart("--report", page, inputs),
            None => Ok(()),
        }
    }

    /// Finds out before the run whether the page can be written.
    pub fn prepare(&self) -> Result<()> {
        self.report.as_deref().map_or(Ok(()), page_file::prepare)
    }

    /// Prints a run as it is asked for, and writes its page. What was found is not lost if the page cannot be written.
    pub fn tell<Document: Serialize>(
        &self,
        common: &Common,
        text: impl FnOnce() -> String,
        document: impl FnOnce() -> Result<Document>,
    ) -> Result<()> {
        let page = self.report.as_deref();
        if common.json {
            let document = document()?;
            let printed = print_json(&document);
            return written(page, &document).and(printed);
        }
        let printed = print(&text());
        if page.is_none() {
            return printed;
        }
        written(page, &document()?).and(printed)
    }
}

fn written(page: Option<&Path>, document: &impl Serialize) -> Result<()> {
    page.map_or(Ok(()), |page| page_file::write_run(page, document))
}
