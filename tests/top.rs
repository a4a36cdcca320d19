//! Runs with `--live`, and `scatterheap top`, which shows them: as text, as JSON and in a terminal.

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// For anything to happen, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scatterheap"));
    command
        .args(arguments)
        .env("SCATTERHEAP_RUN_DIR", directory);
    command
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    command(directory, arguments)
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

/// A run that is watched, and would take very long.
struct Running(Child);

impl Running {
    fn new(directory: &Path) -> Self {
        let arguments = [
            "stress",
            "churn",
            "--rounds",
            "100000000",
            "--threads",
            "512",
            "--device",
            "cpu:2",
            "--heap",
            "8MiB",
            "--live",
        ];
        let mut command = command(directory, &arguments);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the command starts"))
    }

    fn kill(&mut self) {
        // It may have been killed before.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks until the answer is as it should be.
fn wait_for(directory: &Path, arguments: &[&str], is_right: impl Fn(&Output) -> bool) -> Output {
    let begin = Instant::now();
    loop {
        let output = run(directory, arguments);
        if is_right(&output) {
            return output;
        }
        let (out, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(begin.elapsed() < PATIENCE, "{arguments:?}: {out} {errors}");
        sleep(Duration::from_millis(50));
    }
}

fn heaps(output: &Output) -> Vec<Value> {
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    document["heaps"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_running_heap_is_shown_until_its_process_ends() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path();
    let mut running = Running::new(directory);
    let process = running.0.id().to_string();
    let json = ["top", "--json"];
    let works = |output: &Output| {
        let [heap] = &heaps(output)[..] else {
            return false;
        };
        heap["used_blocks"].as_u64() > Some(0) && heap["doing"] == "churn"
    };
    let shown = heaps(&wait_for(directory, &json, works)).remove(0);
    assert_eq!(shown["process"].to_string(), process);
    assert_eq!(shown["name"], "scatterheap stress");
    assert_eq!(shown["capacity"], 8 << 20);
    let number = |field: &str| shown[field].as_u64().expect("a number");
    assert!(number("used_bytes") <= number("capacity") && number("used_blocks") <= 512 * 4 + 2);
    let pages = ["free", "in_slabs", "in_runs", "lost"].map(|kind| &shown["pages"][kind]);
    let pages: u64 = pages.into_iter().filter_map(Value::as_u64).sum();
    assert_eq!(pages * number("page_bytes"), number("capacity"));
    let sizes = shown["sizes"].as_array().expect("sizes");
    assert!(!sizes.is_empty(), "{shown}");

    // Time goes on, and the work does.
    let later = |output: &Output| {
        let newer = |heap: &Value| heap["taken_at"].as_f64() > shown["taken_at"].as_f64();
        heaps(output).first().is_some_and(newer)
    };
    wait_for(directory, &["top", &process, "--json"], later);
    let once = run(directory, &["top", &process, "--once"]);
    for words in [
        "scatterheap stress (churn)",
        &process,
        "heap of 8 MiB",
        "in use",
        "bytes each",
    ] {
        assert!(text(&once.stdout).contains(words), "{once:?}");
    }
    let other = run(directory, &["top", "1"]);
    assert_eq!(other.status.code(), Some(1));
    let line = text(&other.stderr);
    assert!(
        line.starts_with("error: heaps of process 1 ") && line.contains(&process),
        "{line}"
    );

    running.kill();
    let ended = run(directory, &["top"]);
    let line = text(&ended.stderr);
    assert_eq!(
        (ended.status.code(), line.lines().count()),
        (Some(1), 1),
        "{line}"
    );
    assert!(
        line.starts_with("error: running heaps were looked for in"),
        "{line}"
    );
    assert!(
        line.contains("there are none") && line.contains("--live"),
        "{line}"
    );
    assert_eq!(directory.read_dir().expect("it is there").count(), 0);
}

#[test]
fn a_run_that_is_watched_passes_and_leaves_nothing_behind() {
    let scratch = tempfile::tempdir().expect("a directory");
    let trace = format!("{}/traces/sqlite3.sctrace", env!("CARGO_MANIFEST_DIR"));
    let small = ["--device", "cpu:2", "--live", "--json"];
    for arguments in [
        &[
            "stress",
            "uniform",
            "exhaust",
            "--threads",
            "256",
            "--heap",
            "4MiB",
        ][..],
        &[
            "stress",
            "grow",
            "--threads",
            "256",
            "--heap",
            "1MiB",
            "--max-heap",
            "16MiB",
            "--growth",
            "live",
        ],
        &["replay", &trace, "--copies", "1", "--heap", "32MiB"],
        &[
            "soak",
            "--pairs",
            "20000",
            "--threads",
            "256",
            "--heap",
            "4MiB",
        ],
    ] {
        let output = run(scratch.path(), &[arguments, &small].concat());
        let errors = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["passed"], true, "{arguments:?}");
        let left = scratch.path().read_dir().expect("it is there").count();
        assert_eq!(left, 0, "{arguments:?}");
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_refused_in_one_line() {
    let scratch = tempfile::tempdir().expect("a directory");
    let file = scratch.path().join("file");
    std::fs::write(&file, "").expect("written");
    let below = file.join("below");
    let stress = ["stress", "--heap", "1MiB", "--device", "cpu", "--live"];
    for arguments in [&stress[..], &["top"]] {
        let output = run(&below, arguments);
        let line = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains("SCATTERHEAP_RUN_DIR"), "{line}");
    }
}

#[test]
fn the_cost_of_being_watched_is_measured() {
    let scratch = tempfile::tempdir().expect("a directory");
    let table = scratch.path().join("top.csv");
    let arguments = [
        "live-cost",
        "--runs",
        "2",
        "--milliseconds",
        "20",
        "--threads",
        "256",
        "--device",
        "cpu:2",
        "--heap",
        "8MiB",
        "--json",
        "--output",
    ];
    let mut command = command(scratch.path(), &arguments);
    let output = command.arg(&table).output().expect("the command starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (alone, watched) = (&document["alone"], &document["watched"]);
    let (alone, watched) = (
        alone.as_f64().expect("a speed"),
        watched.as_f64().expect("a speed"),
    );
    let cost = document["cost"].as_f64().expect("a share");
    assert!(alone > 0.0 && (cost - (1.0 - watched / alone)).abs() < 1e-9);
    let table = std::fs::read_to_string(table).expect("it was written");
    let kinds: Vec<_> = table
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(4))
        .collect();
    assert_eq!(
        kinds,
        [Some("false"), Some("true"), Some("true"), Some("false")]
    );
}

/// With the program `script`, which runs another one in a terminal.
#[cfg(target_os = "linux")]
#[test]
fn the_view_leaves_the_terminal_as_it_was() {
    use std::io::Write;
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped: the view in a terminal (`script` was not found)");
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let _running = Running::new(scratch.path());
    wait_for(scratch.path(), &["top", "--json"], |output| {
        output.status.success()
    });
    let view = format!(
        "stty rows 24 cols 80; exec {} top",
        env!("CARGO_BIN_EXE_scatterheap")
    );
    let mut terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &view, "/dev/null"])
        .env("SCATTERHEAP_RUN_DIR", scratch.path())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut keys = terminal.stdin.take().expect("a pipe");
    // It may not read keys yet, so it is asked to quit until it does.
    let begin = Instant::now();
    while terminal.try_wait().expect("it can be asked").is_none() {
        assert!(begin.elapsed() < PATIENCE, "the view does not end");
        sleep(Duration::from_millis(500));
        // The pipe is closed once the program has ended.
        let _written = keys.write_all(b"q");
    }
    let output = terminal.wait_with_output().expect("it ended");
    let screen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{screen}");
    let (enter, leave) = (screen.find("\x1b[?1049h"), screen.rfind("\x1b[?1049l"));
    assert!(enter.is_some() && enter < leave, "{screen}");
    assert!(
        screen.contains("scatterheap stress") && screen.contains("churn"),
        "{screen}"
    );
}

/// What was measured before is still there if nothing can be measured now.
#[test]
fn a_table_stays_if_the_cost_cannot_be_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let table = directory.path().join("top.csv");
    std::fs::write(&table, "measured before").expect("written");
    let output = table.to_str().expect("UTF-8");
    let arguments = ["live-cost", "--device", "cuda:4095", "--output", output];
    assert!(!run(directory.path(), &arguments).status.success());
    let kept = std::fs::read_to_string(&table).expect("there");
    assert_eq!(kept, "measured before");
    // A place where nothing can be written is told before anything is measured.
    let nowhere = directory.path().join("none/top.csv");
    let nowhere = nowhere.to_str().expect("UTF-8");
    let arguments = ["live-cost", "--device", "cpu:2", "--output", nowhere];
    let refused = run(directory.path(), &arguments);
    assert!(!refused.status.success());
    let line = text(&refused.stderr);
    assert!(
        line.contains("cannot write") && line.contains("No such file"),
        "{line}"
    );
}
