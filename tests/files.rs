//! The files that the command makes: what was there before stays until all that is new is there.

#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

/// A table of the benchmark, of which pages and plots can be made.
fn table() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    text(&root.join("benches/results/h200/first.csv"))
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A call in a directory, for which no file may have any bytes, as on a full disk.
fn run_without_room(directory: &Path, arguments: &[&str]) -> Output {
    let script = r#"trap '' XFSZ; ulimit -f 0; exec "$0" "$@""#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_scatterheap")]);
    shell.args(arguments).current_dir(directory);
    shell.output().expect("the command starts")
}

/// The names in a directory, in order.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("readable").flatten();
    let mut names: Vec<_> = entries
        .map(|entry| text(Path::new(&entry.file_name())))
        .collect();
    names.sort();
    names
}

#[test]
fn results_that_find_no_room_leave_those_before() {
    let table = table();
    let quick = ["--device", "cpu", "--quick", "--threads", "1"];
    let resources = ["resources", "one_mib", "--resource", "system_malloc"];
    let small = ["--device", "cpu", "--heap", "8MiB"];
    for (file, arguments) in [
        ("result", vec!["report", &table, "--output", "result"]),
        ("time-over-size.svg", vec!["plot", &table]),
        (
            "result",
            [&resources, &quick[..], &["--output", "result"]].concat(),
        ),
        (
            "result",
            [&["snapshot", "--output", "result"], &small[..]].concat(),
        ),
    ] {
        let directory = scratch();
        let path = directory.path().join(file);
        fs::write(&path, "of before").expect("writable");
        let output = run_without_room(directory.path(), &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.contains("File too large"), "{arguments:?}: {errors}");
        let left = fs::read_to_string(&path).expect("readable");
        assert_eq!(left, "of before", "{arguments:?}");
        assert_eq!(names(directory.path()), [file], "{arguments:?}");
    }
}

/// What is tried out before a run leaves no trace where the run then fails.
#[test]
fn a_link_to_what_is_not_there_yet_stays_and_is_written_through() {
    let directory = scratch();
    let link = directory.path().join("page.html");
    symlink("target.html", &link).expect("linked");
    let report = |run: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scatterheap"));
        command.args(["report", run, "--output", &text(&link)]);
        command.output().expect("the command starts").status
    };
    assert!(!report("/nowhere/run.json").success());
    assert_eq!(names(directory.path()), ["page.html"]);
    assert!(report(&table()).success());
    assert!(link.is_symlink());
    assert_eq!(names(directory.path()), ["page.html", "target.html"]);
}

/// A trace of two calls in a file of this name.
fn trace(path: &Path) {
    let calls = "thread,operation,id,size,alignment\n0,malloc,1,100,16\n0,free,1,,\n";
    fs::write(path, calls).expect("writable");
}

fn run(arguments: &[impl AsRef<OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scatterheap"));
    command
        .args(arguments)
        .output()
        .expect("the command starts")
}

/// `/dev/full` takes nothing, and cannot be tried out before.
#[cfg(target_os = "linux")]
#[test]
fn what_was_found_is_told_where_its_file_finds_no_room() {
    let directory = scratch();
    let calls = directory.path().join("calls.csv");
    trace(&calls);
    let small = ["--device", "cpu:2", "--heap", "8MiB"];
    let resources = "one_mib --quick --threads 1 --resource system_malloc --output /dev/full";
    for (subcommand, arguments, words) in [
        (
            "stress",
            "uniform --threads 64 --report /dev/full",
            "uniform",
        ),
        (
            "replay",
            "calls.csv --copies 2 --report /dev/full",
            "2 copies",
        ),
        (
            "live-cost",
            "--runs 1 --milliseconds 1 --threads 64 --output /dev/full",
            "watching costs",
        ),
        ("resources", resources, "one_mib"),
    ] {
        for json in [None, Some("--json")] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_scatterheap"));
            command.current_dir(directory.path()).arg(subcommand);
            command.args(arguments.split(' ')).args(small).args(json);
            let output = command.output().expect("the command starts");
            let (told, errors) = (
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
            );
            assert_eq!(output.status.code(), Some(1), "{subcommand}: {errors}");
            let last = errors.lines().last().expect("a line");
            assert!(
                last.starts_with("error: ") && last.contains("/dev/full"),
                "{errors}"
            );
            match json {
                None => assert!(told.contains(words), "{subcommand}: {told}"),
                Some(_) => {
                    serde_json::from_str::<serde_json::Value>(&told).expect("a document");
                }
            }
        }
    }
}

/// A name need not be UTF-8; a document, which is, has what can be shown of it.
#[test]
fn names_that_are_not_utf_8_are_no_error() {
    let directory = scratch();
    let path = |name: &[u8]| directory.path().join(OsStr::from_bytes(name));
    let (calls, page, plots) = (
        path(b"calls\xff.csv"),
        path(b"page\xff.html"),
        path(b"plots\xff"),
    );
    trace(&calls);
    let (table, json) = (table(), OsStr::new("--json"));
    let words = |words: &'static str| words.split(' ').map(OsStr::new);
    let replay = words("--device cpu:2 --heap 8MiB --copies 1 --json --report");
    for arguments in [
        [OsStr::new("replay"), calls.as_os_str()]
            .into_iter()
            .chain(replay)
            .chain([page.as_os_str()])
            .collect::<Vec<_>>(),
        vec![
            OsStr::new("report"),
            OsStr::new(&table),
            OsStr::new("-o"),
            page.as_os_str(),
            json,
        ],
        vec![
            OsStr::new("plot"),
            OsStr::new(&table),
            OsStr::new("--output"),
            plots.as_os_str(),
            json,
        ],
    ] {
        let output = run(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        let document = String::from_utf8(output.stdout).expect("UTF-8");
        serde_json::from_str::<serde_json::Value>(&document).expect("a document");
        assert!(document.contains('\u{fffd}'), "{document}");
    }
    assert!(page.is_file() && plots.is_dir());
}

#[test]
fn what_a_run_reads_or_writes_is_not_written_over() {
    let directory = scratch();
    let path = |name: &str| text(&directory.path().join(name));
    let (calls, rows, link) = (path("calls.csv"), path("rows.csv"), path("link"));
    trace(Path::new(&calls));
    fs::copy(table(), &rows).expect("writable");
    symlink("rows.csv", &link).expect("linked");
    let (results, page) = (path("results"), path("results/latest.json"));
    let before = [&calls, &rows].map(|file| fs::read(file).expect("readable"));
    let scenarios = ["resources", "--transformer", &calls, "--output", &calls];
    for arguments in [
        vec!["replay", &calls, "--report", &calls],
        vec!["report", &rows, "--output", &rows],
        vec!["report", &rows, "--output", &link],
        vec!["bench", "--quick", "--output", &results, "--report", &page],
        scenarios.to_vec(),
    ] {
        let output = run(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.contains("choose another file"), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
    }
    let after = [&calls, &rows].map(|file| fs::read(file).expect("readable"));
    assert!(before == after);
    assert_eq!(names(directory.path()), ["calls.csv", "link", "rows.csv"]);
}
