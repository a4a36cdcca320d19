//! `cargo xtask wheel`: builds the Python package, with a maturin of its own; and its tests in a fresh virtual environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{run, show, succeeds};
use crate::setup::{install_packages, is_debian};
use crate::toolchain::{cargo, workspace};

/// The release of maturin on `PyPI` that builds the wheel.
const MATURIN_VERSION: &str = "1.16.0";

/// Build the Python package as a wheel
#[derive(clap::Args, Debug)]
pub struct WheelArguments {
    /// The directory to write the wheel to [default: target/wheels]
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Build without optimisation, which is faster
    #[arg(long)]
    dev: bool,
    /// Build without optimisation, install into a fresh virtual environment, and run the package's tests there
    #[arg(long, conflicts_with_all = ["output", "dev"])]
    test: bool,
}

/// Builds the wheel and says where it is, or tests it.
///
/// # Errors
/// Python or maturin cannot be installed, or something does not build.
pub fn run_wheel(arguments: WheelArguments) -> Result<()> {
    if arguments.test {
        let scratch = tempfile::tempdir().context("cannot create a temporary directory")?;
        return show(&mut tests(&scratch.path().join("environment"))?);
    }
    install_maturin()?;
    let output = arguments
        .output
        .unwrap_or_else(|| workspace().join("target/wheels"));
    let profile = if arguments.dev { "dev" } else { "release" };
    let wheel = build_wheel(profile, &output)?;
    let bytes = fs::metadata(&wheel)?.len();
    println!("written to {} ({bytes} bytes)", wheel.display());
    Ok(())
}

/// Where maturin and its Python are.
fn environment() -> PathBuf {
    workspace().join(".tools").join("python")
}

fn maturin() -> PathBuf {
    environment().join("bin").join("maturin")
}

/// Makes sure that maturin is there in the pinned version.
///
/// # Errors
/// There is no Python with virtual environments, and it cannot be installed, or maturin cannot be downloaded.
pub fn install_maturin() -> Result<()> {
    let version = run(Command::new(maturin()).arg("--version")).unwrap_or_default();
    if version.trim().ends_with(MATURIN_VERSION) {
        return Ok(());
    }
    println!("running pip install maturin=={MATURIN_VERSION}");
    make_environment(&environment())?;
    run(pip(&environment()).args(["install", "--quiet", &format!("maturin=={MATURIN_VERSION}")]))
        .context("cannot install maturin")?;
    Ok(())
}

/// Makes an empty virtual environment; Debian and Ubuntu leave out what that needs.
fn make_environment(directory: &Path) -> Result<()> {
    let make = || {
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(directory);
        command
    };
    if succeeds(&mut make()) {
        return Ok(());
    }
    if is_debian() {
        install_packages(&["python3", "python3-venv"]).context("cannot install Python")?;
    }
    run(&mut make()).context("the Python package needs Python 3.10 or newer with `venv`")?;
    Ok(())
}

/// The `pip` of a virtual environment.
fn pip(environment: &Path) -> Command {
    let mut command = Command::new(environment.join("bin").join("python"));
    command.args(["-m", "pip", "--disable-pip-version-check"]);
    command
}

/// Builds the wheel with a profile of cargo, into a directory.
///
/// # Errors
/// Something does not build.
pub fn build_wheel(profile: &str, directory: &Path) -> Result<PathBuf> {
    let scratch = tempfile::tempdir().context("cannot create a temporary directory")?;
    show(
        Command::new(maturin())
            .args([
                "build",
                "--quiet",
                "--locked",
                "--profile",
                profile,
                "--out",
            ])
            .arg(scratch.path())
            .arg("--manifest-path")
            .arg(workspace().join("python/Cargo.toml"))
            // The same cargo, and so the same compiler, as for all else.
            .env("CARGO", cargo().get_program())
            .current_dir(workspace()),
    )?;
    let wheel = wheel_in(scratch.path())?;
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let name = wheel.file_name().context("a file has a name")?;
    let target = directory.join(name);
    fs::copy(&wheel, &target).with_context(|| format!("cannot write {}", target.display()))?;
    Ok(target)
}

/// The only wheel in a directory.
fn wheel_in(directory: &Path) -> Result<PathBuf> {
    let mut wheels = fs::read_dir(directory)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"));
    match (wheels.next(), wheels.next()) {
        (Some(wheel), None) => Ok(wheel),
        _ => bail!(
            "maturin left no wheel, or several, in {}",
            directory.display()
        ),
    }
}

/// Installs the wheel in a fresh virtual environment, and gives the command that runs its tests there.
///
/// # Errors
/// It does not build, or cannot be installed.
pub fn tests(environment: &Path) -> Result<Command> {
    install_maturin()?;
    let wheels = tempfile::tempdir().context("cannot create a temporary directory")?;
    let wheel = build_wheel("dev", wheels.path())?;
    make_environment(environment)?;
    // With NumPy, which is all that it depends on.
    run(pip(environment).args(["install", "--quiet"]).arg(&wheel))
        .context("cannot install the wheel, or NumPy from PyPI")?;
    let python = environment.join("bin").join("python");
    let version =
        run(Command::new(&python)
            .args(["-c", "import scatterheap; print(scatterheap.__version__)"]))?;
    ensure!(
        version.trim() == env!("CARGO_PKG_VERSION"),
        "the wheel of {} was installed, but Python imports {}",
        env!("CARGO_PKG_VERSION"),
        version.trim()
    );
    let mut command = Command::new(python);
    command
        .args(["-m", "unittest", "discover", "--start-directory"])
        .arg(workspace().join("python/tests"));
    Ok(command)
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn a_lone_wheel_is_found() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(wheel_in(directory.path()).is_err());
        let wheel = directory.path().join("one.whl");
        fs::write(&wheel, "").expect("written");
        fs::write(directory.path().join("other.txt"), "").expect("written");
        assert_eq!(wheel_in(directory.path()).expect("one"), wheel);
        fs::write(directory.path().join("two.whl"), "").expect("written");
        assert!(wheel_in(directory.path()).is_err());
    }
}
