//! `rustfmt` and Clippy: finds them beside the active cargo, or installs them.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{find_program, run, succeeds};
use crate::setup::{install_packages, is_debian};
use crate::toolchain::cargo;

/// A cargo command that checks sources and does not come with every toolchain.
#[derive(Clone, Copy, Debug)]
pub enum Checker {
    /// `cargo fmt`
    Format,
    /// `cargo clippy`
    Clippy,
}

impl Checker {
    /// The cargo command.
    fn command(self) -> &'static str {
        match self {
            Self::Format => "fmt",
            Self::Clippy => "clippy",
        }
    }

    /// What rustup calls it.
    fn component(self) -> &'static str {
        match self {
            Self::Format => "rustfmt",
            Self::Clippy => "clippy",
        }
    }

    /// What Debian and Ubuntu call it, beside `cargo-web`.
    fn package(self) -> &'static str {
        match self {
            Self::Format => "rustfmt-web",
            Self::Clippy => "rust-web-clippy",
        }
    }

    /// Makes sure that it runs.
    ///
    /// # Errors
    /// It is not installed, and cannot be.
    pub fn install(self) -> Result<()> {
        if self.runs() {
            return Ok(());
        }
        if find_program("rustup").is_some() {
            println!("running rustup component add {}", self.component());
            run(Command::new("rustup").args(["component", "add", self.component()]))?;
        } else if is_debian() {
            install_packages(&[self.package()])?;
        }
        if self.runs() {
            return Ok(());
        }
        bail!("`cargo {}` is not installed", self.command())
    }

    fn runs(self) -> bool {
        succeeds(cargo().args([self.command(), "--version"]))
    }
}
