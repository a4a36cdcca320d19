//! `scatterheap top`: running heaps, as they are published by their processes.
//!
//! What is shown is in [`view`], and drawn by [`draw`] without knowing of a terminal. [`screen`] has the terminal.

mod charts;
mod draw;
mod map;
mod screen;
#[cfg(test)]
mod tests;
mod text;
mod view;

use super::Common;
use super::output::{has_colours, print, print_json};
use super::unused::Unused;
use anyhow::{Result, bail};
use scatterheap::monitor::{Reading, published, run_directory};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{IsTerminal, stdin, stdout};
use std::path::Path;

const HELP: &str = "\
Shows the heaps of running processes that publish them: runs of stress, replay and soak with --live, and programs that call \
`Heap::monitor`. Readings are taken while kernels run, about four a second, and are of slightly different moments.

Keys: q, Esc or Ctrl-C quits; Tab and the arrows choose among several heaps; p pauses.

Readings are files in $SCATTERHEAP_RUN_DIR, or else in $XDG_RUNTIME_DIR/scatterheap, or else in scatterheap-USER in the directory for \
temporary files. Without a terminal, one reading of each heap is printed.

Examples:
  scatterheap soak --pairs 100000000000 --live &
  scatterheap top
  scatterheap top 4711 --once --json";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Process whose heaps are shown [default: all]
    #[arg(value_name = "PID")]
    process: Option<u32>,
    /// Print one reading of each heap, and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    unused: Unused,
}

#[derive(Serialize)]
struct Document<'a> {
    command: &'static str,
    version: &'static str,
    directory: &'a Path,
    heaps: Vec<Aged<'a>>,
}

/// A reading, and how old it is.
#[derive(Serialize)]
struct Aged<'a> {
    age: f64,
    #[serde(flatten)]
    reading: &'a Reading,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let directory = run_directory()?;
    let readings = find(&directory, arguments.process)?;
    if common.json {
        return print_json(&Document {
            command: "top",
            version: env!("CARGO_PKG_VERSION"),
            directory: &directory,
            heaps: readings
                .iter()
                .map(|reading| Aged {
                    age: reading.age(),
                    reading,
                })
                .collect(),
        });
    }
    if arguments.once || !stdout().is_terminal() || !stdin().is_terminal() {
        let texts: Vec<_> = readings.iter().map(text::of).collect();
        return print(&texts.join("\n"));
    }
    let look = || Ok(of_process(published(&directory)?, arguments.process));
    screen::show(view::View::new(readings, has_colours()), look)
}

/// The heaps of a process, or of all; an error if there are none.
fn find(directory: &Path, process: Option<u32>) -> Result<Vec<Reading>> {
    let all = published(directory)?;
    let others: BTreeSet<_> = all.iter().map(|reading| reading.process).collect();
    let readings = of_process(all, process);
    if !readings.is_empty() {
        return Ok(readings);
    }
    let directory = directory.display();
    let Some(process) = process else {
        bail!(
            "running heaps were looked for in {directory}, and there are none: start a run with --live, such as `scatterheap stress --live`, or call `Heap::monitor` in a program"
        );
    };
    if others.is_empty() {
        bail!(
            "heaps of process {process} were looked for in {directory}, and there are none of any process: start it with --live, or call `Heap::monitor` in it"
        );
    }
    let others: Vec<_> = others.iter().map(ToString::to_string).collect();
    bail!(
        "heaps of process {process} were looked for in {directory}, and there are only those of {}: leave out the number, or give one of these",
        others.join(", ")
    )
}

fn of_process(mut readings: Vec<Reading>, process: Option<u32>) -> Vec<Reading> {
    readings.retain(|reading| process.is_none_or(|process| reading.process == process));
    readings
}
