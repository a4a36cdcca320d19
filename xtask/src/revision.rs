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

/// What the command says of its sources: its build script, run elsewhere.
#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::env;
    use std::ffi::OsStr;
    use std::fs;
    use std::path::{Path, PathBuf};

    use serde_json::Value;

    use super::*;
    use crate::process::find_program;
    use crate::toolchain::cargo;

    const SCRIPT: &str = include_str!("../../build.rs");

    /// A command in a directory, about the repository there. git tells hooks by the environment which repository is theirs,
    /// and the tests may be run by one.
    fn command_in(directory: &Path, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(directory);
        for (name, _) in env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"GIT_") && name != "GIT_EXEC_PATH" {
                command.env_remove(name);
            }
        }
        command
    }

    /// The commit that the script notes in a directory.
    fn noted(script: &Path, directory: &Path) -> Option<String> {
        let said = run(&mut command_in(directory, script)).expect("it succeeds");
        let mut lines = said.lines();
        lines.find_map(|line| Some(line.split_once("SCATTERHEAP_COMMIT=")?.1.to_owned()))
    }

    #[test]
    fn changed_sources_are_told_from_the_commit_and_from_each_other() {
        if find_program("git").is_none() {
            println!("skipped: the commit that the command is built of (no git found)");
            return;
        }
        let scratch = tempfile::tempdir().expect("a directory");
        let script = scratch.path().join("script");
        let source = workspace().join("build.rs");
        let mut compiler = Command::new("rustc");
        compiler.args(["--edition", "2024", "-o"]).arg(&script);
        run(compiler.arg(source)).expect("it compiles");
        let clone = scratch.path().join("clone");
        fs::create_dir_all(clone.join("src")).expect("created");
        let write = |file: &str, content| fs::write(clone.join(file), content).expect("written");
        let git = |arguments: &[&str]| {
            let mut git = command_in(&clone, "git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
            run(git.args(arguments)).expect("git succeeds")
        };
        write("src/lib.rs", "one");
        write("README.md", "one");
        assert_eq!(noted(&script, &clone), None, "it was not cloned");

        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "First"]);
        let commit = git(&["rev-parse", "--short=10", "HEAD"]).trim().to_owned();
        assert_eq!(noted(&script, &clone), Some(commit.clone()));
        assert_eq!(noted(&script, &clone.join("src")), None, "another's clone");
        write("README.md", "nothing is built of it");
        assert_eq!(noted(&script, &clone), Some(commit.clone()));

        let changed = |content| {
            write("src/lib.rs", content);
            noted(&script, &clone).expect("a commit")
        };
        let two = changed("two");
        assert!(two.starts_with(&format!("{commit}-dirty-")), "{two}");
        assert_ne!(changed("three"), two);
        assert_eq!(changed("two"), two);
        assert_eq!(changed("one"), commit);
    }

    #[test]
    fn the_packages_of_the_command_are_known_to_its_build_script() {
        let said = run(cargo().args(["metadata", "--no-deps", "--format-version", "1"]));
        let metadata: Value = serde_json::from_str(&said.expect("cargo tells")).expect("JSON");
        let packages = metadata["packages"].as_array().expect("packages");
        let mut found = BTreeSet::new();
        let mut left = vec![workspace().to_owned()];
        while let Some(directory) = left.pop() {
            let is_this = |package: &&Value| {
                package["manifest_path"].as_str() == directory.join("Cargo.toml").to_str()
            };
            let package = packages.iter().find(is_this).expect("a package");
            let needed = package["dependencies"].as_array().expect("a list");
            let needed = needed.iter().filter(|needed| needed["kind"] != "dev");
            left.extend(needed.filter_map(|needed| needed["path"].as_str().map(PathBuf::from)));
            let place = directory.strip_prefix(workspace()).expect("it is in here");
            // With a slash at its end, but for the root.
            let place = place.iter().map(|part| part.to_string_lossy() + "/");
            found.insert(place.collect::<String>());
        }
        for place in found {
            assert!(SCRIPT.contains(&format!("    \"{place}\",\n")), "{place}");
        }
    }
}
