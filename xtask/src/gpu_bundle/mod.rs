//! `cargo xtask gpu-bundle`: packs the command, the test programs, the benchmarks and the Python package into one
//! archive, with a script that runs them on a GPU server that has neither Rust nor the sources.

mod archive;
mod contents;
mod cuda_cpp;
mod groups;
mod limited;
mod long_runs;
mod resources;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use groups::Groups;

use crate::executables::{self, Executable};
use crate::revision::Revision;
use crate::setup::run_setup;
use crate::toolchain::workspace;

/// Name of the directory that the archive unpacks to.
const NAME: &str = "scatterheap-gpu-bundle";

/// Pack the command, the tests and the benchmarks for a GPU server without Rust
#[derive(clap::Args, Debug)]
pub struct BundleArguments {
    /// Where to write the archive [default: target/scatterheap-gpu-bundle.tar.xz]
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Only what these groups of steps need, with commas between, as `ONLY` names them where the bundle is run [default: all]
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', value_parser = groups::ALL, hide_possible_values = true)]
    only: Vec<String>,
}

/// Builds everything that is wanted in release, and packs it.
///
/// # Errors
/// Something does not build, a tool is missing, or the archive cannot be written.
pub fn run(arguments: BundleArguments) -> Result<()> {
    run_setup()?;
    let output = arguments
        .output
        .unwrap_or_else(|| workspace().join("target").join(format!("{NAME}.tar.xz")));
    let groups = Groups::new(arguments.only);
    let built = build(&groups)?;
    let revision = Revision::find()?;
    let scratch = tempfile::tempdir().context("cannot create a temporary directory")?;
    let directory = scratch.path().join(NAME);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    if groups.have(&["python", "resources"]) {
        resources::gather(&directory)?;
    }
    if groups.have(&["cpp"]) {
        cuda_cpp::gather(&directory)?;
    }
    if groups.have(&["long"]) {
        long_runs::gather(&directory)?;
    }
    contents::gather(&built, &groups, &revision, &directory)?;
    archive::write(&directory, revision.time, &output)?;
    let bytes = fs::metadata(&output)?.len();
    println!("written to {} ({bytes} bytes)", output.display());
    println!("on the GPU server: tar -xf {NAME}.tar.xz && bash {NAME}/run-on-gpu.sh");
    Ok(())
}

/// Builds the command, and the programs that groups need.
fn build(groups: &Groups) -> Result<Vec<Executable>> {
    const RELEASE: [&str; 5] = [
        "--release",
        "--package",
        "scatterheap",
        "--package",
        "scatterheap-collections",
    ];
    let mut built = Vec::new();
    if groups.have(&["tests", "bench"]) {
        let tests = [
            "--no-run",
            "--package",
            "scatterheap-host",
            "--tests",
            "--benches",
        ];
        built = executables::build(&[&["test"], &RELEASE[..], &tests].concat())?;
    }
    let mut programs = [&["build"], &RELEASE[..], &["--bins"]].concat();
    if groups.have(&["examples"]) {
        programs.push("--examples");
    }
    built.extend(executables::build(&programs)?);
    Ok(built)
}
