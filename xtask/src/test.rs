//! `cargo xtask test`: everything that can be tested on this machine, stage after stage, up to the
//! first that fails.
//!
//! All cargo commands cover the whole workspace, so that they agree on the features of every
//! dependency and nothing is built twice; tests, examples and the command share one profile. Only
//! the models need flags of their own, and have target directories of their own.

use std::env;
use std::process::Command;

use anyhow::{Context, Result};
use scatterheap_ptx_builder::COMPILER_VARIABLE;
use serde_json::Value;

use crate::checkers::Checker;
use crate::executables::{self, Executable};
use crate::model::{self, ModelArguments};
use crate::process;
use crate::python;
use crate::room;
use crate::setup::run_setup;
use crate::stages::Stages;
use crate::toolchain::{cargo, workspace};

/// The heap's inspector is a feature, and its tests need it.
const FEATURES: [&str; 2] = ["--features", "scatterheap-heap/inspect"];

/// Test everything that can be tested on this machine
#[derive(clap::Args, Debug)]
pub struct TestArguments {
    /// Leave out Clippy, the documentation and the models
    #[arg(long)]
    quick: bool,
}

/// Runs the stages, and says at the end what ran and what was skipped.
///
/// # Errors
/// A stage failed; those after it did not run.
pub fn run(arguments: &TestArguments) -> Result<()> {
    let mut stages = Stages::default();
    let mut gpus = None;
    let result = run_stages(&mut stages, arguments.quick, &mut gpus);
    print!("{}", stages.summary(gpus));
    if let (Err(_), Some(room)) = (&result, room::describe()) {
        // What fails for want of it seldom says so.
        println!("{room}");
    }
    result
}

fn run_stages(stages: &mut Stages, quick: bool, gpus: &mut Option<usize>) -> Result<()> {
    stages.run("setup", run_setup)?;
    check(
        stages,
        "format",
        Checker::Format,
        &["fmt", "--all", "--check"],
    )?;
    if !quick {
        let clippy = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        check(stages, "clippy", Checker::Clippy, &clippy)?;
    }
    stages.command("tests", &mut tests("--tests"))?;
    if !quick {
        stages.command("documentation tests", &mut tests("--doc"))?;
    }

    let mut built = Vec::new();
    stages.run("command", || {
        built = executables::build(&["build", "--workspace", "--bins", "--examples"])?;
        let command = executables::find(&built, "scatterheap", "bin")?;
        process::show(Command::new(command).arg("info"))?;
        let info = process::run(Command::new(command).args(["info", "--json"]))?;
        *gpus = Some(count_gpus(&info)?);
        Ok(())
    })?;
    stages.commands("examples", examples(&built))?;
    python(stages)?;
    stages.commands("without CUDA", without_cuda())?;
    if !quick {
        stages.command("documentation", &mut documentation())?;
        stages.run("models", || model::run(ModelArguments::among_tests()))?;
    }
    Ok(())
}

/// A stage of a checker, where it is installed or can be.
fn check(
    stages: &mut Stages,
    name: &'static str,
    checker: Checker,
    arguments: &[&str],
) -> Result<()> {
    match checker.install() {
        Ok(()) => stages.command(name, cargo().args(arguments)),
        Err(reason) => {
            stages.skip(name, &format!("{reason:#}"));
            Ok(())
        }
    }
}

/// The tests of one kind. What they print is shown, because they print what they skip.
fn tests(kind: &str) -> Command {
    let mut command = cargo();
    command
        .args(["test", "--workspace", kind])
        .args(FEATURES)
        .args(["--", "--show-output"]);
    command
}

/// Builds and installs the Python package in a fresh virtual environment, and runs its tests.
fn python(stages: &mut Stages) -> Result<()> {
    let scratch = tempfile::tempdir().context("cannot create a temporary directory")?;
    let mut tests = None;
    stages.run("Python package", || {
        tests = Some(python::tests(&scratch.path().join("environment"))?);
        Ok(())
    })?;
    let mut tests = tests.context("the package was installed")?;
    stages.command("Python tests", &mut tests)
}

/// The examples in their order, each on the device that it chooses itself.
fn examples(built: &[Executable]) -> Vec<Command> {
    let mut examples: Vec<&Executable> = built
        .iter()
        .filter(|program| program.kind == "example")
        .collect();
    examples.sort_by(|left, right| left.name.cmp(&right.name));
    examples
        .into_iter()
        .map(|example| {
            let mut command = Command::new(&example.file);
            command.current_dir(workspace());
            command
        })
        .collect()
}

/// Checks that it compiles without GPUs: the library alone, as who depends on it gets it, and the command. The variable names no
/// compiler, so that fails if it looks for one.
fn without_cuda() -> Vec<Command> {
    let features: [&[&str]; 2] = [&[], &["--features", "command"]];
    features
        .into_iter()
        .map(|features| {
            let mut command = cargo();
            command
                .args(["check", "--package", "scatterheap", "--no-default-features"])
                .args(features)
                .env(COMPILER_VARIABLE, "there is none");
            command
        })
        .collect()
}

/// Builds the documentation; its warnings, such as links to nowhere, are errors.
fn documentation() -> Command {
    let flags = env::var("RUSTDOCFLAGS").unwrap_or_default();
    let mut command = cargo();
    command
        .args(["doc", "--workspace", "--no-deps"])
        .env_remove("CARGO_ENCODED_RUSTDOCFLAGS")
        .env("RUSTDOCFLAGS", format!("{flags} -D warnings").trim_start());
    command
}

/// How many devices are GPUs, by what `scatterheap info --json` says.
fn count_gpus(info: &str) -> Result<usize> {
    let info: Value = serde_json::from_str(info).context("`scatterheap info` printed no JSON")?;
    let devices = info["devices"]
        .as_array()
        .context("`scatterheap info` lists no devices")?;
    Ok(devices
        .iter()
        .filter(|device| device["selector"] != "cpu")
        .count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_counted() {
        let cpu = r#"{"devices": [{"selector": "cpu"}]}"#;
        assert_eq!(count_gpus(cpu).expect("a document"), 0);
        let both = r#"{"devices": [{"selector": "cpu"}, {"selector": "cuda:0"}]}"#;
        assert_eq!(count_gpus(both).expect("a document"), 1);
        assert!(count_gpus("using cpu").is_err());
        assert!(count_gpus("{}").is_err());
    }
}
