//! What can be asked on the command line; each subcommand has a file.

mod apart;
mod bench;
mod check;
mod exhaustion;
mod filling;
mod heap;
mod info;
mod litmus;
mod live;
mod live_cost;
mod machine;
mod occupancy;
pub mod output;
mod picture;
mod plot;
mod progress;
mod replay;
mod report;
mod resources;
mod saved;
mod session;
mod sizes;
mod snapshot;
mod soak;
mod stress;
mod top;
mod unused;
mod watchdog;

pub use bench::Interrupted;

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use scatterheap::Selector;
use scatterheap::size::Bytes;
use scatterheap::stress::Workload;

const EXAMPLES: &str = "\
Examples:
  scatterheap info                                  the devices, and whether GPUs can be used
  scatterheap stress                                all workloads on the GPU, or else on the CPU
  scatterheap stress churn --device cpu:8           one workload on 8 threads of the CPU
  scatterheap litmus                                message passing through free and malloc
  scatterheap soak --pairs 1000000000               for long, with contents verified
  scatterheap occupancy --heap 64MiB                a picture of a heap
  scatterheap check heap.snapshot                   whether every invariant of a saved heap holds
  scatterheap replay traces/sqlite3.sctrace         a real program's allocations
  scatterheap resources --quick                     how fast the host's memory resources are
  scatterheap replay traces/sqlite3.sctrace --report heap.html
                                                    the same as a page with pictures
  scatterheap top                                   heaps of runs with --live, while they run
  scatterheap bench --quick                         how fast malloc and free are, beside others

Sizes are numbers of bytes, with a unit if you like: 4096, 64KiB, 512MiB, 16GiB.";

/// `malloc` for code that runs on a GPU: look at devices, try heaps, show them, replay traces,
/// measure allocators.
#[derive(Debug, Parser)]
#[command(name = "scatterheap", version, after_help = EXAMPLES)]
#[command(arg_required_else_help = true)]
pub struct CommandLine {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// The hidden subcommand by which this program starts itself to measure a plug-in.
const WORKER: &str = "bench-worker";
/// That by which it starts itself to make one heap.
const FIRST_HEAP: &str = "bench-first-heap";

/// Options of all subcommands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Common options")]
struct Common {
    /// Device: `auto` (a GPU if there is one, else the CPU), `cpu`, `cpu:THREADS` or `cuda:NUMBER`
    #[arg(long, global = true, value_name = "DEVICE", default_value = "auto")]
    device: Selector,
    /// Bytes that the heap can allocate [default: 256MiB on the CPU; on a GPU 16GiB, or half of
    /// the free memory if that is less]
    #[arg(long, global = true, value_name = "SIZE")]
    heap: Option<Bytes>,
    /// Different seeds give different sizes and orders
    #[arg(long, global = true, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the devices, the driver, the kernel compiler and the embedded kernels
    Info(info::Arguments),
    /// Try a heap hard, and verify contents, overlap, alignment, bounds, invariants and leaks
    Stress(stress::Arguments),
    /// Try whether what was done before `free` is seen after `malloc`, in tiny heaps where threads meet
    Litmus(litmus::Arguments),
    /// Fill a heap wholly, ask for all sizes, thin it out, fill it again, and empty it
    Exhaustion(exhaustion::Arguments),
    /// Allocate and free on several aged heaps for as long as you like, with contents verified
    Soak(soak::Arguments),
    /// Fill a heap with a workload's blocks and show it, page by page
    Occupancy(occupancy::Arguments),
    /// Fill a heap with a workload's blocks and save its metadata to a file
    Snapshot(snapshot::Arguments),
    /// Verify every invariant of a heap: of a saved one, or of one made for that
    Check(check::Arguments),
    /// Replay a real program's allocations, many copies at once, with contents verified
    Replay(replay::Arguments),
    /// Measure allocators side by side: scatterheap, the device's own malloc, plug-ins, and the floor
    Bench(bench::Arguments),
    /// Measure memory resources of the host side by side, and the driver's own allocators
    Resources(resources::Arguments),
    /// Draw plots from tables of the benchmark
    Plot(plot::Arguments),
    /// Make one HTML page of runs: occupancy, heat map, fragmentation, speed, errors, comparison
    Report(report::Arguments),
    /// Watch running heaps, in the terminal: those of runs with --live, and of programs that publish theirs
    Top(top::Arguments),
    /// Measure what it costs to watch a heap
    LiveCost(live_cost::Arguments),
    /// Measure a plug-in as its parent orders through standard input
    #[command(name = WORKER, hide = true)]
    Worker,
    /// Make a heap and print the milliseconds that it took
    #[command(name = FIRST_HEAP, hide = true)]
    FirstHeap(bench::first::Arguments),
}

impl CommandLine {
    /// Does what was asked.
    ///
    /// # Errors
    ///
    /// If it could not be done, or if it found something wrong with a heap.
    pub fn run(&self) -> Result<()> {
        let common = &self.common;
        match &self.command {
            Command::Info(_) => info::run(common),
            Command::Stress(arguments) => stress::run(common, arguments),
            Command::Litmus(arguments) => litmus::run(common, arguments),
            Command::Exhaustion(arguments) => exhaustion::run(common, arguments),
            Command::Soak(arguments) => soak::run(common, arguments),
            Command::Occupancy(arguments) => occupancy::run(common, arguments),
            Command::Snapshot(arguments) => snapshot::run(common, arguments),
            Command::Check(arguments) => check::run(common, arguments),
            Command::Replay(arguments) => replay::run(common, arguments),
            Command::Bench(arguments) => bench::run(common, arguments),
            Command::Resources(arguments) => resources::run(common, arguments),
            Command::Plot(arguments) => plot::run(common, arguments),
            Command::Report(arguments) => report::run(common, arguments),
            Command::Top(arguments) => top::run(common, arguments),
            Command::LiveCost(arguments) => live_cost::run(common, arguments),
            Command::Worker => bench::work(),
            Command::FirstHeap(arguments) => bench::first::run(common, arguments),
        }
    }
}

/// Reads the name of a workload.
fn workload_parser() -> impl TypedValueParser<Value = Workload> {
    PossibleValuesParser::new(Workload::ALL.map(Workload::name))
        .try_map(|name| name.parse::<Workload>())
}
