//! Compiles the kernels to PTX for both baselines, to be embedded in the library, and notes the commit
//! for the command.

use std::path::Path;
use std::process::Command;

fn main() {
    note_commit();
    #[cfg(feature = "cuda")]
    if let Err(error) = scatterheap_ptx_builder::Builder::new(scatterheap_kernels::SOURCE_DIRECTORY)
        .build_for_build_script()
    {
        // A panic would bury the message under a backtrace note.
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Sets `SCATTERHEAP_COMMIT` to the commit that is built, if these sources were cloned and there is a git.
fn note_commit() {
    println!("cargo::rerun-if-changed=build.rs");
    // Every change of what is checked out is noted there: in `.git`, or elsewhere for a worktree.
    let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) else {
        return;
    };
    if !Path::new(&log).is_file() {
        return;
    }
    println!("cargo::rerun-if-changed={log}");
    if let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) {
        println!("cargo::rustc-env=SCATTERHEAP_COMMIT={commit}");
    }
}

/// What git prints, if there is one and it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let succeeded = output.status.success();
    succeeded.then(|| printed.trim().to_owned())
}
