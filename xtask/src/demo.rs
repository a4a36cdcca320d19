//! `cargo xtask demo`: what the heap does, on the GPU if there is one and otherwise on the CPU.

use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::executables;
use crate::process::show;
use crate::setup::run_setup;
use crate::toolchain::workspace;

/// What is shown: a heading, and the arguments of the command.
const PARTS: [(&str, &[&str]); 4] = [
    ("This machine", &["info"]),
    (
        "A real program's allocations: sqlite3's, many copies at once",
        &["replay", "traces/sqlite3.sctrace"],
    ),
    (
        "A stress: every block is filled, checked and freed",
        &["stress"],
    ),
    ("A map of a heap that is part full", &["occupancy"]),
];

/// Installs what is missing, builds the command and shows it.
///
/// # Errors
/// Something cannot be installed or built, or the heap lost or damaged a block.
pub fn run() -> Result<()> {
    heading("Setup");
    run_setup()?;

    heading("Build");
    let start = Instant::now();
    let built = executables::build(&[
        "build",
        "--release",
        "--package",
        "scatterheap",
        "--bin",
        "scatterheap",
    ])?;
    let command = executables::find(&built, "scatterheap", "bin")?;
    println!("built in {:.1} s", start.elapsed().as_secs_f64());

    for (title, arguments) in PARTS {
        heading(title);
        println!("$ scatterheap {}", arguments.join(" "));
        show(
            Command::new(command)
                .args(arguments)
                .args(["--device", "auto"])
                .current_dir(workspace()),
        )?;
    }
    println!("\nThe command is {}", command.display());
    Ok(())
}

fn heading(title: &str) {
    println!("\n== {title} ==");
}
