//! `scatterheap plot`: draws plots from tables of the benchmark.

use super::Common;
use super::apart::keep_apart;
use super::output::{print, print_json};
use super::unused::Unused;
use anyhow::{Result, bail};
use scatterheap_bench::plot;
use serde::Serialize;
use std::path::PathBuf;

const HELP: &str = "\
A table is a CSV file with the columns test,allocator,size,n,metric,value, such as the latest.csv \
that `scatterheap bench --output DIR` writes. Several are joined, to show allocators that were \
measured in different runs; where two have the same figure, the later one counts. So to compare two \
runs of the same allocator, give it another name in the column `allocator` of one of them. Ratios \
are to the floor of a figure's own table, or, where that has none, of the last that has one.

The plots are time-over-size.svg (test `uniform`), time-over-threads.svg (test `scale`) and \
ratios.svg (every test with a floor). One whose figures are missing is not drawn, and what an \
earlier call drew is removed. Cases in which requests got NULL or blocks were corrupt are left out.

Examples:
  scatterheap plot benches/results/h200/first.csv benches/results/h200/peers.csv --output plots
  scatterheap plot mine.csv theirs.csv --output plots --title 'NVIDIA H200, November 2026'";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Files of the tables
    #[arg(value_name = "CSV", required = true)]
    tables: Vec<PathBuf>,
    /// Directory for the plots, which is made if need be
    #[arg(long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Line under the plots' titles: where and when it was measured [default: the tables' names]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    unused: Unused,
}

#[derive(Serialize)]
struct Document {
    command: &'static str,
    plots: Vec<String>,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let tables = &arguments.tables;
    for file in plot::files(&arguments.output) {
        keep_apart("--output", &file, tables)?;
    }
    let rows = tables.iter().map(|table| plot::read(table));
    let joined = plot::merge(rows.collect::<plot::Result<Vec<_>>>()?);
    let names = tables.iter().map(|table| table.display().to_string());
    let names = names.collect::<Vec<_>>().join(", ");
    let title = arguments.title.as_ref().unwrap_or(&names);
    let pictures = plot::draw_all(&joined, title)?;
    if pictures.is_empty() {
        bail!(
            "nothing can be plotted of {names}: times of the test `uniform` or `scale` are needed, or \
             of another test with its floor, but found were {} figures of other kinds",
            joined.rows.len()
        );
    }
    let plots = plot::write_all(&pictures, &arguments.output)?;
    // Names need not be UTF-8, as JSON is.
    let plots = plots.iter().map(|path| path.display().to_string());
    let plots: Vec<_> = plots.collect();
    if common.json {
        return print_json(&Document {
            command: "plot",
            plots,
        });
    }
    print(&(plots.join("\n") + "\n"))
}
