//! The commands for long runs: `soak`, whose runs add up, `litmus` and `exhaustion`, and that none of
//! them waits for ever.

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scatterheap"));
    command.args(arguments).args(["--device", "cpu:4"]);
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

const SOAK: [&str; 5] = ["soak", "--heap", "4MiB", "--threads", "256"];

#[test]
fn runs_of_a_soak_add_up() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let record = directory.path().join("soak.jsonl");
    let path = record.to_str().expect("UTF-8");
    let soak = |pairs| json(&[&SOAK[..], &["--record", path, "--pairs", pairs]].concat());
    let first = soak("20000");
    let second = soak("60000");
    assert_eq!((&first["runs"], &second["runs"]), (&1.into(), &2.into()));
    let pairs = |document: &Value, of: &str| document[of]["pairs"].as_u64().expect("a number");
    assert!(pairs(&first, "all") >= 20_000 && pairs(&second, "all") >= 60_000);
    assert_eq!(
        pairs(&second, "all"),
        pairs(&first, "run") + pairs(&second, "run")
    );
    assert_ne!(first["run"]["seed"], second["run"]["seed"]);
    // Everything was done, so nothing is done again.
    let third = soak("60000");
    assert_eq!(third["all"], second["all"]);
    let fourth = run(&[&SOAK[..], &["--record", path, "--pairs", "60000"]].concat());
    let (told, noted) = (&fourth.stdout, &fourth.stderr);
    assert!(String::from_utf8_lossy(told).contains("last on record"));
    assert!(String::from_utf8_lossy(noted).contains("so nothing is run"));
    let lines = std::fs::read_to_string(&record).expect("a record");
    assert_eq!(lines.lines().count(), 2);
    for key in [
        "commit", "device", "ended", "heaps", "pairs", "seconds", "corrupt",
    ] {
        assert!(second["run"].get(key).is_some(), "no {key} in {second}");
    }
}

#[test]
fn a_soak_ends_when_the_time_is_over() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let record = directory.path().join("soak.jsonl");
    let record = ["--record", record.to_str().expect("UTF-8")];
    let briefly = ["--pairs", "1000000000000", "--seconds", "1"];
    for (record, advice) in [
        (&record[..], "run the same command again for the rest"),
        (&[], "use --record FILE to be able to go on"),
    ] {
        let output = run(&[&SOAK[..], &briefly, record].concat());
        assert!(output.status.success(), "{output:?}");
        let note = String::from_utf8_lossy(&output.stderr);
        let pairs = "of 1,000,000,000,000 pairs; ";
        assert!(note.contains(pairs) && note.contains(advice), "{note}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_soak_keeps_its_totals() {
    // The second is what a server's own managers send.
    for signal in ["-INT", "-TERM"] {
        keeps_its_totals_after(signal);
    }
}

#[cfg(unix)]
fn keeps_its_totals_after(signal: &str) {
    let mut command = command(&[&SOAK[..], &["--pairs", "1000000000000", "--json"]].concat());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    std::thread::sleep(Duration::from_secs(1));
    let interrupt = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(interrupt.expect("there is a kill").success());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(document["all"]["pairs"].as_u64() > Some(0), "{document}");
    assert_eq!(document["passed"], true);
}

#[cfg(unix)]
#[test]
fn a_record_that_is_no_regular_file_is_refused() {
    let output = run(&["soak", "--pairs", "1", "--record", "/dev/null"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("no regular file"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn a_record_of_something_else_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let record = directory.path().join("notes.txt");
    std::fs::write(&record, "buy milk\n").expect("write");
    let path = record.to_str().expect("UTF-8");
    let output = run(&["soak", "--pairs", "1", "--record", path]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("line 1 is none: remove it"), "{message}");
    assert!(
        message.trim_end().ends_with(": expected value"),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");
}

/// Errors that are on record make the command fail also if nobody reads its output.
#[cfg(unix)]
#[test]
fn errors_on_record_are_told_by_the_exit_code() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let record = directory.path().join("soak.jsonl");
    let path = record.to_str().expect("UTF-8");
    let arguments = [&SOAK[..], &["--pairs", "1000", "--record", path]].concat();
    json(&arguments);
    let sound = std::fs::read_to_string(&record).expect("a record");
    let corrupt = sound.replace("\"corrupt\":0", "\"corrupt\":1");
    assert_ne!(sound, corrupt);
    std::fs::write(&record, corrupt).expect("write");
    let mut child = command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("1 errors in"), "{message}");
}

#[test]
fn a_record_that_cannot_be_written_is_told_before_the_work() {
    let record = ["--pairs", "1000", "--record", "/nowhere/soak.jsonl"];
    let output = run(&[&SOAK[..], &record].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("cannot append to /nowhere"), "{message}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

/// As on a full disk: no file may have any bytes.
#[cfg(unix)]
#[test]
fn totals_that_cannot_be_recorded_are_told() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = r#"trap '' XFSZ; ulimit -f 0; exec "$0" "$@""#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_scatterheap")]);
    shell.args(SOAK).args(["--device", "cpu"]);
    shell.args(["--pairs", "1000", "--record", "soak.jsonl"]);
    let output = shell.current_dir(directory.path()).output();
    let output = output.expect("there is a shell");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let error = "error: cannot append to soak.jsonl (File too large";
    assert!(message.contains(error), "{message}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("this run"), "{told}");
}

#[test]
fn litmus_tests_are_reported() {
    let document = json(&["litmus", "slots", "runs", "--tries", "20000"]);
    assert_eq!(document["passed"], true, "{document}");
    let reports = document["reports"].as_array().expect("reports");
    assert_eq!(reports.len(), 2);
    for report in reports {
        assert!(report["tries"].as_u64() >= Some(20_000), "{report}");
        assert_eq!(report["stale_blocks"], 0);
    }
    let output = run(&["litmus", "retirement", "--tries", "20000"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("stale elsewhere") && text.contains("ok"),
        "{text}"
    );
}

#[test]
fn exhaustion_is_reported() {
    let small = ["--heap", "1MiB", "--threads", "256"];
    let largest_seed = ["--seed", "18446744073709551615"];
    let document = json(&[&["exhaustion"], &small[..], &largest_seed].concat());
    assert_eq!(document["passed"], true, "{document}");
    let answers = document["answers"].as_array().expect("answers");
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["served"], 0);
    let output = run(&[&["exhaustion"], &small[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("thinned out, filled"), "{text}");
    assert!(
        text.ends_with("one request takes the whole heap at the end\n"),
        "{text}"
    );
}

/// A full heap is asked more often than it can answer in the second that a launch is given.
#[test]
fn a_launch_that_does_not_end_ends_the_process() {
    let endless = ["--heap", "1MiB", "--requests", "4000000000", "--limit", "1"];
    let output = run(&[&["exhaustion"], &endless[..]].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("was given 1 seconds and has not ended"),
        "{message}"
    );
}
