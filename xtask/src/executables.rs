//! What cargo builds, and where it puts it.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process::line_of;
use crate::toolchain::{cargo, workspace};

/// A program that cargo built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// Directory of its package, relative to the workspace; empty for the root package.
    pub package: PathBuf,
    /// Name of the target.
    pub name: String,
    /// What the target is: `bin`, `test`, `bench`, `example` or `lib`.
    pub kind: String,
    /// Whether it runs tests: those of the kind `test`, and the unit tests of other kinds.
    pub is_test: bool,
    /// The file.
    pub file: PathBuf,
}

/// Runs a cargo command that builds, and returns the programs that it built.
pub fn build(arguments: &[&str]) -> Result<Vec<Executable>> {
    build_by(cargo().args(arguments))
}

/// Runs a prepared cargo command that builds, and returns the programs that it built.
pub fn build_by(command: &mut Command) -> Result<Vec<Executable>> {
    let output = command
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "`{}` failed ({}); see what it printed above",
        line_of(command),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| executable(&serde_json::from_str(line).ok()?, workspace()))
        .collect())
}

/// The program of this name and kind.
pub fn find<'a>(executables: &'a [Executable], name: &str, kind: &str) -> Result<&'a Path> {
    executables
        .iter()
        .find(|program| program.name == name && program.kind == kind && !program.is_test)
        .map(|program| program.file.as_path())
        .with_context(|| format!("cargo built no {kind} `{name}`"))
}

/// Reads one message of cargo.
fn executable(message: &Value, root: &Path) -> Option<Executable> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let manifest = PathBuf::from(text(&message["manifest_path"])?);
    Some(Executable {
        package: manifest.parent()?.strip_prefix(root).ok()?.to_owned(),
        name: text(&message["target"]["name"])?,
        kind: text(&message["target"]["kind"][0])?,
        is_test: message["profile"]["test"].as_bool()?,
        file: PathBuf::from(OsStr::new(message["executable"].as_str()?)),
    })
}

/// Tells programs apart by their content, from run to run: what was done with one is not done with another.
pub fn fingerprint(program: &Path) -> Result<u64> {
    let content =
        fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&content);
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_are_read_from_messages_and_all_else_is_passed_over() {
        let root = Path::new("/source");
        let message = json!({
            "reason": "compiler-artifact",
            "manifest_path": "/source/host/Cargo.toml",
            "target": {"kind": ["test"], "name": "devices"},
            "profile": {"test": true},
            "executable": "/source/target/release/deps/devices-1",
        });
        let expected = Executable {
            package: "host".into(),
            name: "devices".into(),
            kind: "test".into(),
            is_test: true,
            file: "/source/target/release/deps/devices-1".into(),
        };
        assert_eq!(executable(&message, root), Some(expected.clone()));
        assert!(
            find(&[expected], "devices", "test").is_err(),
            "it is a test"
        );

        let mut library = message.clone();
        library["executable"] = Value::Null;
        assert_eq!(executable(&library, root), None);
        let elsewhere = Path::new("/elsewhere");
        assert_eq!(executable(&message, elsewhere), None);
        assert_eq!(executable(&json!({"reason": "build-finished"}), root), None);
    }
}
