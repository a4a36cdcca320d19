//! `scatterheap snapshot`: fills a heap and saves what its metadata are then.

use super::Common;
use super::filling::{FillArguments, Filling};
use super::output::{count, print, print_json};
use super::session::Document;
use anyhow::Result;
use scatterheap::SnapshotError;
use scatterheap::size::Bytes;
use scatterheap::stress::Workload;
use scatterheap_trace::file;
use serde::Serialize;
use std::path::PathBuf;

const HELP: &str = "\
Programs save their own heaps with `heap.snapshot()?.save(path)`.

Examples:
  scatterheap snapshot --output heap.snapshot
  scatterheap snapshot --workload churn --fill 90 --device cuda:0 --output full.snapshot
  scatterheap check heap.snapshot
  scatterheap occupancy --snapshot heap.snapshot";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// File to write; one that is there is replaced
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    fill: FillArguments,
}

#[derive(Serialize)]
struct Content {
    file: String,
    file_bytes: u64,
    workload: Workload,
    seed: u64,
    /// Threads that got a block, and threads that got NULL.
    blocks: u64,
    nulls: u64,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    file::try_out(&arguments.output).map_err(|source| SnapshotError::Write {
        path: arguments.output.clone(),
        source,
    })?;
    let filling = arguments.fill.fill(common)?;
    let Filling { heap, snapshot, .. } = &filling;
    snapshot.save(&arguments.output)?;
    let content = Content {
        file: arguments.output.display().to_string(),
        file_bytes: std::fs::metadata(&arguments.output)?.len(),
        workload: filling.workload,
        seed: filling.settings.seed,
        blocks: snapshot.occupancy().used_blocks,
        nulls: filling.nulls,
    };
    if common.json {
        return print_json(&Document::new("snapshot", heap, content)?);
    }
    print(&format!(
        "{}: {}, a heap of {} on {} with {} blocks in {} of metadata\n",
        content.file,
        Bytes(content.file_bytes),
        Bytes(heap.capacity()),
        heap.device(),
        count(content.blocks),
        Bytes(heap.layout().metadata_bytes),
    ))
}
