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
    // Every change of what is checked out is noted here.
    let log = Path::new(".git/logs/HEAD");
    println!("cargo::rerun-if-changed=build.rs");
    if !log.is_file() {
        return;
    }
    println!("cargo::rerun-if-changed={}", log.display());
    let asked = Command::new("git")
        .args(["rev-parse", "--short=10", "HEAD"])
        .output();
    if let Ok(output) = asked
        && output.status.success()
    {
        let commit = String::from_utf8_lossy(&output.stdout);
        println!("cargo::rustc-env=SCATTERHEAP_COMMIT={}", commit.trim());
    }
}
