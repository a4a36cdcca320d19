//! `scatterheap resources`: measures memory resources of the host side by side.

use super::Common;
use super::output::{note, print, print_json, table};
use anyhow::{Result, bail};
use scatterheap::Device;
use scatterheap::size::Bytes;
use scatterheap_bench::resources::{
    Row, Scenario, Subject, TRANSFORMER, measure, scenarios, subjects, transformer, write_all,
    write_rows,
};
use std::path::{Path, PathBuf};

const HELP: &str = "\
Scenarios:
  same_size    32 blocks of 64 KiB, again and again
  large        8 blocks of more than 1 MiB, up to 64 MiB
  transformer  a recorded training step, if its trace is there
  pressure     blocks of 1 to 64 MiB in a memory of 4 GiB that is 95 % full
  variable     10^6 operations on 2 GiB of blocks of 256 B to 1 MiB
  one_mib      a block of 1 MiB

Resources: scatterheap (the one that a user gets by default), caching_segments, remapping, segments,
buddy, slab, block_pool, arena, and the driver's own: driver_async and cuda_malloc on a GPU,
emulated_pool and system_malloc on the CPU.

Examples:
  scatterheap resources --quick                          seconds, but not comparable with a full run
  scatterheap resources variable --resource scatterheap --threads 1,16
  scatterheap resources --write-scenarios traces         for programs in other languages
  scatterheap resources --output resources.csv           scenario,resource,threads,metric,value

docs/resources.md says what the metrics mean. The exit code is 1 if an allocation of the default
resource failed.";

/// Where the recorded trace is looked for.
const TRACE: &str = "benches/data/transformer.csv";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// What to run [default: all scenarios]
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Whom to measure, with commas between [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    resource: Vec<String>,
    /// Numbers of threads, with commas between
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = [1, 16],
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Fewer rounds and operations, and less memory
    #[arg(long)]
    quick: bool,
    /// Trace of the scenario `transformer` [default: benches/data/transformer.csv, if it is there]
    #[arg(long, value_name = "FILE")]
    transformer: Option<PathBuf>,
    /// Write the scenarios to this directory, and measure nothing
    #[arg(long, value_name = "DIRECTORY")]
    write_scenarios: Option<PathBuf>,
    /// Table of all figures as CSV
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let scenarios = chosen_scenarios(common, arguments)?;
    if let Some(directory) = &arguments.write_scenarios {
        write_all(&scenarios, directory)?;
        return print(&format!(
            "{} scenarios in {}\n",
            scenarios.len(),
            directory.display()
        ));
    }
    let device = common.open_device()?;
    let subjects = chosen_subjects(&device, arguments)?;
    let mut rows = Vec::new();
    for scenario in &scenarios {
        for threads in &arguments.threads {
            if has_room(&device, scenario, *threads)? {
                for subject in subjects.iter().filter(|subject| (subject.fits)(scenario)) {
                    rows.extend(measure_one(&device, subject, scenario, *threads));
                }
            }
        }
    }
    if let Some(path) = &arguments.output {
        write_rows(&rows, path)?;
    }
    if common.json {
        print_json(&rows)?;
    } else {
        print(&text(&rows))?;
    }
    judge(&rows)
}

fn chosen_scenarios(common: &Common, arguments: &Arguments) -> Result<Vec<Scenario>> {
    let mut all = scenarios(common.seed, arguments.quick);
    let path = arguments.transformer.as_deref();
    let path = path.unwrap_or(Path::new(TRACE));
    if arguments.transformer.is_some() || path.exists() {
        all.push(transformer(path, arguments.quick)?);
    } else {
        note(&format!(
            "{TRANSFORMER}: left out, as there is no recorded trace at {}: name one with `--transformer`",
            path.display()
        ));
    }
    let names: Vec<_> = all.iter().map(|scenario| scenario.name).collect();
    check_names("scenario", &arguments.scenarios, &names)?;
    all.retain(|scenario| {
        arguments.scenarios.is_empty()
            || arguments.scenarios.iter().any(|name| name == scenario.name)
    });
    Ok(all)
}

fn chosen_subjects(device: &Device, arguments: &Arguments) -> Result<Vec<Subject>> {
    let mut all = subjects(device);
    let names: Vec<_> = all.iter().map(|subject| subject.name).collect();
    check_names("resource", &arguments.resource, &names)?;
    all.retain(|subject| {
        arguments.resource.is_empty() || arguments.resource.iter().any(|name| name == subject.name)
    });
    Ok(all)
}

fn check_names(what: &str, asked: &[String], known: &[&str]) -> Result<()> {
    for name in asked {
        if !known.contains(&name.as_str()) {
            bail!(
                "`{name}` is no {what} here: choose from {}",
                known.join(", ")
            );
        }
    }
    Ok(())
}

/// Whether the device has memory for a scenario; says so if not.
fn has_room(device: &Device, scenario: &Scenario, threads: u16) -> Result<bool> {
    let needed = scenario.capacity.max(scenario.peak() / 10 * 13) * u64::from(threads);
    let free = device.memory_info()?.free;
    if needed > free {
        note(&format!(
            "{}, {threads} threads: left out, as it needs {} and {} are free",
            scenario.name,
            Bytes(needed),
            Bytes(free)
        ));
    }
    Ok(needed <= free)
}

/// The figures of one; a failure is a note, so that the others are still measured.
fn measure_one(device: &Device, subject: &Subject, scenario: &Scenario, threads: u16) -> Vec<Row> {
    match measure(device, subject, scenario, usize::from(threads)) {
        Ok(figures) => figures
            .into_iter()
            .map(|figure| Row {
                scenario: scenario.name,
                resource: subject.name,
                threads,
                metric: figure.metric,
                value: figure.value,
            })
            .collect(),
        Err(error) => {
            note(&format!(
                "{}, {}, {threads} threads: {error}",
                scenario.name, subject.name
            ));
            Vec::new()
        }
    }
}

fn text(rows: &[Row]) -> String {
    let find = |row: &Row, metric| {
        let same = |other: &&Row| {
            (other.scenario, other.resource, other.threads)
                == (row.scenario, row.resource, row.threads)
                && other.metric == metric
        };
        rows.iter().find(same).map(|row| row.value)
    };
    let number = |value: Option<f64>, digits| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let first = rows.iter().filter(|row| row.metric == "ns_per_pair");
    let lines = first.map(|row| {
        [
            row.scenario.to_owned(),
            row.resource.to_owned(),
            row.threads.to_string(),
            format!("{:.0}", row.value),
            number(find(row, "reserved_over_live"), 3),
            number(find(row, "hit_rate").map(|rate| rate * 100.0), 2),
            number(find(row, "driver_calls"), 0),
            number(find(row, "failures"), 0),
        ]
    });
    let head = [
        "scenario",
        "resource",
        "threads",
        "ns/pair",
        "reserved/live",
        "hits %",
        "driver calls",
        "failures",
    ];
    format!("{}\n", table(head, lines))
}

fn judge(rows: &[Row]) -> Result<()> {
    if rows.is_empty() {
        bail!("nothing was measured: choose other scenarios or resources");
    }
    let is_ours = |row: &&Row| row.resource == "scatterheap" && row.metric == "failures";
    match rows.iter().find(is_ours) {
        None => Ok(()),
        Some(row) => bail!(
            "{} allocations of the default resource failed in {} with {} threads",
            row.value,
            row.scenario,
            row.threads
        ),
    }
}
