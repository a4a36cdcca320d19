//! `scatterheap resources`: the scenarios that it writes and the table that it makes.

use std::process::{Command, Output};

fn scatterheap(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scatterheap"))
        .arg("resources")
        .args(arguments)
        .output()
        .expect("started")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_measures_nothing_has_no_table() {
    for (option, value) in [("--output", "x.csv"), ("--threads", "2")] {
        let output = scatterheap(&["--write-scenarios", "scenarios", option, value]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot be used with"));
    }
}

#[test]
fn the_document_says_what_it_is_of() {
    let output = scatterheap(&[
        "one_mib",
        "--quick",
        "--resource",
        "system_malloc",
        "--threads",
        "1",
        "--device",
        "cpu",
        "--json",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["command"], "resources");
    assert_eq!(document["device"]["selector"], "cpu");
    assert_eq!(document["rows"][0]["scenario"], "one_mib");
    assert_eq!(document["left_out"], serde_json::json!([]));
}

#[test]
fn scenarios_are_written_for_other_programs() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("scenarios");
    let name = path.to_str().expect("text");
    let output = scatterheap(&["--quick", "--write-scenarios", name]);
    assert!(output.status.success(), "{}", stderr(&output));
    let list = std::fs::read_to_string(path.join("scenarios.csv")).expect("written");
    let mut lines = list.lines();
    assert_eq!(lines.next(), Some("scenario,file,rounds,capacity"));
    let names: Vec<_> = lines.filter_map(|line| line.split(',').next()).collect();
    assert_eq!(
        names,
        [
            "same_size",
            "large",
            "pressure",
            "variable",
            "one_mib",
            "transformer"
        ]
    );
    let output = scatterheap(&["--quick", "--json", "--write-scenarios", name]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["directory"], name);
    assert_eq!(document["scenarios"], serde_json::json!(names));
    for name in names {
        let text = std::fs::read_to_string(path.join(format!("{name}.csv"))).expect("written");
        assert!(
            text.starts_with("thread,operation,id,bytes\n0,a,"),
            "{name}"
        );
    }
    // What is written can be read as a recorded trace.
    let trace = path.join("large.csv");
    let trace = trace.to_str().expect("text");
    let output = scatterheap(&[
        "--quick",
        "--device",
        "cpu",
        "transformer",
        "--transformer",
        trace,
        "--resource",
        "scatterheap",
        "--threads",
        "1",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn figures_are_a_table_of_five_columns() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("resources.csv");
    let output = scatterheap(&[
        "--quick",
        "--device",
        "cpu",
        "same_size",
        "one_mib",
        "--resource",
        "scatterheap,system_malloc",
        "--threads",
        "1,2",
        "--output",
        path.to_str().expect("text"),
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(path).expect("written");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("scenario,resource,threads,metric,value"));
    for metric in [
        "ns_per_pair",
        "reserved_over_live",
        "driver_calls",
        "hit_rate",
        "pairs",
        "operations",
    ] {
        let of_metric = text.lines().filter(|line| line.contains(metric));
        assert_eq!(of_metric.count(), 8, "{metric}");
    }
    assert!(
        text.contains("one_mib,system_malloc,1,hit_rate,0.0"),
        "{text}"
    );
    assert!(
        text.contains("one_mib,scatterheap,1,hit_rate,1.0"),
        "{text}"
    );
}

/// Rows of another allocator are in the same table. The targets are not for a quick run on a CPU.
#[test]
fn rows_of_others_are_put_beside() {
    let directory = tempfile::tempdir().expect("a directory");
    let [others, both] =
        ["others.csv", "both.csv"].map(|name| directory.path().join(name).display().to_string());
    let rows = "scenario,resource,threads,metric,value\n\
        one_mib,cuda_malloc,1,ns_per_pair,1e9\n\
        one_mib,system_malloc,1,ns_per_pair,7.5\n";
    std::fs::write(&others, rows).expect("written");
    let output = scatterheap(&[
        "one_mib",
        "--quick",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--seconds",
        "0.05",
        "--with",
        &others,
        "--output",
        &both,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("cuda_malloc"), "{text}");
    assert!(text.contains("Targets are not judged"), "{text}");
    assert!(!text.contains("not measured"), "{text}");
    let text = std::fs::read_to_string(both).expect("written");
    let of_both = text
        .lines()
        .filter(|line| line.starts_with("one_mib,system_malloc"));
    assert_eq!(
        of_both.collect::<Vec<_>>(),
        ["one_mib,system_malloc,1,ns_per_pair,7.5"]
    );
    assert!(text.contains("one_mib,scatterheap,1,ns_per_pair"), "{text}");
}

/// Two operations are too few for a figure: of the default resource that is a failure, of others a note.
#[test]
fn a_case_that_cannot_be_measured_fails_if_it_is_of_the_default_resource() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("short.csv");
    let rows = "thread,operation,id,bytes\n0,a,0,4096\n0,f,0,4096\n";
    std::fs::write(&trace, rows).expect("written");
    let trace = trace.to_str().expect("text");
    let cases = ["one_mib", "transformer", "--transformer", trace];
    let quick = ["--quick", "--device", "cpu", "--threads", "1"];
    for (resource, code) in [("scatterheap,system_malloc", 1), ("system_malloc", 0)] {
        let output = scatterheap(&[&cases[..], &quick, &["--resource", resource]].concat());
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        let note = "transformer, system_malloc, 1 thread: ";
        assert!(errors.contains(note), "{errors}");
        let error = "error: the default resource could not be measured";
        assert_eq!(errors.contains(error), code == 1, "{errors}");
        // What could be measured is told.
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("one_mib"), "{text}");
    }
}

/// The first threads start and wait for those that do not, which is told, and nobody waits for ever.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_do_not_start_are_one_line() {
    // Each thread asks for 256 MiB of the 1 GiB of addresses that the process may have.
    let script = r#"ulimit -v 1048576; exec timeout 60 "$0" resources "$@""#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_scatterheap")]);
    shell.args(["one_mib", "--quick", "--device", "cpu"]);
    shell.args(["--resource", "system_malloc", "--threads", "16"]);
    shell.env("RUST_MIN_STACK", (256 << 20).to_string());
    let output = shell.output().expect("there is a shell");
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let note = "one_mib, system_malloc, 16 threads: the system failed to start 16 threads (";
    assert!(errors.starts_with(note), "{errors}");
    assert!(errors.contains("): use fewer threads"), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
}

#[test]
fn bad_input_is_one_line() {
    for (arguments, part) in [
        (&["sam_size"][..], "choose from same_size"),
        (&["--resource", "cuda"][..], "choose from scatterheap"),
        (&["--transformer", "/nowhere.csv"][..], "cannot be read"),
        (&["--with", "/nowhere.csv"][..], "cannot be read"),
        (&["--output", "/nowhere/rows.csv"][..], "cannot be written"),
        (&["--seconds", "0"][..], "seconds from"),
        (&["--threads", "0"][..], "0"),
    ] {
        let output = scatterheap(&[arguments, &["--device", "cpu", "--quick"]].concat());
        assert!(!output.status.success());
        let text = stderr(&output);
        let errors = text.lines().filter(|line| line.starts_with("error:"));
        let errors: Vec<_> = errors.collect();
        assert_eq!(errors.len(), 1, "{text}");
        assert!(errors[0].contains(part), "{text}");
    }
}

/// A machine with less memory than a scenario needs has not failed, but whoever reads the table is told.
#[test]
fn what_does_not_fit_is_left_out_and_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("huge.csv");
    let write = |bytes: u64| {
        let lines = format!("thread,operation,id,bytes\n0,a,0,{bytes}\n0,f,0,{bytes}\n");
        std::fs::write(&trace, lines).expect("written");
    };
    write(1 << 50);
    let run = |scenarios: &[&str]| {
        let trace = trace.to_str().expect("text");
        let quick = ["--quick", "--device", "cpu", "--seconds", "0.05"];
        let ours = ["--resource", "scatterheap", "--threads", "1"];
        scatterheap(&[scenarios, &quick, &ours, &["--transformer", trace]].concat())
    };
    let line = "\ntransformer, 1 thread: left out, as it needs 1331.2 TiB and ";
    let output = run(&["one_mib", "transformer"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(line), "{text}");
    let output = run(&["transformer"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let reason = "nothing was measured, as the device has too little memory: ";
    assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    // What more than that needs is no number.
    write(u64::MAX);
    let output = run(&["transformer"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains(reason), "{}", stderr(&output));
}
