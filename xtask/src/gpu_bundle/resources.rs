//! The parts of the bundle for memory resources: the Python package with its tests and example, the C interface, and
//! the comparison with other allocators.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::contents::copy;
use crate::process::{run, show};
use crate::python;
use crate::toolchain::{cargo, workspace};

/// Makes a virtual environment with the wheel on the GPU server.
const INSTALLER: &str = include_str!("fresh-environment.py");

/// Numba as the GPU server's Python unpacks it.
const NUMBA: &str = "numba-cp312.tar.xz";

/// Sources by the directory that they come from, that which they go to, and the ends of their names.
const SOURCES: [(&str, &str, &[&str]); 6] = [
    ("python/tests", "python/tests", &["py"]),
    ("python/examples", "python/examples", &["py"]),
    ("capi/include", "capi/include", &["h"]),
    (
        "capi/library/tests/programs",
        "capi/programs",
        &["c", "cpp"],
    ),
    ("benches/resources", "comparison", &["cpp", "hpp", "py"]),
    (
        "benches/resources/peers",
        "comparison/peers",
        &["cpp", "hpp"],
    ),
];

/// Builds and copies everything into the directory of the bundle.
pub fn gather(directory: &Path) -> Result<()> {
    python::install_maturin()?;
    python::build_wheel("release", &directory.join("python"))?;
    fs::write(directory.join("python/fresh-environment.py"), INSTALLER)?;
    copy(&library()?, &directory.join("capi/libscatterheap.so"))?;
    run(Command::new("strip")
        .arg("--strip-unneeded")
        .arg(directory.join("capi/libscatterheap.so")))?;
    for (from, to, endings) in SOURCES {
        copy_sources(&workspace().join(from), &directory.join(to), endings)?;
    }
    fetch_rmm(&directory.join("comparison/wheels"));
    add_numba(&directory.join("python").join(NUMBA));
    Ok(())
}

/// Builds the shared library; its file.
fn library() -> Result<PathBuf> {
    show(cargo().args(["build", "--release", "--package", "scatterheap-library"]))?;
    let metadata = run(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let target = metadata["target_directory"]
        .as_str()
        .context("cargo names its target directory")?;
    Ok(Path::new(target).join("release/libscatterheap.so"))
}

pub fn copy_sources(from: &Path, to: &Path, endings: &[&str]) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    for entry in entries {
        let file = entry?.path();
        let ending = file.extension().and_then(OsStr::to_str);
        if ending.is_some_and(|ending| endings.contains(&ending)) {
            copy(
                &file,
                &to.join(file.file_name().context("a file has a name")?),
            )?;
        }
    }
    Ok(())
}

/// Adds Numba, for the tests of its kernels, which go on without it. To download and pack it takes minutes, so what the script
/// made is kept for as long as the script is the same.
fn add_numba(target: &Path) {
    let add = || {
        let script = workspace().join("python/fetch-numba.sh");
        let mut hasher = DefaultHasher::new();
        fs::read(&script)?.hash(&mut hasher);
        let name = format!("numba-{:016x}.tar.xz", hasher.finish());
        let kept = workspace().join(".tools").join(name);
        if !kept.is_file() {
            println!("packing Numba, which takes minutes the first time");
            run(Command::new("bash").arg(&script).arg(&kept))?;
        }
        copy(&kept, target)
    };
    if let Err(error) = add() {
        println!("left out: Numba, which cannot be downloaded ({error:#})");
    }
}

/// Downloads RMM, which is not ours to keep. The comparison goes on without it.
fn fetch_rmm(directory: &Path) {
    let script = workspace().join("benches/resources/fetch-rmm.sh");
    let fetched = run(Command::new("bash").arg(script).arg(directory));
    if let Err(error) = fetched {
        println!("left out: RMM, which cannot be downloaded ({error:#})");
    }
}
