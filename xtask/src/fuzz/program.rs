//! Builds libFuzzer's programs with cargo-fuzz, which is installed if it is missing.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{run, show, succeeds};
use crate::toolchain::{cargo, workspace};

/// The version that is installed.
const VERSION: &str = "0.13.2";

/// What watches the program's accesses to memory.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    /// Nothing: the targets' own checks only
    None,
    /// `AddressSanitizer`
    Address,
}

/// Programs that are built.
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// The program of a target.
    pub fn of(&self, target: &str) -> PathBuf {
        self.directory.join(target)
    }
}

/// Builds the programs of all targets.
///
/// # Errors
/// cargo-fuzz or the programs cannot be built.
pub fn build(sanitizer: Sanitizer) -> Result<Programs> {
    let tool = install()?;
    let triple = host_triple()?;
    let (name, directory) = match sanitizer {
        Sanitizer::None => ("none", "fuzz"),
        Sanitizer::Address => ("address", "fuzz-address"),
    };
    let directory = workspace().join("target").join(directory);
    let mut command = Command::new(tool);
    command
        .current_dir(workspace())
        .args(["fuzz", "build", "--target", &triple])
        // Half of the time would go into noting what was compared; structured inputs need none of it.
        .args(["--no-trace-compares", "--sanitizer", name])
        .arg("--target-dir")
        .arg(&directory)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS");
    if sanitizer != Sanitizer::None {
        // Sanitizers are unstable options, which a stable compiler has all the same.
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    show(&mut command)?;
    Ok(Programs {
        directory: directory.join(triple).join("release"),
    })
}

/// Where the tool is; it is installed beside the project's other tools.
fn install() -> Result<PathBuf> {
    let root = workspace().join(".tools");
    let program = root.join("bin").join("cargo-fuzz");
    if !succeeds(Command::new(&program).args(["fuzz", "--version"])) {
        println!("running cargo install cargo-fuzz --version {VERSION}");
        show(
            cargo()
                .args(["install", "cargo-fuzz", "--locked", "--quiet"])
                .args(["--version", VERSION, "--root"])
                .arg(&root),
        )?;
    }
    Ok(program)
}

/// The platform that the compiler runs on.
fn host_triple() -> Result<String> {
    let said = run(cargo().args(["--version", "--verbose"]))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("cargo does not name its host")?.to_owned())
}
