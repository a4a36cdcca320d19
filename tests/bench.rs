//! The command `scatterheap bench`: what it prints and writes, and that bad input ends in one line before
//! anything is measured.

use serde_json::Value;
use std::collections::BTreeSet;
#[cfg(unix)]
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::{Child, ChildStderr, Stdio};
use std::process::{Command, Output};
#[cfg(unix)]
use std::time::Duration;

/// A heap and samples that are soon done.
const SMALL: [&str; 6] = ["--device", "cpu", "--heap", "32MiB", "--samples", "3"];

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scatterheap"));
    command.arg("bench").args(arguments).env("NO_COLOR", "1");
    command.output().expect("the command starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

/// What a successful call prints.
fn printed(arguments: &[&str]) -> String {
    let output = bench(arguments);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    text(&output.stdout).to_owned()
}

/// A directory of the test's own, which is not there.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    match std::fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
        _ => path,
    }
}

/// The lines of a table under its head, which must be the right one.
fn lines(csv: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(csv).expect("the table was written");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("test,allocator,size,n,metric,value"));
    lines
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect()
}

#[test]
fn hardened_heaps_are_measured_beside_the_plain_one() {
    let output = directory("bench-hardened");
    let path = output.to_str().expect("UTF-8");
    let options = ["--quick", "uniform", "churn", "--allocator", "scatterheap"];
    let modes = [
        "--harden",
        "red-zones,tags",
        "--harden",
        "all",
        "--output",
        path,
    ];
    printed(&[&options[..], &modes, &SMALL].concat());
    let lines = lines(&output.join("latest.csv"));
    for name in [
        "scatterheap",
        "scatterheap+red-zones+tags",
        "scatterheap+all",
    ] {
        for metric in ["alloc_us", "free_us", "churn_us"] {
            let figures = lines
                .iter()
                .filter(|line| line[1] == name && line[4] == metric);
            assert!(figures.count() > 0, "{name} {metric}");
        }
        let wrong =
            |line: &&Vec<String>| ["null", "corrupt"].contains(&&*line[4]) && line[5] != "0.0";
        let wrong: Vec<_> = lines
            .iter()
            .filter(|line| line[1] == name)
            .filter(wrong)
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

#[test]
fn a_quick_run_writes_every_figure_as_csv_and_json_and_draws_plots() {
    let output = directory("bench-quick");
    let path = output.to_str().expect("UTF-8");
    let document = printed(&[&["--quick", "--json", "--output", path], &SMALL[..]].concat());
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let lines = lines(&output.join("latest.csv"));
    assert_eq!(
        document["rows"].as_array().expect("rows").len(),
        lines.len()
    );
    assert_eq!(document["failures"], Value::Array(Vec::new()));
    assert_eq!(document["machine"]["selector"], "cpu");
    assert_eq!(document["plan"]["heap_bytes"], 32 << 20);
    for line in &lines {
        assert_eq!(line.len(), 6, "{line:?}");
        for number in [&line[2], &line[3], &line[5]] {
            let number: f64 = number.parse().unwrap_or_else(|_| panic!("{line:?}"));
            assert!(number >= 0.0, "{line:?}");
        }
    }
    let is_first = |line: &&Vec<String>| line[0] == "init" && line[4] == "init_ms_first";
    assert!(lines.iter().any(|line| is_first(&line)), "{lines:?}");
    let found: BTreeSet<(&str, &str)> = lines.iter().map(|line| (&*line[0], &*line[1])).collect();
    for test in [
        "uniform",
        "mixed",
        "sizes",
        "scale",
        "mixed_scale",
        "warp",
        "churn",
        "latency",
        "large",
        "uniform_aged",
        "mixed_aged",
        "sizes_aged",
        "mixed_churned",
        "uniform_new",
        "mixed_new",
        "oom",
        "oommix",
        "frag",
        "init",
        "workgen",
        "access",
        "graph",
        "alloc_heavy",
    ] {
        assert!(found.contains(&(test, "scatterheap")), "{test}");
    }
    for (test, allocator) in [
        ("uniform", "floor"),
        ("uniform", "system"),
        ("workgen", "two_pass"),
    ] {
        assert!(found.contains(&(test, allocator)), "{test}, {allocator}");
    }
    for name in [
        "latest.json",
        "time-over-size.svg",
        "time-over-threads.svg",
        "ratios.svg",
    ] {
        assert!(output.join(name).is_file(), "{name}");
    }
}

/// With enough threads that starting them does not hide the work. What else
/// the machine does can make one run tell anything, so that one of a few has
/// to show it; were the floor not below the allocators, none would.
#[test]
fn allocating_takes_longer_than_not_allocating() {
    const RUNS: usize = 5;
    let output = directory("bench-floor");
    let mut reports = Vec::new();
    let shown = (0..RUNS).any(|_| {
        reports.push(uniform_report(&output));
        floor_is_below_the_allocators(&output.join("latest.csv"))
    });
    assert!(shown, "{}", reports.join("\n"));
}

/// Runs `uniform` on the CPU with its table in a directory; gives what it printed.
fn uniform_report(output: &Path) -> String {
    let path = output.to_str().expect("UTF-8");
    let printed = printed(&[
        "uniform",
        "--device",
        "cpu",
        "--samples",
        "15",
        "--output",
        path,
    ]);
    assert!(printed.contains("uniform: malloc, µs"), "{printed}");
    assert!(printed.contains("× floor"), "{printed}");
    assert!(
        !printed.contains("target"),
        "targets are those of a GPU: {printed}"
    );
    printed
}

/// By the best of all sizes: other programs may have disturbed the medians.
fn floor_is_below_the_allocators(table: &Path) -> bool {
    let lines = lines(table);
    let best = |allocator: &str| -> f64 {
        let of = |line: &&Vec<String>| line[1] == allocator && line[4] == "alloc_us_p10";
        let times = lines.iter().filter(of);
        times
            .map(|line| line[5].parse::<f64>().expect("a number"))
            .reduce(f64::min)
            .unwrap_or_else(|| panic!("{allocator} was not measured"))
    };
    let floor = best("floor");
    floor < best("scatterheap") && floor < best("system")
}

#[test]
fn only_what_was_asked_for_is_measured() {
    let options = ["warp", "churn", "--quick", "--allocator", "scatterheap"];
    let printed = printed(&[&options[..], &SMALL].concat());
    for words in [
        "warp: malloc",
        "warp: free",
        "churn: µs",
        "heap of 32 MiB",
        "3 samples",
    ] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    for words in ["uniform", "system"] {
        assert!(!printed.contains(words), "{words}: {printed}");
    }
}

#[test]
fn rows_are_in_the_same_order_whatever_was_measured_first() {
    let rows = |seed: &str| -> Vec<(Value, Value)> {
        let options = ["frag", "--quick", "--json", "--seed", seed];
        let document = printed(&[&options[..], &SMALL].concat());
        let document: Value = serde_json::from_str(&document).expect("JSON");
        let rows = document["rows"].as_array().expect("rows").iter();
        rows.map(|row| (row["size"].clone(), row["metric"].clone()))
            .collect()
    };
    let first = rows("1");
    assert!(!first.is_empty());
    for seed in ["2", "3"] {
        assert_eq!(rows(seed), first);
    }
}

#[test]
fn bad_input_ends_in_one_line() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-file");
    std::fs::write(&file, "").expect("the directory is writable");
    let file = file.to_str().expect("UTF-8");
    let refused: [(&[&str], &str); 11] = [
        (&["nothing"], "'nothing'"),
        (
            &["--allocator", "other"],
            "`other` is no allocator here: choose from floor, scatterheap, system",
        ),
        (&["--peer", "/no/such/library.so"], "/no/such/library.so"),
        (&["--peer", file], "bench-file"),
        (&["--heap", "1MiB"], "the benchmark needs 16 MiB at least"),
        (&["--heap", "900GiB"], "ask for less"),
        (&["--heap", "much"], "is no size"),
        (&["--samples", "0"], "--samples"),
        (&["--output", file], "choose another for --output"),
        (&["--peer-timeout", "0"], "--peer-timeout"),
        (&["--stripes", "0"], "--stripes"),
    ];
    for (arguments, words) in refused {
        let output = bench(&[&["--device", "cpu"], arguments].concat());
        let errors = text(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(1 | 2)),
            "{arguments:?}: {errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
        assert!(
            errors.starts_with("error: ") && errors.contains(words),
            "{arguments:?}: {errors}"
        );
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

/// Starts a run that takes long, and waits until it measures.
#[cfg(unix)]
fn long_run(arguments: &[&str]) -> (Child, BufReader<ChildStderr>) {
    // With this seed `oommix`, which is one short case, is the first of many.
    let long = [
        "oommix",
        "init",
        "frag",
        "large",
        "uniform",
        "scale",
        "--quick",
        "--seed",
        "2",
        "--allocator",
        "scatterheap",
        "--device",
        "cpu",
        "--heap",
        "32MiB",
        "--samples",
        "100000",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_scatterheap"));
    command.arg("bench").args(long).args(arguments);
    command.env("NO_COLOR", "1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains(": done (") {
        line.clear();
        let read = errors.read_line(&mut line).expect("it is UTF-8");
        assert!(read > 0, "it ended before a test was done");
    }
    (child, errors)
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(status.expect("kill starts").success());
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_shows_and_writes_what_was_measured() {
    let output = directory("bench-interrupted");
    let path = output.to_str().expect("UTF-8");
    let (child, mut errors) = long_run(&["--output", path]);
    interrupt(&child);
    let ended = child.wait_with_output().expect("it ends");
    let mut notes = String::new();
    errors.read_to_string(&mut notes).expect("it is UTF-8");
    assert_eq!(ended.status.code(), Some(130), "{notes}");
    assert!(notes.contains("interrupted: "), "{notes}");
    assert!(notes.trim_end().ends_with(" cases"), "{notes}");
    assert!(!notes.contains("error"), "{notes}");
    let printed = text(&ended.stdout);
    assert!(printed.contains("oommix: share of the heap"), "{printed}");
    assert!(!lines(&output.join("latest.csv")).is_empty());
}

#[cfg(unix)]
#[test]
fn a_second_signal_ends_a_run_at_once() {
    use std::os::unix::process::ExitStatusExt;
    let (mut child, _errors) = long_run(&[]);
    // One of them may come together with another.
    let status = loop {
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(20));
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
    };
    assert_eq!(status.signal(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_told_after_the_report() {
    let output = directory("bench-unwritable");
    std::fs::create_dir_all(&output).expect("the directory is writable");
    // What is no regular file is not tried before.
    std::os::unix::fs::symlink("/dev/full", output.join("latest.json")).expect("a link");
    let path = output.to_str().expect("UTF-8");
    let options = ["frag", "--quick", "--output", path];
    let ended = bench(&[&options[..], &SMALL].concat());
    let errors = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    assert!(text(&ended.stdout).contains("frag: address range"));
    let last = errors.lines().last().expect("a line");
    assert!(last.starts_with("error: cannot write "), "{errors}");
    assert!(output.join("latest.csv").is_file());
}

#[test]
fn files_that_cannot_be_written_are_told_before_anything_is_measured() {
    for name in ["latest.csv", "ratios.svg"] {
        let output = directory("bench-no-table");
        std::fs::create_dir_all(output.join(name)).expect("the directory is writable");
        let path = output.to_str().expect("UTF-8");
        let ended = bench(&[&["frag", "--quick", "--output", path], &SMALL[..]].concat());
        let errors = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{errors}");
        let begin = format!("error: cannot write {path}/{name} (");
        assert!(errors.starts_with(&begin), "{errors}");
        assert!(text(&ended.stdout).is_empty());
    }
}

#[test]
fn a_test_without_anything_to_measure_is_noted() {
    let ended = bench(&[&["resources", "frag", "--quick"], &SMALL[..]].concat());
    let errors = text(&ended.stderr);
    assert!(ended.status.success(), "{errors}");
    let note = "resources: nothing to measure on the CPU\n";
    assert!(errors.contains(note), "{errors}");
    let ended = bench(&[&["resources", "--quick"], &SMALL[..]].concat());
    let errors = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    assert!(errors.contains(note), "{errors}");
    assert!(errors.contains("error: nothing was measured"), "{errors}");
}

/// The results of an earlier run stay where a later one measures nothing.
#[test]
fn nothing_measured_replaces_nothing() {
    let output = directory("bench-nothing");
    std::fs::create_dir_all(&output).expect("the directory is writable");
    let files = ["latest.csv", "latest.json", "ratios.svg", "page.html"];
    for name in files {
        std::fs::write(output.join(name), "of before").expect("the directory is writable");
    }
    let page = output.join("page.html");
    let options = [
        "--output",
        output.to_str().expect("UTF-8"),
        "--report",
        page.to_str().expect("UTF-8"),
    ];
    let ended = bench(&[&["resources", "--quick"], &options[..], &SMALL].concat());
    let errors = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    assert!(errors.contains("error: nothing was measured"), "{errors}");
    for name in files {
        let left = std::fs::read_to_string(output.join(name)).expect("it is still there");
        assert_eq!(left, "of before", "{name}");
    }
}

#[test]
fn a_run_that_is_refused_makes_no_directory() {
    let output = directory("bench-refused");
    let options = ["--quick", "--output", output.to_str().expect("UTF-8")];
    for refused in [
        &["--allocator", "other", "--device", "cpu"][..],
        &["--device", "cuda:99"],
        &["--device", "cpu", "--heap", "1MiB"],
    ] {
        let ended = bench(&[&options[..], refused].concat());
        let errors = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{refused:?}: {errors}");
        assert!(!output.exists(), "{refused:?}");
    }
}

#[test]
fn stripes_are_chosen_and_told() {
    let options = [
        "oom",
        "--quick",
        "--stripes",
        "1",
        "--allocator",
        " scatterheap",
    ];
    let printed = printed(&[&options[..], &SMALL].concat());
    for words in [
        "scatterheap with 1 stripe at most",
        "share of the heap that the blocks took before NULL",
        "medians of 3 samples, after 1 warm-up;",
    ] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    assert!(!printed.contains("system"), "{printed}");
    let document = self::printed(&[&options[..], &SMALL, &["--json"]].concat());
    let document: Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(document["plan"]["stripes"], 1);
    let rows = document["rows"].as_array().expect("rows");
    let value = |row: &Value, metric: &str| -> f64 {
        let same = |other: &&Value| other["metric"] == metric && other["size"] == row["size"];
        let found = rows.iter().find(same).expect("it is there");
        found["value"].as_f64().expect("a number")
    };
    assert!(!rows.is_empty());
    for row in rows {
        // These sizes are those of slots, or of pages.
        let (asked, rounded) = (value(row, "utilization"), value(row, "utilization_rounded"));
        assert!((asked - rounded).abs() < 1e-9, "{row}");
    }
}

#[test]
fn the_help_names_every_test_and_has_examples() {
    let help = printed(&["--help"]);
    for test in scatterheap_bench::Test::ALL {
        assert!(help.contains(test.name()), "{test}: {help}");
    }
    assert!(help.contains("Examples:"), "{help}");
}
