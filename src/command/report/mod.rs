//! `scatterheap report`: one HTML page of runs, which needs nothing beside itself.
//!
//! What a run prints with `--json` is read ([`document`]), put into the shape that the page shows ([`run`]), and written
//! into the page ([`page`]) together with the script that draws it. `--report` goes the same way within a run.

mod arguments;
mod document;
mod page;
pub mod page_file;
mod run;

pub use arguments::ReportArguments;

use super::Common;
use super::apart::keep_apart;
use super::output::{print, print_json};
use super::unused::Unused;
use anyhow::Result;
use serde::Serialize;
use std::path::PathBuf;

const HELP: &str = "\
A run is what `scatterheap stress`, `replay` or `bench` printed with --json, or a table of the benchmark (CSV, whatever its name). The pictures over \
time are of runs that were looked at on their way: with --moments, or with --report, which writes such a page at once. Results of \
the benchmark are shown together; where two have the same figure, the later one counts.

The page needs no network and no other file. It is for any browser, also on a phone, and follows the system's light or dark colours.

Examples:
  scatterheap replay traces/sqlite3.sctrace --report heap.html
  scatterheap stress --json --moments 64 > stress.json
  scatterheap bench --quick --output results
  scatterheap report stress.json results/latest.json --output runs.html
  scatterheap report benches/results/h200/latest.csv --title 'NVIDIA H200'";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Files of the runs
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// File of the page
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Title of the page [default: what was run]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    unused: Unused,
}

#[derive(Serialize)]
struct Document {
    command: &'static str,
    report: String,
    bytes: usize,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    keep_apart("--output", &arguments.output, &arguments.runs)?;
    page_file::prepare(&arguments.output)?;
    let documents = arguments.runs.iter().map(|path| document::read(path));
    let runs = run::join(documents.collect::<Result<Vec<_>>>()?);
    let bytes = page_file::write(&arguments.output, &runs, arguments.title.as_deref())?;
    // Names need not be UTF-8, as JSON is.
    let report = arguments.output.display().to_string();
    if common.json {
        return print_json(&Document {
            command: "report",
            report,
            bytes,
        });
    }
    print(&(report + "\n"))
}
