//! Which commit the sources are of.

use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{run, succeeds};
use crate::toolchain::workspace;

/// Which sources these are.
#[derive(Debug)]
pub struct Revision {
    /// The commit, with `-dirty` after it if the sources were changed since.
    pub commit: String,
    /// Its time, in seconds since 1970.
    pub time: u64,
}

impl Revision {
    /// Asks git. Sources that were not cloned have no revision.
    pub fn find() -> Result<Self> {
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command.args(arguments).current_dir(workspace());
            command
        };
        if !succeeds(&mut git(&["rev-parse", "HEAD"])) {
            return Ok(Self {
                commit: "unknown".into(),
                time: 0,
            });
        }
        let commit = run(&mut git(&["rev-parse", "HEAD"]))?;
        let changes = run(&mut git(&["status", "--porcelain"]))?;
        let suffix = if changes.is_empty() { "" } else { "-dirty" };
        let time = run(&mut git(&["log", "-1", "--format=%ct"]))?;
        Ok(Self {
            commit: format!("{}{suffix}", commit.trim()),
            time: time.trim().parse().context("git says when it was")?,
        })
    }
}
