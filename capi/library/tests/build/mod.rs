//! Builds the shared library: cargo builds for tests only what they can link as Rust.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The directory of the library, built with the features and the profile of this test.
pub fn library() -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    // TARGET/PROFILE/deps/TEST
    let profile = test.ancestors().nth(2).expect("a directory of the profile");
    let target = profile.parent().expect("a target directory");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--package", "scatterheap-library"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    if !cfg!(feature = "cuda") {
        cargo.arg("--no-default-features");
    }
    let output = cargo.output().expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let file = profile.join("libscatterheap.so");
    assert!(file.is_file(), "cargo built no {}", file.display());
    profile.to_owned()
}
