//! The comparison with other allocators (`benches/resources`), on the CPU: that it builds, runs and measures, and that what
//! cannot be measured is named.

mod build;

use build::library;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Rounds that no case comes to the end of.
const ENDLESS: u64 = 1 << 40;

/// Scenarios of which the figures are known: 40 blocks of 1 KiB at once, and the same with room for 10 of 1 MiB.
fn write_scenarios(directory: &Path, small_rounds: u64, large_rounds: u64) {
    let list = format!(
        "scenario,file,rounds,capacity\nsmall,small.csv,{small_rounds},0\npressure,large.csv,{large_rounds},10485760\n"
    );
    fs::write(directory.join("scenarios.csv"), list).expect("written");
    for (name, bytes) in [("small", 1024), ("large", 1 << 20)] {
        let line = |operation, slot| format!("0,{operation},{slot},{bytes}\n");
        let mut trace = "thread,operation,id,bytes\n".to_owned();
        trace.extend((0..40).map(|slot| line('a', slot)));
        trace.extend((0..40).rev().map(|slot| line('f', slot)));
        fs::write(directory.join(format!("{name}.csv")), trace).expect("written");
    }
}

/// Runs the comparison, unless there is no Python or no compiler.
fn compare(directory: &Path, arguments: &[&str]) -> Option<Output> {
    for program in ["python3", "c++"] {
        if Command::new(program).arg("--version").output().is_err() {
            println!("skipped: the comparison with other allocators (there is no {program})");
            return None;
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/resources/compare.py");
    let output = Command::new("python3")
        .arg(script)
        .args(["--device", "cpu", "--threads", "1,2", "--seconds", "2"])
        .arg("--scenarios")
        .arg(directory)
        .arg("--output")
        .arg(directory.join("rows.csv"))
        .arg("--build")
        .arg(directory.join("build"))
        .args(arguments)
        .env("CXX", "c++")
        .output();
    Some(output.expect("Python starts"))
}

/// The values of a table by their other fields.
fn rows(directory: &Path) -> BTreeMap<String, f64> {
    let table = fs::read_to_string(directory.join("rows.csv")).expect("a table");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("scenario,resource,threads,metric,value"));
    lines
        .map(|line| {
            let (key, value) = line.rsplit_once(',').expect("fields");
            (key.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

#[test]
fn peers_are_measured() {
    let directory = TempDir::new().expect("a directory");
    write_scenarios(directory.path(), 50, 3);
    let library = library();
    let library = library.to_str().expect("a path of text");
    let Some(output) = compare(directory.path(), &["--library", library]) else {
        return;
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    let rows = rows(directory.path());
    for peer in ["scatterheap_c", "system_malloc"] {
        for threads in [1, 2] {
            let time = rows[&format!("small,{peer},{threads},ns_per_pair")];
            assert!(time > 1.0 && time < 1e8, "{time}");
        }
    }
    assert!(rows["small,scatterheap_c,1,reserved_over_live"] >= 1.0);
    // Of 40 blocks 10 fit at most, in each of the 3 timed rounds and two others.
    let failures = rows["pressure,scatterheap_c,1,failures"];
    assert!((150.0..200.0).contains(&failures), "{failures}");
    // It keeps to its 10 MiB, of the 40 that the trace wants at once.
    let reserved = rows["pressure,scatterheap_c,1,reserved_over_live"];
    assert!((0.2..=0.25).contains(&reserved), "{reserved}");
    assert!(!rows.contains_key("small,scatterheap_c,1,failures"));
}

/// A case that does not end is killed, and a peer with two of them in a row is given up. The cases would take an hour, so
/// that none ends before it is killed however busy the machine is.
#[test]
fn a_peer_that_hangs_does_not_stop_the_others() {
    let directory = TempDir::new().expect("a directory");
    write_scenarios(directory.path(), ENDLESS, ENDLESS);
    let peers = ["--peers", "system_malloc"];
    let arguments = [&peers[..], &["--seconds", "3600", "--limit", "0.2"]].concat();
    let Some(output) = compare(directory.path(), &arguments) else {
        return;
    };
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&output.stdout);
    for named in [
        "system_malloc, small, 2 threads: it took longer than 0.2 s",
        "system_malloc: 2 cases left out: 2 in a row hung",
        "; 4 failures",
    ] {
        assert!(printed.contains(named), "{printed}");
    }
    assert!(rows(directory.path()).is_empty());
}

#[test]
fn what_cannot_be_measured_is_named_and_the_rest_goes_on() {
    let directory = TempDir::new().expect("a directory");
    write_scenarios(directory.path(), 50, 3);
    fs::write(
        directory.path().join("large.csv"),
        "thread,operation,id,bytes\n0,a,0,5\n",
    )
    .expect("written");
    let Some(output) = compare(directory.path(), &["--library", "/no/such/directory"]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&output.stdout);
    for named in [
        "scatterheap_c: left out: no libscatterheap.so in --library /no/such/directory",
        "system_malloc, pressure, 1 threads: it failed (1): ",
        "leaves blocks that are live",
    ] {
        assert!(printed.contains(named), "{printed}");
    }
    assert!(rows(directory.path()).contains_key("small,system_malloc,2,ns_per_pair"));
}
