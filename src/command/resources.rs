//! `scatterheap resources`: measures memory resources of the host side by side.

use super::Common;
use super::apart::keep_apart;
use super::output::{self, conclude, one_line, print, print_json, table};
use super::progress::Progress;
use super::session::{DeviceDescription, DeviceDocument};
use super::unused::UnusedHeap;
use anyhow::{Result, anyhow, bail};
use scatterheap::Device;
use scatterheap::size::Bytes;
use scatterheap_bench::resources::{
    Row, Scenario, Subject, Verdict, beside, judge, measure, read_rows, scenarios, subjects,
    transformer, try_rows, write_all, write_rows,
};
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

const HELP: &str = "\
Scenarios:
  same_size    32 blocks of 64 KiB, again and again
  large        8 blocks of more than 1 MiB, up to 64 MiB
  transformer  a recorded training step
  pressure     blocks of 1 to 64 MiB in a memory of 4 GiB that is 95 % full
  variable     10^6 operations on 2 GiB of blocks of 256 B to 1 MiB
  one_mib      a block of 1 MiB

Resources: scatterheap (the one that a user gets by default), caching_segments, remapping, segments, \
buddy, slab, block_pool, arena, and the driver's own: driver_async and cuda_malloc on a GPU, \
emulated_pool and system_malloc on the CPU.

Examples:
  scatterheap resources --quick                          seconds, but not comparable with a full run
  scatterheap resources variable --resource scatterheap --threads 1,16
  scatterheap resources --write-scenarios traces         for programs in other languages
  scatterheap resources --output resources.csv           scenario,resource,threads,metric,value
  scatterheap resources --with peers.csv                 beside rows of benches/resources/compare.py

docs/resources.md says what the metrics mean. A scenario that needs more memory than is free is left \
out, and the output says so. The exit code is 1 if an allocation of the default resource failed, a \
case of it that has memory could not be measured, or nothing was measured.";

/// The resource that a user gets by default.
const DEFAULT: &str = "scatterheap";

/// The recorded trace.
const TRACE: &str = include_str!("../../benches/data/transformer.csv");
const TRACE_PLACE: &str = "benches/data/transformer.csv";

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
    /// Seconds that a case may take before, while and after it is timed, each; what was done by then counts
    #[arg(long, value_name = "PER_CASE", default_value = "0.5", value_parser = seconds)]
    seconds: Duration,
    /// Trace of the scenario `transformer` [default: that of benches/data/transformer.csv, which is built in]
    #[arg(long, value_name = "FILE")]
    transformer: Option<PathBuf>,
    /// Rows of other allocators, as CSV, that are put beside these; of a case in both the file's are taken
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    /// Write the scenarios to this directory, and measure nothing
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["resource", "threads", "seconds", "with", "output"])]
    write_scenarios: Option<PathBuf>,
    /// Table of all figures as CSV, which is written anew after each case
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    unused: UnusedHeap,
}

/// What was measured, as JSON.
#[derive(Serialize)]
struct Content<'a> {
    rows: &'a [Row],
    /// What the device has too little memory for.
    left_out: &'a [String],
}

/// Which scenarios were written, and where.
#[derive(Serialize)]
struct Written {
    command: &'static str,
    directory: String,
    scenarios: Vec<&'static str>,
}

/// What was measured.
#[derive(Default)]
struct Measured {
    rows: Vec<Row>,
    /// Cases of the default resource that could not be.
    missing: Vec<String>,
    /// What the device has too little memory for, which is nobody's failure.
    left_out: Vec<String>,
    /// Why the table could not be written when it was last tried.
    unwritten: Option<anyhow::Error>,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    if let Some(path) = &arguments.output {
        // The table of others may be gone on with: their rows are in what takes its place.
        keep_apart("--output", path, arguments.transformer.as_slice())?;
    }
    let scenarios = chosen_scenarios(common, arguments)?;
    if let Some(directory) = &arguments.write_scenarios {
        write_all(&scenarios, directory)?;
        return tell_written(common, &scenarios, directory);
    }
    let others = match &arguments.with {
        Some(path) => read_rows(path)?,
        None => Vec::new(),
    };
    let device = common.open_device()?;
    let subjects = chosen_subjects(&device, arguments)?;
    if let Some(path) = &arguments.output {
        try_rows(path)?;
    }
    // A device that is lost does not tell later.
    let described = DeviceDescription::new(&device)?;
    let mut measured = Measured::default();
    let ended = {
        let progress = Progress::new(common, "");
        measured.add_all(
            &device, &subjects, &scenarios, &others, arguments, &progress,
        )
    };
    let failed = failures(&measured);
    let rows = beside(measured.rows, &others);
    // What was measured is not lost if the table cannot be written.
    let printed = if common.json {
        let content = Content {
            rows: &rows,
            left_out: &measured.left_out,
        };
        print_json(&DeviceDocument::on("resources", described, content))
    } else {
        let left_out = left_out(&measured.left_out);
        print(&(text(&rows) + &left_out + &targets(&device, arguments, &rows)))
    };
    let written = measured.unwritten.map_or(Ok(()), Err);
    conclude(written.and(printed), ended.and(failed))
}

fn tell_written(common: &Common, scenarios: &[Scenario], directory: &Path) -> Result<()> {
    let (count, directory) = (scenarios.len(), directory.display().to_string());
    if !common.json {
        return print(&format!("{count} scenarios in {directory}\n"));
    }
    print_json(&Written {
        command: "resources",
        directory,
        scenarios: scenarios.iter().map(|scenario| scenario.name).collect(),
    })
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let parsed = text
        .parse()
        .ok()
        .filter(|seconds| (0.001..=3600.0).contains(seconds));
    parsed
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("`{text}` is no time: use seconds from 0.001 to 3600"))
}

fn chosen_scenarios(common: &Common, arguments: &Arguments) -> Result<Vec<Scenario>> {
    let mut all = scenarios(common.seed, arguments.quick);
    all.push(match &arguments.transformer {
        None => transformer(TRACE.as_bytes(), TRACE_PLACE, arguments.quick)?,
        Some(path) => {
            let place = path.display().to_string();
            let file = File::open(path).map_err(|error| {
                anyhow!("{place} cannot be read ({error}): give a trace of PyTorch's allocator, or leave out --transformer")
            })?;
            transformer(file, &place, arguments.quick)?
        }
    });
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

/// In words that the device has too little memory for a scenario, if so.
fn lacks_room(device: &Device, scenario: &Scenario, threads: u16) -> Result<Option<String>> {
    let of_a_thread = scenario
        .capacity
        .max((scenario.peak() / 10).saturating_mul(13));
    let needed = of_a_thread.saturating_mul(threads.into());
    let free = device.memory_info()?.free;
    let threads = output::threads(threads.into());
    Ok((needed > free).then(|| {
        format!(
            "{}, {threads}: left out, as it needs {} and {} are free",
            scenario.name,
            Bytes(needed),
            Bytes(free)
        )
    }))
}

/// The resources that can do what a scenario does.
fn fitting<'a>(
    subjects: &'a [Subject],
    scenario: &'a Scenario,
) -> impl Iterator<Item = &'a Subject> {
    let subjects = subjects.iter();
    subjects.filter(|subject| (subject.fits)(scenario))
}

impl Measured {
    /// Measures one case after the other.
    fn add_all(
        &mut self,
        device: &Device,
        subjects: &[Subject],
        scenarios: &[Scenario],
        others: &[Row],
        arguments: &Arguments,
        progress: &Progress,
    ) -> Result<()> {
        let fitting = |scenario| fitting(subjects, scenario).count() as u64;
        let total = scenarios.iter().map(fitting).sum::<u64>() * arguments.threads.len() as u64;
        let mut done = 0;
        for scenario in scenarios {
            for threads in &arguments.threads {
                if let Some(reason) = lacks_room(device, scenario, *threads)? {
                    progress.note(&reason);
                    self.left_out.push(reason);
                    done += fitting(scenario);
                    continue;
                }
                for subject in self::fitting(subjects, scenario) {
                    progress.show(done, total);
                    done += 1;
                    let how = (*threads, arguments.seconds);
                    self.add(device, subject, scenario, how, progress);
                    // What was found is not lost if a later case hangs.
                    if let Some(path) = &arguments.output {
                        self.write(others, path);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes all rows so far; what was before is not lost if nothing was found. What cannot be written now may be later.
    fn write(&mut self, others: &[Row], path: &Path) {
        if !self.rows.is_empty() {
            let written = write_rows(&beside(self.rows.clone(), others), path);
            self.unwritten = written.err().map(anyhow::Error::from);
        }
    }

    /// Measures one case; a failure is a note, so that the others are still measured.
    fn add(
        &mut self,
        device: &Device,
        subject: &Subject,
        scenario: &Scenario,
        (threads, limit): (u16, Duration),
        progress: &Progress,
    ) {
        let number = output::threads(threads.into());
        let case = format!("{}, {}, {number}", scenario.name, subject.name);
        progress.say(&case);
        match measure(device, subject, scenario, usize::from(threads), limit) {
            Ok(figures) => self.rows.extend(figures.into_iter().map(|figure| Row {
                scenario: scenario.name.to_owned(),
                resource: subject.name.to_owned(),
                threads,
                metric: figure.metric.to_owned(),
                value: figure.value,
            })),
            Err(error) => {
                progress.note(&format!("{case}: {error}"));
                // The others are there to compare with, and may be unable to do what is asked.
                if subject.name == DEFAULT {
                    self.missing.push(case);
                }
            }
        }
    }
}

fn text(rows: &[Row]) -> String {
    let find = |row: &Row, metric| {
        let same = |other: &&Row| other.is_of_case_of(row) && other.metric == metric;
        rows.iter().find(same).map(|row| row.value)
    };
    let number = |value: Option<f64>, digits| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let first = rows.iter().filter(|row| row.metric == "ns_per_pair");
    let lines = first.map(|row| {
        [
            // Rows of others are from any file.
            one_line(&row.scenario),
            one_line(&row.resource),
            row.threads.to_string(),
            format!("{:.0}", row.value),
            number(find(row, "pairs"), 0),
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
        "pairs",
        "reserved/live",
        "hits %",
        "driver calls",
        "failures",
    ];
    format!("{}\n", table(head, lines))
}

/// A line for each case that there is too little memory for.
fn left_out(reasons: &[String]) -> String {
    if reasons.is_empty() {
        return String::new();
    }
    format!("\n{}\n", reasons.join("\n"))
}

/// Whether the default resource reached its targets, which are for full runs on an H200.
fn targets(device: &Device, arguments: &Arguments, rows: &[Row]) -> String {
    if device.is_gpu() && !arguments.quick {
        return verdicts(&judge(rows));
    }
    "\nTargets are not judged: they are for a full run on an H200.\n".to_owned()
}

/// What the default resource was to reach.
fn verdicts(verdicts: &[Verdict]) -> String {
    let lines = verdicts.iter().map(|verdict| {
        let result = match (verdict.is_met, &verdict.failed) {
            (Some(true), _) => "met".to_owned(),
            (Some(false), None) => "MISSED".to_owned(),
            (Some(false), Some(failed)) => format!("MISSED: {failed}"),
            (None, None) => "not measured".to_owned(),
            (None, Some(failed)) => format!("not comparable: {failed}"),
        };
        [
            verdict.what.clone(),
            verdict.asked.clone(),
            verdict.found.map_or_else(String::new, |found| {
                format!("{found:.*}", if found < 10.0 { 3 } else { 0 })
            }),
            result,
        ]
    });
    let head = ["target", "asked", "found", "result"];
    format!("\n{}\n", table(head, lines))
}

/// Fails if the default resource did, or nothing was measured.
fn failures(measured: &Measured) -> Result<()> {
    let Measured {
        rows,
        missing,
        left_out,
        ..
    } = measured;
    if !missing.is_empty() {
        bail!(
            "the default resource could not be measured, as noted above: {}",
            missing.join("; ")
        );
    }
    if rows.is_empty() && !left_out.is_empty() {
        bail!(
            "nothing was measured, as the device has too little memory: choose other scenarios, fewer threads, or --quick"
        );
    }
    if rows.is_empty() {
        bail!("nothing was measured: choose other scenarios or resources");
    }
    let is_ours = |row: &&Row| row.resource == DEFAULT && row.metric == "failures";
    match rows.iter().find(is_ours) {
        None => Ok(()),
        Some(row) => bail!(
            "{} allocations of the default resource failed in {} with {}",
            row.value,
            row.scenario,
            output::threads(row.threads.into())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_met_missed_or_not_measured() {
        let row = |resource: &str, value| Row {
            scenario: "one_mib".into(),
            resource: resource.into(),
            threads: 1,
            metric: "ns_per_pair".into(),
            value,
        };
        let line = |ours, what: &str| {
            let text = verdicts(&judge(&[row(DEFAULT, ours), row("cuda_malloc", 1e9)]));
            let line = text.lines().find(|line| line.trim().starts_with(what));
            line.expect("there is such a target").trim_end().to_owned()
        };
        let faster = "one_mib, 1 thread: times faster";
        assert!(line(10.0, faster).ends_with(" met"));
        assert!(line(1e9, faster).ends_with("MISSED"));
        assert!(line(10.0, "large, 1 thread").ends_with("not measured"));
    }
}
