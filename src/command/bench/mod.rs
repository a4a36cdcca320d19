//! `scatterheap bench`: measures allocators side by side.

mod files;
pub mod first;
mod measure;
mod report;
mod table;
mod watch;

use super::Common;
use super::apart::keep_apart;
use super::output::{conclude, note, print, print_json};
use super::report::page_file;
use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
pub use measure::Interrupted;
pub(super) use measure::stop_by_signal;
use measure::{Failure, Measured};
use scatterheap::Hardening;
use scatterheap_bench::{FIRST_HEAP, Row, Test};
use std::path::PathBuf;

const HELP: &str = "\
Tests:
  uniform       every thread allocates, then frees, a block of the same size
  mixed         the same with sizes of a range
  sizes         uniform with as many threads whatever the size, up to 64 KiB
  scale         uniform with 1 to 2^22 threads
  mixed_scale   mixed with 2^10 to 2^18 threads
  warp          one lane of every warp allocates
  churn         every thread allocates, writes, reads and frees, again and again
  latency       how long single calls take: the median, and the slowest
  large         64 blocks of 1 MiB, and of 16 MiB
  uniform_aged  uniform, on a heap that is 70 % full after 10^7 operations
  mixed_aged    mixed, on such a heap
  sizes_aged    sizes, on such a heap
  mixed_churned mixed, each time after a launch that churns in the same heap
  uniform_new   uniform, each time in a new heap
  mixed_new     mixed, each time in a new heap
  oom, oommix   a heap of 1 GiB filled until NULL: the share that was handed out
  frag          address range over bytes asked for
  init          making a heap
  resources     registers and stack of malloc and free (on a GPU)
  workgen       every thread makes an output of its own length
  access        reading what was allocated
  graph         edges inserted into and deleted from a real graph
  alloc_heavy   blocks that grow from 16 bytes to 64 KiB by realloc

Allocators: floor (the same launch, which stores 8 bytes and allocates nothing), scatterheap, the \
device's own malloc (`cuda` on a GPU, `system` on the CPU), and plug-ins by their names. CUDA's is \
so slow that it only takes the cases with few threads: compare lines with the same n.

Examples:
  scatterheap bench --quick                            all tests, few sizes: seconds on a CPU
  scatterheap bench uniform mixed --device cuda:0      two tests
  scatterheap bench churn --allocator scatterheap --samples 101
  scatterheap bench --peer ./libother.so --output results
                                                       with a plug-in; CSV, JSON and plots

Times are medians in microseconds, by the device's own clock. Whoever is slow gets fewer samples: \
the metric `samples` says how many. A figure with `!` is of a case in which requests got NULL, or \
blocks did not hold what was written. Ctrl-C or SIGTERM ends the run after the current case, and what was \
measured until then is shown and written; once more ends it at once.

The exit code is 1 if scatterheap, plain or hardened, failed in a case or gave blocks that did not \
hold what was written, if nothing was measured or a file could not be written, and 130 after \
Ctrl-C.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// What to measure [default: all tests]
    #[arg(value_name = "TEST", value_parser = test_parser(), hide_possible_values = true)]
    tests: Vec<Test>,
    /// Only cases of these sizes in bytes, the most that their threads ask for, with commas between [default: all]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    size: Vec<u64>,
    /// Whom to measure beside the floor, with commas between [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    allocator: Vec<String>,
    /// Timed launches of each kind [default: 21; 5 if quick]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,
    /// Fewer sizes, threads, samples, warm-ups, rounds and aging operations: seconds on a CPU, but not
    /// comparable with a full run
    #[arg(long)]
    quick: bool,
    /// Stripes of scatterheap's size classes at most [default: one for each multiprocessor]; heaps
    /// below 2 GiB have 48 at most
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    stripes: Option<u32>,
    /// Hardened modes, such as `poison` or `red-zones,tags` or `all`: measures a heap that has them
    /// beside the plain one; may be given several times
    #[arg(long, value_name = "MODES")]
    harden: Vec<Hardening>,
    /// Shared library of another allocator; may be given several times
    #[arg(long, value_name = "LIBRARY")]
    peer: Vec<PathBuf>,
    /// Seconds that a plug-in may be silent before it is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    peer_timeout: u64,
    /// Directory for latest.csv, latest.json and plots, which is made if need be
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// Write a page with charts to this file; `scatterheap report` makes one of several tables
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Reads the name of a test.
fn test_parser() -> impl TypedValueParser<Value = Test> {
    PossibleValuesParser::new(Test::ALL.map(Test::name)).try_map(|name| name.parse::<Test>())
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    keep_files_apart(arguments)?;
    let measured = measure::run(common, arguments, || prepare(arguments))?;
    note_what_is_missing(&measured, arguments);
    // What was measured is not lost if a file cannot be written.
    let printed = if common.json {
        print_json(&files::Document::new(&measured))
    } else {
        print(&report::text(&measured))
    };
    conclude(write(&measured, arguments).and(printed), judge(&measured))
}

/// Refuses files that would take each other's place, or that of a plug-in.
fn keep_files_apart(arguments: &Arguments) -> Result<()> {
    let mut others = arguments.peer.clone();
    for file in arguments.output.iter().flat_map(|path| files::all(path)) {
        keep_apart("--output", &file, &arguments.peer)?;
        others.push(file);
    }
    match &arguments.report {
        Some(page) => keep_apart("--report", page, &others),
        None => Ok(()),
    }
}

/// Finds out before anything is measured whether the files can be written.
fn prepare(arguments: &Arguments) -> Result<()> {
    if let Some(directory) = &arguments.output {
        files::prepare(directory)?;
    }
    arguments
        .report
        .as_deref()
        .map_or(Ok(()), page_file::prepare)
}

/// Writes the files that were asked for. Nothing takes the place of what an earlier run measured.
fn write(measured: &Measured, arguments: &Arguments) -> Result<()> {
    if !is_worth_writing(measured) {
        return Ok(());
    }
    let written = match &arguments.output {
        Some(directory) => files::write(measured, directory),
        None => Ok(()),
    };
    written.and(match &arguments.report {
        Some(page) => page_file::write_run(page, &files::Document::new(measured)),
        None => Ok(()),
    })
}

/// Whether anything was measured that may take the place of what an earlier run measured. (The first heap of a process is made before the first case.)
fn is_worth_writing(measured: &Measured) -> bool {
    let is_whole = measured.interrupted.is_none() && measured.lost.is_none();
    let counts = |row: &Row| is_whole || row.metric != FIRST_HEAP;
    measured.rows.iter().any(counts)
}

/// Says which tests have no row.
fn note_what_is_missing(measured: &Measured, arguments: &Arguments) {
    let is_asked = |test: &Test| arguments.tests.is_empty() || arguments.tests.contains(test);
    let is_known = |test: &Test| {
        let failed = |failure: &Failure| failure.case.is_none_or(|case| case.test == *test);
        let mut rows = measured.rows.iter();
        rows.any(|row| row.test == test.name()) || measured.failures.iter().any(failed)
    };
    if measured.interrupted.is_some() || measured.lost.is_some() {
        return;
    }
    let place = if measured.machine.gpu { "GPU" } else { "CPU" };
    for test in Test::ALL {
        if !is_asked(&test) || is_known(&test) {
            continue;
        }
        if measured.plan.cases.iter().any(|case| case.test == test) {
            note(&format!("{test}: nothing to measure of these allocators"));
        } else {
            note(&format!("{test}: nothing to measure on the {place}"));
        }
    }
}

/// Measures a plug-in for the parent process; returns only if there is none.
pub fn work() -> Result<()> {
    // SAFETY: that it is a plug-in, as `scatterheap_peer.h` wants one, is what whoever names it by `--peer` says.
    match unsafe { scatterheap_bench::peer::worker(measure::open_with_kernels) } {
        Err(error) => Err(error.into()),
    }
}

/// What scatterheap could not do.
fn of_ours(measured: &Measured) -> impl Iterator<Item = &Failure> {
    let failures = measured.failures.iter();
    failures.filter(|failure| is_ours(&failure.allocator))
}

/// Whether an allocator is scatterheap, plain or hardened: `scatterheap+poison`.
fn is_ours(allocator: &str) -> bool {
    allocator.split('+').next() == Some(measure::OURS)
}

/// An error if scatterheap failed.
fn judge(measured: &Measured) -> Result<()> {
    for failure in &measured.failures {
        note(&failure.to_string());
    }
    if let Some(interrupted) = measured.interrupted {
        return Err(interrupted.into());
    }
    if let Some(reason) = &measured.lost {
        bail!("the benchmark ended before all was measured: {reason}");
    }
    let mut failed = Vec::new();
    for Failure { case, .. } in of_ours(measured) {
        // Of `init` both may fail: a process's first heap, and those after it.
        if !failed.contains(case) {
            failed.push(*case);
        }
    }
    match failed.len() {
        0 if measured.rows.is_empty() => {
            bail!("nothing was measured: choose another test, allocator or device")
        }
        0 => Ok(()),
        count => bail!(
            "scatterheap failed in {count} of {} cases",
            measured.plan.cases.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::report::tests::measured;
    use super::*;

    #[test]
    fn what_ended_before_its_first_case_is_not_written() {
        let first = ("scatterheap", FIRST_HEAP, 1.0);
        let second = ("scatterheap", "init_ms", 1.0);
        for (rows, is_worth) in [(&[first][..], false), (&[first, second], true)] {
            let mut measured = measured(Test::Init, rows);
            assert!(is_worth_writing(&measured));
            measured.lost = Some("a fault".into());
            assert_eq!(is_worth_writing(&measured), is_worth);
            measured.lost = None;
            measured.interrupted = Some(Interrupted { done: 0, cases: 2 });
            assert_eq!(is_worth_writing(&measured), is_worth);
            measured.rows.clear();
            assert!(!is_worth_writing(&measured));
        }
    }

    #[test]
    fn a_failure_of_a_hardened_heap_is_one_of_ours() {
        let failed = |allocator: &str| {
            let mut measured = measured(Test::Uniform, &[("floor", "alloc_us", 10.0)]);
            measured.failures.push(Failure {
                case: measured.plan.cases.first().copied(),
                allocator: allocator.into(),
                reason: "any".into(),
            });
            judge(&measured).is_err()
        };
        for ours in ["scatterheap", "scatterheap+poison", "scatterheap+all"] {
            assert!(failed(ours), "{ours}");
        }
        for other in ["floor", "system", "scatterheap_of_others"] {
            assert!(!failed(other), "{other}");
        }
    }

    #[test]
    fn a_plug_in_that_ends_early_is_among_the_failures() {
        let mut measured = measured(Test::Uniform, &[("floor", "alloc_us", 10.0)]);
        measured.failures.push(Failure {
            case: None,
            allocator: "other".into(),
            reason: "it ended".into(),
        });
        assert_eq!(measured.failures[0].to_string(), "other: it ended");
        let document = serde_json::to_value(files::Document::new(&measured)).expect("it is one");
        let expected =
            serde_json::json!([{"case": null, "allocator": "other", "reason": "it ended"}]);
        assert_eq!(document["failures"], expected);
    }
}
