//! Packs a directory with `tar` and `xz`, so that the same files make the same archive.

use std::fs;
use std::path::{Path, absolute};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{find_program, run};

/// Packs a directory under its own name. Every file gets the same time, in seconds since 1970.
pub fn write(directory: &Path, time: u64, output: &Path) -> Result<()> {
    for program in ["tar", "xz"] {
        find_program(program).with_context(|| {
            format!("the archive is packed with {program}, which is not installed")
        })?;
    }
    let output = absolute(output)?;
    let parent = output.parent().context("the archive lies in a directory")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    let base = directory.parent().context("it lies in a directory")?;
    let name = directory.file_name().context("it has a name")?;
    run(Command::new("tar")
        .args(["--create", "--format=ustar", "--sort=name"])
        .args(["--owner=0", "--group=0", "--numeric-owner"])
        .arg("--mode=u+rwX,go=rX")
        .arg(format!("--mtime=@{time}"))
        // One thread: with more, the archive depends on their number.
        .arg("--use-compress-program=xz -6 --threads=1")
        .arg("--file")
        .arg(&output)
        .arg("--directory")
        .arg(base)
        .arg(name))?;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_make_the_same_archive() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let mut archives = Vec::new();
        for name in ["one", "two"] {
            let directory = scratch.path().join(name).join("bundle");
            fs::create_dir_all(&directory).expect("create it");
            fs::write(directory.join("b"), "text").expect("write it");
            fs::write(directory.join("a"), name.len().to_string()).expect("write it");
            let output = scratch.path().join(format!("{name}.tar.xz"));
            write(&directory, 1, &output).expect("tar and xz are installed");
            archives.push(fs::read(output).expect("it was written"));
        }
        assert_eq!(archives[0], archives[1]);
        assert!(!archives[0].is_empty());
    }
}
