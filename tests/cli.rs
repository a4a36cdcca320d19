//! The command: what each subcommand prints, as text and as JSON, and that bad input of every kind
//! ends in one line.

use scatterheap::heap::layout::Layout;
use scatterheap::snapshot::Origin;
use scatterheap::{Snapshot, inspect};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Options for a small heap on the CPU.
const SMALL: [&str; 4] = ["--device", "cpu", "--heap", "8MiB"];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scatterheap"));
    command.args(arguments);
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(variable);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

/// What a successful call prints.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    text(&output.stdout).to_owned()
}

fn json(arguments: &[&str]) -> Value {
    let printed = printed(&[arguments, &["--json"]].concat());
    serde_json::from_str(&printed).expect("JSON")
}

fn has_keys(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "no {key} in {value}");
    }
}

/// The one line with which a call is refused.
fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    let errors = text(&output.stderr);
    let code = output.status.code();
    assert!(
        matches!(code, Some(1 | 2)),
        "{arguments:?}: {code:?} {errors}"
    );
    assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
    assert!(errors.starts_with("error: "), "{arguments:?}: {errors}");
    assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    errors.to_owned()
}

fn refused_saying(arguments: &[&str], words: &str) {
    let line = refused(arguments);
    assert!(line.contains(words), "{arguments:?}: {line}");
}

fn shipped_trace() -> String {
    format!("{}/traces/sqlite3.sctrace", env!("CARGO_MANIFEST_DIR"))
}

/// A file with this content, in the tests' own directory.
fn file(name: &str, content: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the directory is writable");
    path.to_str().expect("UTF-8").to_owned()
}

fn is_without_gpu() -> bool {
    scatterheap::Device::gpu_count() == 0
}

#[test]
fn info_lists_what_there_is() {
    let printed = printed(&["info"]);
    for words in ["version", "CPU", "driver", "kernel compiler", "kernels"] {
        assert!(printed.contains(words), "{printed}");
    }
    let document = json(&["info"]);
    has_keys(
        &document,
        &[
            "command",
            "version",
            "devices",
            "unusable_devices",
            "driver",
            "kernel_compiler",
        ],
    );
    assert_eq!(document["devices"][0]["selector"], "cpu");
    let gpus = document["devices"].as_array().expect("devices").len() - 1
        + document["unusable_devices"]
            .as_array()
            .expect("devices")
            .len();
    assert_eq!(gpus, scatterheap::Device::gpu_count() as usize);
    let kernels = document["kernels"].as_array().expect("kernels");
    assert_eq!(kernels.len(), scatterheap::embedded::KERNELS.len());
    for baseline in kernels {
        assert!(baseline["entries"].as_u64() > Some(10), "{baseline}");
    }
}

#[test]
fn every_workload_passes_and_is_reported() {
    let options = ["stress", "--threads", "512", "--rounds", "3"];
    let printed = printed(&[&options[..], &SMALL].concat());
    for workload in scatterheap::stress::Workload::ALL {
        let lines = printed.lines().map(str::trim_start);
        let rows = lines.filter(|line| line.starts_with(workload.name()));
        assert_eq!(rows.count(), 2, "{printed}");
    }
    assert!(!printed.contains("FAILED"), "{printed}");
}

#[test]
fn every_workload_passes_on_a_hardened_heap() {
    let options = ["stress", "--threads", "256", "--rounds", "2", "--harden"];
    for modes in ["all", "red-zones,poison,quarantine,zero,tags"] {
        let output = run(&[&options[..], &[modes], &SMALL].concat());
        let (printed, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{errors}");
        assert_eq!(errors.contains("misuse: left out"), modes == "all");
        assert!(!printed.contains("FAILED"), "{printed}");
        // One that is caught would end the kernel.
        assert_eq!(
            printed.contains("double-free: 512 times"),
            modes != "all",
            "{printed}"
        );
    }
}

#[test]
fn modes_that_there_are_not_are_refused() {
    refused_saying(&["stress", "--harden", "everything"], "this is no mode");
    refused_saying(
        &["stress", "misuse", "--device", "cpu", "--harden", "trap"],
        "leave out the mode `trap`",
    );
}

#[test]
fn stress_has_one_json_document() {
    let options = [
        "stress",
        "mixed",
        "cross-warp",
        "--threads",
        "512",
        "--rounds",
        "3",
    ];
    let document = json(&[&options[..], &["--seed", "7"], &SMALL].concat());
    has_keys(
        &document,
        &["version", "device", "heap", "passed", "reports"],
    );
    assert_eq!(document["command"], "stress");
    assert_eq!(document["passed"], true);
    assert_eq!(document["heap"]["capacity"], 8 << 20);
    has_keys(
        &document["device"],
        &["selector", "name", "gpu", "compute_capability"],
    );
    let reports = document["reports"].as_array().expect("reports");
    let names: Vec<_> = reports.iter().map(|report| &report["workload"]).collect();
    assert_eq!(names, ["mixed", "cross-warp"]);
    for report in reports {
        assert_eq!(report["seed"], 7);
        assert_eq!(report["threads"], 512);
        assert!(report["operations"].as_u64() > Some(0), "{report}");
        for count in [
            "corrupt",
            "overlaps",
            "misaligned",
            "out_of_bounds",
            "leaked",
        ] {
            assert_eq!(report[count], 0, "{count} in {report}");
        }
        has_keys(
            report,
            &[
                "seconds",
                "operations_per_second",
                "nulls",
                "violations",
                "peak",
                "passed",
            ],
        );
        has_keys(
            &report["peak"],
            &["capacity", "pages", "classes", "largest_request"],
        );
    }
}

/// A workload that cannot be run does not take with it what others found.
#[test]
fn workloads_that_are_done_are_told_where_a_later_one_fails() {
    let options = ["stress", "uniform", "misuse", "--threads", "64"];
    let arguments = [&options[..], &["--harden", "trap"], &SMALL].concat();
    let output = run(&arguments);
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(told.contains("uniform") && told.contains("ok"), "{told}");
    assert!(errors.contains("leave out the mode `trap`"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let output = run(&[&arguments[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["reports"][0]["workload"], "uniform");
    assert_eq!(document["reports"].as_array().map(Vec::len), Some(1));
    assert_eq!(document["reports"][0]["passed"], true);
    assert_eq!(document["passed"], false);
}

#[test]
fn sizes_and_threads_are_as_asked() {
    let options = [
        "stress",
        "uniform",
        "--least",
        "100",
        "--threads",
        "300",
        "--rounds",
        "2",
    ];
    let report = &json(&[&options[..], &SMALL].concat())["reports"][0];
    assert_eq!(
        (&report["least"], &report["most"]),
        (&100.into(), &100.into())
    );
    // Each thread allocates and frees in each round.
    assert_eq!(report["operations"], 300 * 2 * 2);
}

#[test]
fn occupancy_draws_the_heap() {
    let printed = printed(&[&["occupancy"][..], &SMALL].concat());
    for words in [
        "█",
        "a cell is",
        "blocks",
        "fragmentation",
        "largest request",
        " a  to",
    ] {
        assert!(printed.contains(words), "{words} in {printed}");
    }
    assert!(!printed.contains('\x1b'), "escapes without a terminal");
}

#[test]
fn occupancy_has_a_map_in_json() {
    let options = ["occupancy", "--workload", "exhaust", "--fill", "30"];
    let document = json(&[&options[..], &SMALL].concat());
    has_keys(
        &document,
        &[
            "device",
            "heap",
            "workload",
            "blocks",
            "nulls",
            "occupancy",
            "map",
        ],
    );
    let used = document["occupancy"]["used_bytes"]
        .as_f64()
        .expect("a number");
    let share = used / f64::from(8 << 20);
    assert!((0.2..0.4).contains(&share), "{share}");
    let map = &document["map"];
    let page_bytes = map["page_bytes"].as_f64().expect("a number");
    let of = |cell: &Value, key: &str| cell[key].as_f64().expect("a number");
    let cells = map["cells"].as_array().expect("cells");
    let pages: f64 = cells
        .iter()
        .map(|cell| ["free", "in_slabs", "in_runs", "lost"].map(|key| of(cell, key)))
        .map(|counts| counts.iter().sum::<f64>())
        .sum();
    assert!(
        (pages * page_bytes - f64::from(8 << 20)).abs() < 1.0,
        "{pages} pages"
    );
    assert!(cells.iter().any(|cell| of(cell, "used") > 0.9));
}

/// A path in the tests' own directory.
fn path(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    path.to_str().expect("UTF-8").to_owned()
}

/// A snapshot's file of a used heap, made by the command.
fn saved(name: &str) -> String {
    let path = path(name);
    let options = ["snapshot", "--workload", "churn", "--output", &path];
    let told = printed(&[&options[..], &SMALL].concat());
    assert!(told.contains("blocks") && told.contains(&path), "{told}");
    path
}

#[test]
fn a_snapshot_is_saved_checked_and_drawn() {
    let path = saved("whole.snapshot");
    let told = printed(&["check", &path]);
    for words in ["8 MiB", "blocks", "slabs", "every invariant holds", "cpu"] {
        assert!(told.contains(words), "{words} in {told}");
    }
    let drawn = printed(&["occupancy", "--snapshot", &path]);
    assert!(drawn.contains('█') && drawn.contains("largest request"));
    let checked = json(&["check", &path, "--all"]);
    has_keys(&checked, &["version", "origin", "heap", "occupancy"]);
    assert_eq!(checked["passed"], true);
    assert_eq!(checked["violations"], serde_json::json!([]));
    let drawn = json(&["occupancy", "--snapshot", &path]);
    assert_eq!(drawn["occupancy"], checked["occupancy"]);
    assert_eq!(drawn["origin"]["device"], "cpu");
    let options = ["snapshot", "--output", &path, "--fill", "20"];
    let document = json(&[&options[..], &SMALL].concat());
    has_keys(&document, &["file", "file_bytes", "workload", "blocks"]);
    assert_eq!(
        json(&["check", &path])["occupancy"]["used_blocks"],
        document["blocks"]
    );
}

#[test]
fn a_terminal_obeys_nothing_that_a_snapshot_says() {
    let path = saved("obeyed.snapshot");
    let snapshot = Snapshot::load(&path).expect("just saved");
    let origin = Origin {
        device: "\u{1b}]0;title\u{7}".into(),
        device_name: "one\ntwo\u{1b}[2J".into(),
        ..snapshot.origin().clone()
    };
    let content = inspect::Snapshot::new(snapshot.metadata().to_vec()).expect("it is whole");
    let odd = Snapshot::from_parts(content, origin);
    odd.save(&path).expect("the directory is writable");
    for arguments in [
        ["check", &path].as_slice(),
        &["occupancy", "--snapshot", &path],
    ] {
        let told = printed(arguments);
        assert!(told.contains(r"\u{1b}]0;title\u{7}"), "{told}");
        let is_bad = |character: char| character.is_control() && character != '\n';
        assert!(!told.contains(is_bad), "{told:?}");
        assert!(told.contains("one two"), "{told}");
    }
}

#[test]
fn a_heap_made_for_it_is_checked() {
    let told = printed(&[&["check"][..], &SMALL].concat());
    assert!(told.contains("every invariant holds"), "{told}");
    let document = json(&[&["check", "--fill", "90"][..], &SMALL].concat());
    assert_eq!(document["passed"], true);
}

/// Flips bits of the metadata of a saved heap, and saves it as another file.
fn damaged(name: &str, offset: impl Fn(&Layout) -> u64, bytes: u64) -> String {
    let whole = Snapshot::load(saved(name)).expect("it was just saved");
    let mut metadata = whole.metadata().to_vec();
    let start = usize::try_from(offset(whole.layout())).expect("fits");
    let end = start + usize::try_from(bytes).expect("fits");
    metadata[start..end].iter_mut().for_each(|byte| *byte ^= 1);
    let content = inspect::Snapshot::new(metadata).expect("the head is whole");
    let path = path(name);
    let snapshot = Snapshot::from_parts(content, whole.origin().clone());
    snapshot.save(&path).expect("writable");
    path
}

#[test]
fn a_damaged_heap_is_reported_with_what_and_where() {
    // Bits of the last page, which is free or full: then its slab's use is wrong.
    let words = |layout: &Layout| layout.offsets.slot_words + layout.slot_word_count() * 4 - 8;
    let path = damaged("damaged.snapshot", words, 8);
    let output = run(&["check", &path]);
    assert_eq!(output.status.code(), Some(1));
    let (told, error) = (text(&output.stdout), text(&output.stderr));
    assert!(told.contains("page") && told.contains("expected"), "{told}");
    assert!(!told.contains("every invariant holds"), "{told}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("an invariant does not hold"), "{error}");

    // All entries are wrong: many violations.
    let path = damaged("broken.snapshot", |layout| layout.offsets.entries, 4096);
    for (options, count) in [
        (&["check", &path, "--json"][..], 1),
        (&["check", &path, "--json", "--all"], 64),
    ] {
        let output = run(options);
        assert_eq!(output.status.code(), Some(1));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["passed"], false);
        let violations = document["violations"].as_array().expect("a list");
        assert_eq!(violations.len(), count);
        has_keys(&violations[0], &["rule", "place", "expected", "found"]);
    }
    let error = run(&["check", &path, "--all"]).stderr;
    assert!(text(&error).contains("64 places or more"));
}

#[test]
fn snapshots_that_make_no_sense_are_refused() {
    let whole = std::fs::read(saved("to-break.snapshot")).expect("readable");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let mut version = whole.clone();
    version[8] += 1;
    let another = format!("version {}", version[8]);
    for (name, bytes, words) in [
        ("empty.snapshot", &b""[..], "not a snapshot"),
        ("text.snapshot", b"a text, not a heap", "not a snapshot"),
        ("short.snapshot", &whole[..whole.len() / 2], "cut short"),
        (
            "long.snapshot",
            &[&whole[..], b"x"].concat(),
            "after its end",
        ),
        ("flipped.snapshot", &flipped, "checksum is wrong"),
        ("version.snapshot", &version, &another),
    ] {
        let path = file(name, bytes);
        refused_saying(&["check", &path], words);
        refused_saying(&["occupancy", "--snapshot", &path], words);
    }
    refused_saying(&["check", "/nowhere/heap.snapshot"], "cannot open");
    refused_saying(&["check", env!("CARGO_MANIFEST_DIR")], "error: ");
    let path = path("to-break.snapshot");
    refused_saying(&["check", &path, "--heap", "8MiB"], "--heap");
    refused_saying(&["check", &path, "--device", "cpu"], "--device");
    refused_saying(&["check", &path, "--fill", "50"], "--fill");
    refused_saying(
        &["occupancy", "--snapshot", &path, "--fill", "50"],
        "--fill",
    );
    refused_saying(&["snapshot"], "--output");
    let options = ["snapshot", "--output", "/nowhere/heap.snapshot"];
    refused_saying(&[&options[..], &SMALL].concat(), "cannot write");
}

#[test]
fn colours_can_be_forced_and_forbidden() {
    let arguments = [&["occupancy"][..], &SMALL].concat();
    let forced = command(&arguments).env("CLICOLOR_FORCE", "1").output();
    let forced = forced.expect("the command starts");
    assert!(text(&forced.stdout).contains("\x1b[38;5;"), "no colours");
    for arguments in [&arguments[..], &["info"], &["stress", "--help"]] {
        let plain = command(arguments).env("NO_COLOR", "1").output();
        let plain = plain.expect("the command starts");
        assert!(!text(&plain.stdout).contains('\x1b'), "{arguments:?}");
        assert!(!text(&plain.stderr).contains('\x1b'), "{arguments:?}");
    }
}

#[test]
fn the_shipped_trace_replays() {
    let trace = shipped_trace();
    let options = [
        "replay",
        &trace,
        "--device",
        "cpu",
        "--copies",
        "2",
        "--windows",
        "16",
    ];
    let document = json(&options);
    assert_eq!(document["command"], "replay");
    assert_eq!(document["passed"], true);
    assert!(document["trace"]["operations"].as_u64() >= Some(500_000));
    let report = &document["reports"][0];
    assert_eq!(
        (&report["copies"], &report["lanes"]),
        (&2.into(), &32.into())
    );
    for count in ["nulls", "corrupt", "leaked", "misaligned", "out_of_bounds"] {
        assert_eq!(report[count], 0, "{count} in {report}");
    }
    let trace = document["trace"]["operations"].as_u64().expect("a count");
    assert!(report["operations"].as_u64() >= Some(2 * trace), "{report}");
}

#[test]
fn a_trace_written_by_hand_replays() {
    let content =
        "thread,operation,id,size,alignment\n0,malloc,1,100,16\n1,malloc,2,9,16\n0,free,1,,\n";
    let trace = file("by-hand.csv", content.as_bytes());
    let options = ["replay", &trace, "--copies", "3", "--windows", "2"];
    let printed = printed(&[&options[..], &SMALL].concat());
    assert!(
        printed.contains("3 operations (2 malloc, 0 realloc, 1 free)"),
        "{printed}"
    );
    assert!(
        printed.contains("3 copies") && printed.contains("ok"),
        "{printed}"
    );
}

#[test]
fn automatic_choice_says_what_it_chose() {
    let output = run(&[
        "stress",
        "uniform",
        "--threads",
        "64",
        "--rounds",
        "1",
        "--heap",
        "8MiB",
    ]);
    let notes = text(&output.stderr);
    assert!(output.status.success(), "{notes}");
    assert!(notes.starts_with("using "), "{notes}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
    assert_eq!(
        notes.contains("using cpu") && notes.contains("there is no GPU"),
        is_without_gpu()
    );
}

#[test]
fn a_gpu_that_is_not_there_is_refused() {
    for subcommand in ["stress", "occupancy", "check", "info"] {
        let line = refused(&[subcommand, "--device", "cuda:99"]);
        assert!(line.contains("GPU") && line.contains("cpu"), "{line}");
    }
    if is_without_gpu() {
        refused(&["stress", "--device", "cuda:0"]);
        refused(&["replay", &shipped_trace(), "--device", "cuda:0"]);
    }
}

#[test]
fn bad_options_are_refused() {
    refused_saying(&["stress", "--device", "gpu"], "names no device");
    refused_saying(&["stress", "--device", "cpu:0"], "names no device");
    refused_saying(&["stress", "--heap", "12 parsecs"], "is no size");
    assert!(!refused(&["stress", "--heap", "-1"]).contains("tip: "));
    refused_saying(&["check", "-odd"], "use '-- -o'");
    refused_saying(&["stress", "--seed", "x"], "--seed");
    refused_saying(&["stress", "nonsense"], "possible values");
    refused_saying(&["stress", "--threads", "0"], "--threads");
    refused_saying(&["stress", "--rounds", "0"], "--rounds");
    refused_saying(&["stress", "--threads", "99999999999"], "--threads");
    refused_saying(&["occupancy", "--fill", "101"], "--fill");
    refused_saying(&["occupancy", "--fill", "50.5"], "a whole number is needed");
    refused_saying(&["occupancy", "--workload", "nonsense"], "possible values");
    refused_saying(&["replay", "trace", "--lanes", "33"], "--lanes");
    refused_saying(&["replay", "trace", "--copies", "0"], "--copies");
    refused_saying(&["replay", "trace", "--windows", "0"], "--windows");
    refused_saying(&["replay"], "<TRACE>");
    refused_saying(&["live-cost", "--runs", "2147483648"], "--runs");
    refused_saying(&["nonsense"], "nonsense");
    refused_saying(&["info", "--nonsense"], "--nonsense");
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_do_not_start_are_one_line() {
    for (subcommand, threads) in [("litmus", "a thread"), ("stress", "2 threads")] {
        let mut command = command(&[subcommand, "--device", "cpu:2"]);
        // More than there are addresses.
        let output = command
            .env("RUST_MIN_STACK", (1_u64 << 50).to_string())
            .output();
        let output = output.expect("the command starts");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        let words = format!("error: the system failed to start {threads} (");
        assert!(errors.starts_with(&words), "{errors}");
        assert!(errors.contains("use fewer threads"), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn heaps_that_cannot_be_are_refused() {
    for subcommand in ["stress", "occupancy", "check"] {
        refused_saying(
            &[subcommand, "--device", "cpu", "--heap", "0"],
            "the smallest has",
        );
        refused_saying(
            &[subcommand, "--device", "cpu", "--heap", "1KiB"],
            "the smallest has",
        );
        refused_saying(&[subcommand, "--device", "cpu", "--heap", "1TiB"], "free");
        refused_saying(
            &[subcommand, "--device", "cpu", "--heap", "2TiB"],
            "the largest has",
        );
    }
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    for subcommand in ["stress", "occupancy", "check"] {
        for (least, most) in [("2KiB", "1KiB"), ("0", "64")] {
            let options = [subcommand, "--least", least, "--most", most];
            refused_saying(&[&options[..], &SMALL].concat(), "at most the largest");
        }
        let options = [subcommand, "--most", "9MiB"];
        refused_saying(&[&options[..], &SMALL].concat(), "heap");
    }
    let options = ["stress", "uniform", "--threads", "4294967295"];
    refused(&[&options[..], &SMALL].concat());
}

#[test]
fn traces_that_make_no_sense_are_refused() {
    let replay = |trace: &str, words| {
        refused_saying(&[&["replay", trace][..], &SMALL].concat(), words);
    };
    replay("/nowhere/trace.csv", "cannot open");
    replay(env!("CARGO_MANIFEST_DIR"), "error: ");
    replay(&file("empty.csv", b""), "not a trace");
    replay(&file("garbage.bin", &[0xff; 1000]), "not a trace");
    let shipped = std::fs::read(shipped_trace()).expect("the trace is shipped");
    replay(
        &file("short.sctrace", &shipped[..shipped.len() / 2]),
        "error: ",
    );
    let header = "thread,operation,id,size,alignment\n";
    let bad = format!("{header}0,malloc,1,many,16\n");
    replay(&file("bad-line.csv", bad.as_bytes()), "line 2");
    let bad = format!("{header}0,free,1,,\n");
    replay(&file("bad-free.csv", bad.as_bytes()), "line 2");
    // A terminal would obey that.
    let bad = format!("{header}0,\x1b[31mmalloc,1,1,16\n");
    let line = refused(&["replay", &file("escape.csv", bad.as_bytes())]);
    assert!(line.contains("\\u{1b}[31m"), "{line}");
    assert!(!line.contains('\x1b'), "{line}");
    let trace = shipped_trace();
    let options = [
        "replay",
        &trace,
        "--device",
        "cpu",
        "--copies",
        "4294967295",
    ];
    refused_saying(&options, "copies");
}

#[test]
fn a_replay_in_which_nothing_was_tried_fails() {
    let header = "thread,operation,id,size,alignment\n";
    let too_large = format!("{header}0,malloc,1,5000000000,16\n");
    for (name, trace, words) in [
        ("nothing.csv", header, "has no operations"),
        ("too-large.csv", &too_large, "--heap"),
    ] {
        let output = run(&[&["replay", &file(name, trace.as_bytes())][..], &SMALL].concat());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        let last = errors.lines().last().expect("a line");
        assert!(
            last.starts_with("error: ") && last.contains(words),
            "{errors}"
        );
    }
}

#[test]
fn a_heap_is_offered_where_one_of_any_size_is_made() {
    for subcommand in ["info", "litmus", "resources"] {
        assert!(!printed(&[subcommand, "--help"]).contains("--heap"));
    }
    for subcommand in ["stress", "soak", "bench"] {
        assert!(printed(&[subcommand, "--help"]).contains("--heap"));
    }
}

#[test]
fn help_has_examples() {
    let head = printed(&["--help"]);
    for subcommand in [
        "info",
        "stress",
        "occupancy",
        "snapshot",
        "check",
        "replay",
        "resources",
    ] {
        assert!(head.contains(subcommand), "{head}");
    }
    for subcommand in ["stress", "occupancy", "snapshot", "check", "replay"] {
        let help = printed(&[subcommand, "--help"]);
        for words in ["Examples:", "--device", "--heap", "--seed", "--json"] {
            assert!(help.contains(words), "{words} in {help}");
        }
    }
    // As the replay of the library does it.
    let help = printed(&["replay", "--help"]);
    assert!(
        help.contains("as many as a quarter of the heap holds"),
        "{help}"
    );
    assert_eq!(
        printed(&["--version"]).trim(),
        concat!("scatterheap ", env!("CARGO_PKG_VERSION"))
    );
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let mut command = command(&[&["occupancy", "--json"][..], &SMALL].concat());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success());
}

/// What was found is told by the exit code, whether anybody reads the rest or not.
#[cfg(unix)]
#[test]
fn what_is_found_is_not_hidden_by_an_output_that_nobody_reads() {
    use std::process::Stdio;
    let words = |layout: &Layout| layout.offsets.slot_words + layout.slot_word_count() * 4 - 8;
    let path = damaged("unread.snapshot", words, 8);
    for arguments in [&["check", &path][..], &["check", &path, "--json"]] {
        let mut command = command(arguments);
        let (stdout, stderr) = (Stdio::piped(), Stdio::piped());
        let child = command.stdout(stdout).stderr(stderr).spawn();
        let mut child = child.expect("the command starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the command ends");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.contains("an invariant does not hold"), "{errors}");
    }
}

/// Nor by one that cannot be written, of which there is a note.
#[cfg(target_os = "linux")]
#[test]
fn what_is_found_is_told_beside_an_output_that_cannot_be_written() {
    let full = || std::fs::File::options().write(true).open("/dev/full");
    let words = |layout: &Layout| layout.offsets.slot_words + layout.slot_word_count() * 4 - 8;
    let damaged = damaged("unwritten.snapshot", words, 8);
    let whole = saved("unwritten-whole.snapshot");
    for (path, lines) in [(&whole, 1), (&damaged, 2)] {
        let mut command = command(&["check", path]);
        let output = command.stdout(full().expect("there is one")).output();
        let output = output.expect("the command starts");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(
            errors.contains("standard output: No space left"),
            "{errors}"
        );
        assert_eq!(errors.lines().count(), lines, "{errors}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_an_error() {
    for arguments in [["--help"].as_slice(), &["--version"], &["bench", "-h"]] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut command = command(arguments);
        let output = command.stdout(full.expect("there is one")).output();
        let output = output.expect("the command starts");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(
            errors.starts_with("error: ") && errors.contains("standard output: No space left"),
            "{errors}"
        );
    }
}

/// A file of this name in a new directory, with this text.
fn table(name: &str, text: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("scatterheap-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the directory is writable");
    let path = directory.join("table.csv");
    std::fs::write(&path, text).expect("the directory is writable");
    path
}

#[test]
fn plots_are_drawn_of_tables() {
    let head = "test,allocator,size,n,metric,value\n";
    let ours = table(
        "ours",
        &format!("{head}uniform,scatterheap,16,1,alloc_us,2\n"),
    );
    let floor = table("floor", &format!("{head}uniform,floor,16,1,alloc_us,1\n"));
    let paths = [&ours, &floor].map(|path| path.to_string_lossy());
    let output = ours.with_file_name("plots");
    let output = output.to_string_lossy();
    let arguments = [
        "plot", &paths[0], &paths[1], "--output", &output, "--title", "here",
    ];
    let document = json(&arguments);
    has_keys(&document, &["command", "plots"]);
    let plots = document["plots"].as_array().expect("an array");
    assert_eq!(plots.len(), 2, "{document}");
    for plot in plots {
        let picture = std::fs::read_to_string(plot.as_str().expect("a path")).expect("a plot");
        assert!(picture.contains("here"), "{plot}");
    }
}

#[test]
fn plots_are_all_drawn_or_none() {
    let head = "test,allocator,size,n,metric,value\n";
    let ours = table(
        "all-or-none",
        &format!("{head}uniform,scatterheap,16,1,alloc_us,2\n"),
    );
    let output = ours.with_file_name("plots");
    std::fs::create_dir_all(output.join("ratios.svg")).expect("the directory is writable");
    let old = output.join("time-over-size.svg");
    std::fs::write(&old, "old").expect("the directory is writable");
    let (ours, output) = (ours.to_string_lossy(), output.to_string_lossy());
    let line = refused(&["plot", &ours, "--output", &output]);
    assert!(
        line.contains("ratios.svg") && line.contains("choose another"),
        "{line}"
    );
    assert_eq!(std::fs::read(old).expect("it is there"), b"old");
}

#[test]
fn plots_have_no_options_of_a_device() {
    let help = printed(&["plot", "--help"]);
    for option in ["--device", "--heap", "--seed"] {
        assert!(!help.contains(option), "{option}: {help}");
    }
    assert!(help.contains("--json"), "{help}");
    let example = "benches/results/h200/first.csv";
    assert!(help.contains(example), "{help}");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(root.join(example).is_file());
}

#[test]
fn tables_that_are_none_are_refused() {
    let bad = table(
        "bad",
        "test,allocator,size,n,metric,value\nuniform,floor,16,1,alloc_us,x\n",
    );
    refused_saying(
        &["plot", &bad.to_string_lossy()],
        "table.csv, line 2: column `value`",
    );
    let other = table(
        "other",
        "test,allocator,size,n,metric,value\noom,floor,16,1,null,1\n",
    );
    refused_saying(
        &["plot", &other.to_string_lossy()],
        "nothing can be plotted",
    );
    refused_saying(
        &["plot", "/no/such/table.csv"],
        "cannot read /no/such/table.csv",
    );
    refused_saying(&["plot"], "<CSV>");
}
