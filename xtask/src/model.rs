//! `cargo xtask model`: explores the interleavings of the allocator's protocols and warps.
//!
//! Each explorer is chosen by a `--cfg` of the whole build, so each has a target directory of its
//! own, and the flags of the environment are kept out. The tests' own output is shown as it comes:
//! a failure prints the command that repeats it. `--mutate` asks the models themselves, see
//! [`mutate`]; `--total` explores the warps for hours, see [`long_run`].

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::long_run;
use crate::mutate;
use crate::toolchain::{cargo, workspace};

/// Explore the interleavings of the allocator's protocols (loom) and warps (shuttle)
#[derive(clap::Args, Debug, Default)]
pub struct ModelArguments {
    /// Schedules of all tests of the warps together, more of those that are quick [default: 100000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: Option<u64>,

    /// Schedules of each test of the warps, instead
    #[arg(long, value_name = "NUMBER", conflicts_with = "schedules",
        value_parser = clap::value_parser!(u64).range(1..))]
    each: Option<u64>,

    /// First seed of the warps' schedules, as a failure prints it; without a number of schedules
    /// this one only [default: by the clock]
    #[arg(long)]
    seed: Option<u64>,

    /// Explore the warps until this many schedules of these sources are on record, and sum them up. A run that was
    /// interrupted goes on where it was
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["schedules", "each", "seed", "only", "filter"],
        value_parser = clap::value_parser!(u64).range(1..))]
    total: Option<u64>,

    /// Run one of the explorers
    #[arg(long)]
    only: Option<Explorer>,

    /// Weaken each memory ordering of the allocator in turn, and write a table of the loom models
    /// that fail for it. A run that was interrupted goes on where it was
    #[arg(long, conflicts_with_all = ["schedules", "each", "seed", "total", "only"])]
    mutate: bool,

    /// Where the table of mutations goes [default: docs/mutations.md; with FILTER, target/loom/mutations.md]
    #[arg(long, requires = "mutate", value_name = "FILE")]
    output: Option<PathBuf>,

    /// Seconds that each model of the protocols may take, or take to find a mutation [default: 20]
    #[arg(long, conflicts_with = "total", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

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

/// Seconds that each model of the protocols may take, unless they are given.
const SECONDS: u64 = 20;
/// The same where all tests run: a third of the models, whose interleavings are too many for either, would be half of the time that all take.
const SECONDS_AMONG_TESTS: u64 = 8;

impl ModelArguments {
    /// Those of the test command.
    pub fn among_tests() -> Self {
        Self {
            seconds: Some(SECONDS_AMONG_TESTS),
            ..Self::default()
        }
    }

    /// Where the table of mutations goes. Of some models it is a part only, which does not replace that of all.
    fn table_of_mutations(&self) -> PathBuf {
        let usual = match self.filter {
            None => "docs/mutations.md",
            Some(_) => "target/loom/mutations.md",
        };
        let output = self.output.clone();
        output.unwrap_or_else(|| workspace().join(usual))
    }

    /// Which explorers run: a seed is of the warps' schedules.
    fn explorers(&self) -> Vec<Explorer> {
        let only = self.only.or(self.seed.map(|_| Explorer::Shuttle));
        let all = [Explorer::Loom, Explorer::Shuttle];
        all.into_iter()
            .filter(|explorer| only.is_none_or(|only| only == *explorer))
            .collect()
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
            table: arguments.table_of_mutations(),
            seconds: arguments.seconds.unwrap_or(SECONDS),
            filter: arguments.filter,
        });
    }
    if let Some(total) = arguments.total {
        return long_run::run(total);
    }
    for explorer in arguments.explorers() {
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

/// Cargo's command that builds the scenarios of the warps.
pub fn build_of_scenarios() -> Command {
    let mut command = test_of(Explorer::Shuttle, "scatterheap-heap", "warps");
    command.arg("--no-run");
    command
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
    // Rates and seeds are worth seeing.
    command.arg("--").args(&arguments.filter).arg("--nocapture");
    for (name, number) in [
        ("SCATTERHEAP_SEED", arguments.seed),
        ("SCATTERHEAP_SCHEDULES", arguments.schedules),
        ("SCATTERHEAP_EACH", arguments.each),
        (
            "LOOM_MAX_DURATION",
            Some(arguments.seconds.unwrap_or(SECONDS)),
        ),
    ] {
        match number {
            Some(number) => command.env(name, number.to_string()),
            None => command.env_remove(name),
        };
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

    #[test]
    fn flags_of_the_environment_are_replaced() {
        let command = command(Explorer::Loom, "a", "b", &ModelArguments::default());
        assert_eq!(
            variable(&command, "CARGO_ENCODED_RUSTFLAGS"),
            Some("-".as_ref())
        );
        assert_eq!(variable(&command, "RUSTFLAGS"), Some("--cfg loom".as_ref()));
        assert_eq!(
            variable(&command, "SCATTERHEAP_SCHEDULES"),
            Some("-".as_ref())
        );
    }

    #[test]
    fn models_take_less_time_among_other_tests() {
        let limit = |arguments| {
            let command = command(Explorer::Loom, "a", "b", &arguments);
            let seconds = variable(&command, "LOOM_MAX_DURATION").expect("a limit");
            seconds.to_str().and_then(|seconds| seconds.parse().ok())
        };
        assert_eq!(limit(ModelArguments::default()), Some(SECONDS));
        let among_tests: Option<u64> = limit(ModelArguments::among_tests());
        assert!(among_tests.is_some_and(|seconds| seconds < SECONDS));
    }

    #[test]
    fn a_table_of_some_models_does_not_replace_that_of_all() {
        let mut arguments = ModelArguments::default();
        let table = workspace().join("docs/mutations.md");
        assert_eq!(arguments.table_of_mutations(), table);
        arguments.filter = Some("a_run".into());
        assert_ne!(arguments.table_of_mutations(), table);
        arguments.output = Some("mine.md".into());
        assert_eq!(arguments.table_of_mutations(), PathBuf::from("mine.md"));
    }

    #[test]
    fn a_seed_is_of_the_warps() {
        let mut arguments = ModelArguments::default();
        assert_eq!(arguments.explorers(), [Explorer::Loom, Explorer::Shuttle]);
        arguments.seed = Some(42);
        assert_eq!(arguments.explorers(), [Explorer::Shuttle]);
        let command = command(Explorer::Shuttle, "a", "b", &arguments);
        assert_eq!(variable(&command, "SCATTERHEAP_SEED"), Some("42".as_ref()));
        assert_eq!(variable(&command, "SCATTERHEAP_EACH"), Some("-".as_ref()));
    }
}
