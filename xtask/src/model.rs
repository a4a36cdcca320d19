//! `cargo xtask model`: explores the interleavings of the allocator's protocols and warps.
//!
//! Each explorer is chosen by a `--cfg` of the whole build, so each has a target directory of its
//! own, and the flags of the environment are kept out. The tests' own output is shown as it comes:
//! a failure prints the seed that replays it. `--mutate` asks the models themselves, see [`mutate`].

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::mutate;
use crate::toolchain::{cargo, workspace};

/// Explore the interleavings of the allocator's protocols (loom) and warps (shuttle)
#[derive(clap::Args, Debug, Default)]
pub struct ModelArguments {
    /// Schedules of each test of the warps [default: what the tests find enough]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    schedules: Option<u64>,

    /// First seed of the warps' schedules, as a failure prints it; without --schedules this one
    /// only [default: by the clock]
    #[arg(long)]
    seed: Option<u64>,

    /// Run one of the explorers
    #[arg(long)]
    only: Option<Explorer>,

    /// Weaken each memory ordering of the allocator in turn, and write a table of the loom models
    /// that fail for it. A run that was interrupted goes on where it was
    #[arg(long, conflicts_with_all = ["schedules", "seed", "only"])]
    mutate: bool,

    /// Where the table of mutations goes [default: docs/mutations.md]
    #[arg(long, requires = "mutate", value_name = "FILE")]
    output: Option<PathBuf>,

    /// Seconds that a model may take to find a mutation
    #[arg(long, requires = "mutate", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,

    /// Run the tests whose names contain this
    filter: Option<String>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Explorer {
    /// Every interleaving and reordering of the protocols, one lane a thread
    Loom,
    /// Random schedules of emulated warps
    Shuttle,
}

impl Explorer {
    fn name(self) -> &'static str {
        match self {
            Self::Loom => "loom",
            Self::Shuttle => "shuttle",
        }
    }

    /// Packages and tests that it runs.
    fn tests(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Loom => &[
                ("scatterheap-simt", "weakening"),
                ("scatterheap-heap", "protocols"),
            ],
            Self::Shuttle => &[
                ("scatterheap-simt", "emulation"),
                ("scatterheap-heap", "warps"),
            ],
        }
    }
}

/// Runs the explorers' tests.
///
/// # Errors
/// Cargo does not start, a test does not build, or one fails.
// By value: the arguments are made for this call alone.
#[allow(
    clippy::needless_pass_by_value,
    reason = "arguments are parsed for this call alone"
)]
pub fn run(arguments: ModelArguments) -> Result<()> {
    if arguments.mutate {
        return mutate::run(&mutate::Settings {
            table: arguments
                .output
                .unwrap_or_else(|| workspace().join("docs").join("mutations.md")),
            seconds: arguments.seconds,
            filter: arguments.filter,
        });
    }
    for explorer in [Explorer::Loom, Explorer::Shuttle] {
        if arguments.only.is_some_and(|only| only != explorer) {
            continue;
        }
        for (package, test) in explorer.tests() {
            let status = command(explorer, package, test, &arguments)
                .status()
                .context("cannot start cargo")?;
            if !status.success() {
                bail!(
                    "the test `{test}` of {package} failed under {}",
                    explorer.name()
                );
            }
        }
    }
    Ok(())
}

/// Cargo's command that builds the loom models of the allocator's protocols.
pub fn build_of_models() -> Command {
    let mut command = test_of(Explorer::Loom, "scatterheap-heap", "protocols");
    command.arg("--no-run");
    command
}

fn test_of(explorer: Explorer, package: &str, test: &str) -> Command {
    let name = explorer.name();
    let mut command = cargo();
    command
        .args(["test", "--release", "--package", package, "--test", test])
        .arg("--target-dir")
        .arg(workspace().join("target").join(name))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", format!("--cfg {name}"));
    command
}

fn command(explorer: Explorer, package: &str, test: &str, arguments: &ModelArguments) -> Command {
    let mut command = test_of(explorer, package, test);
    command
        .arg("--")
        .args(&arguments.filter)
        // Rates and seeds are worth seeing, and one test at a time keeps them readable.
        .args(["--nocapture", "--test-threads=1"]);
    if let Some(seed) = arguments.seed {
        command.env("SCATTERHEAP_SEED", seed.to_string());
    }
    if let Some(schedules) = arguments.schedules.or(arguments.seed.map(|_| 1)) {
        command.env("SCATTERHEAP_SCHEDULES", schedules.to_string());
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    /// What the command's environment has under a name: nothing, `-` if it is removed, or a value.
    fn variable<'a>(command: &'a Command, name: &str) -> Option<&'a OsStr> {
        command
            .get_envs()
            .find_map(|(key, value)| (key == name).then_some(value.unwrap_or("-".as_ref())))
    }

    fn arguments(schedules: Option<u64>, seed: Option<u64>) -> ModelArguments {
        ModelArguments {
            schedules,
            seed,
            ..ModelArguments::default()
        }
    }

    #[test]
    fn flags_of_the_environment_are_replaced() {
        let command = command(Explorer::Loom, "a", "b", &arguments(None, None));
        assert_eq!(
            variable(&command, "CARGO_ENCODED_RUSTFLAGS"),
            Some("-".as_ref())
        );
        assert_eq!(variable(&command, "RUSTFLAGS"), Some("--cfg loom".as_ref()));
        assert_eq!(variable(&command, "SCATTERHEAP_SCHEDULES"), None);
    }

    #[test]
    fn a_seed_alone_is_one_schedule() {
        for (schedules, expected) in [(None, "1"), (Some(7), "7")] {
            let arguments = arguments(schedules, Some(42));
            let command = command(Explorer::Shuttle, "a", "b", &arguments);
            assert_eq!(variable(&command, "SCATTERHEAP_SEED"), Some("42".as_ref()));
            assert_eq!(
                variable(&command, "SCATTERHEAP_SCHEDULES"),
                Some(expected.as_ref())
            );
        }
    }
}
