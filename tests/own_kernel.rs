//! The example of a program with kernels of its own builds and runs, as a user would build it.

use scatterheap_ptx_builder::{Baseline, Builder, find_compiler};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The example's directory and its own target directory.
fn directories() -> (PathBuf, PathBuf) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/03-own-kernel");
    // Kept between runs, so that only the first one takes long.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-kernel");
    (example, target)
}

/// Cargo in the example's directory. None where there is no cargo or no source: test executables
/// are also run on machines that have neither.
fn cargo(arguments: &[&str]) -> Option<Command> {
    let (example, target) = directories();
    if !example.is_dir() || !Path::new(env!("CARGO")).is_file() {
        return None;
    }
    let mut command = Command::new(env!("CARGO"));
    command
        .args(arguments)
        .current_dir(example)
        .env("CARGO_TARGET_DIR", target)
        // Takes half as long.
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    // Meant for the tests, not for the example.
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(variable);
    }
    Some(command)
}

/// Runs the example, if that can be done here, and checks what it prints.
fn runs(arguments: &[&str]) {
    let Some(mut command) = cargo(arguments) else {
        println!("skipped: building examples/03-own-kernel (no cargo or no source here)");
        return;
    };
    let output = command.output().expect("cargo starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let words = "20000 threads allocated 65524 nodes";
    assert!(printed.contains(words), "{printed}");
    assert!(printed.contains("the heap is empty again"), "{printed}");
}

#[test]
fn it_runs_on_the_cpu() {
    runs(&["run", "--no-default-features"]);
}

#[test]
#[ignore = "compiles the embedded kernels once more, which takes a minute"]
fn it_runs_as_a_user_runs_it() {
    runs(&["run"]);
    if scatterheap::Device::gpu_count() > 0 {
        runs(&["run", "--", "cuda:0"]);
    } else {
        println!("skipped: examples/03-own-kernel on a GPU (no NVIDIA driver found)");
    }
}

#[test]
fn its_kernels_compile_to_ptx() {
    let (example, target) = directories();
    if !example.is_dir() {
        println!("skipped: compiling the kernels of examples/03-own-kernel (no source here)");
        return;
    }
    if let Err(error) = find_compiler() {
        println!("skipped: compiling the kernels of examples/03-own-kernel ({error})");
        return;
    }
    let modules = Builder::new(example.join("kernels"))
        .baseline(Baseline::SM_75)
        .output_directory(target.join("kernels"))
        .build()
        .expect("the kernels compile");
    let text = modules[0].read().expect("the module is there");
    for entry in [".entry own_factor(", ".entry own_multiply("] {
        assert!(text.contains(entry), "no {entry} in {text}");
    }
    assert!(!text.contains(".extern"), "everything is linked in: {text}");
}
