//! `cargo xtask gpu-bundle`: packs the command, the test programs, the benchmarks and the Python package into one
//! archive, with a script that runs them on a GPU server that has neither Rust nor the sources.

mod archive;
mod contents;
mod cuda_cpp;
mod limited;
mod long_runs;
mod resources;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::executables;
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
}

/// Builds everything in release, and packs it.
///
/// # Errors
/// Something does not build, a tool is missing, or the archive cannot be written.
pub fn run(arguments: BundleArguments) -> Result<()> {
    run_setup()?;
    let output = arguments
        .output
        .unwrap_or_else(|| workspace().join("target").join(format!("{NAME}.tar.xz")));
    // `--tests` alone also builds the command, which tests run.
    let mut built = executables::build(&[
        "test",
        "--release",
        "--no-run",
        "--package",
        "scatterheap",
        "--package",
        "scatterheap-host",
        "--package",
        "scatterheap-collections",
        "--tests",
        "--benches",
    ])?;
    built.extend(executables::build(&[
        "build",
        "--release",
        "--package",
        "scatterheap",
        "--package",
        "scatterheap-collections",
        "--examples",
    ])?);

    let revision = Revision::find()?;
    let scratch = tempfile::tempdir().context("cannot create a temporary directory")?;
    let directory = scratch.path().join(NAME);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    resources::gather(&directory)?;
    cuda_cpp::gather(&directory)?;
    long_runs::gather(&directory)?;
    contents::gather(&built, &revision, &directory)?;
    archive::write(&directory, revision.time, &output)?;
    let bytes = fs::metadata(&output)?.len();
    println!("written to {} ({bytes} bytes)", output.display());
    println!("on the GPU server: tar -xf {NAME}.tar.xz && bash {NAME}/run-on-gpu.sh");
    Ok(())
}
