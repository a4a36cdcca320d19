//! Programs in C and C++ that are built against the header and linked with the library, on the CPU and on the first GPU
//! if there is one.

mod build;

use build::library;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const HEADER: &str = include_str!("../../include/scatterheap.h");
const SOURCES: [&str; 3] = [
    include_str!("../../src/interface.rs"),
    include_str!("../../src/heap/interface.rs"),
    include_str!("../../src/torch.rs"),
];

const DEVICE_HEADER: &str = include_str!("../../include/scatterheap/device.cuh");
const DEVICE_FUNCTIONS: &str = include_str!("../../../device/src/lib.rs");

/// Builds a program; none if there is no such compiler.
fn compile(compiler: &str, source: &str, flags: &[&str], directory: &TempDir) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = directory.path().join(format!("{compiler}-{source}"));
    let output = Command::new(compiler)
        .args(flags)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(root.join("../include"))
        .arg(root.join("tests/programs").join(source))
        .arg("-L")
        .arg(library())
        .args(["-lscatterheap", "-o"])
        .arg(&program)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {source} with the C interface ({compiler}: {error})");
            return None;
        }
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source}: {errors}");
    Some(program)
}

/// Runs a program on every kind of device that there is.
fn run(program: &Path) {
    let gpus = scatterheap_host::Device::gpu_count();
    let devices: &[&str] = if gpus > 0 {
        &["cpu", "cuda:0"]
    } else {
        &["cpu"]
    };
    if gpus == 0 {
        println!("skipped: the C interface on a GPU (no GPU found)");
    }
    for device in devices {
        let output = Command::new(program)
            .arg(device)
            .env("LD_LIBRARY_PATH", library())
            .env_remove("SCATTERHEAP_DEVICE")
            .output()
            .expect("it starts");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{} on {device}: {}: {printed}",
            program.display(),
            output.status
        );
        assert!(!printed.is_empty());
    }
}

#[test]
fn the_interface_does_what_the_header_says() {
    let directory = TempDir::new().expect("a directory");
    // Its extension makes it C for one compiler and the flag C++ for the other.
    for (compiler, flags) in [
        ("cc", &["-std=gnu11"][..]),
        ("c++", &["-std=gnu++17", "-x", "c++"]),
    ] {
        if let Some(program) = compile(compiler, "interface.c", flags, &directory) {
            run(&program);
        }
    }
}

#[test]
fn failures_are_exceptions_for_those_who_ask() {
    let directory = TempDir::new().expect("a directory");
    if let Some(program) = compile("c++", "exceptions.cpp", &["-std=gnu++17"], &directory) {
        run(&program);
    }
}

#[test]
fn blocks_are_given_back_where_threads_and_the_program_end() {
    let directory = TempDir::new().expect("a directory");
    let flags = ["-std=gnu++17", "-pthread"];
    if let Some(program) = compile("c++", "endings.cpp", &flags, &directory) {
        run(&program);
    }
}

#[test]
fn a_heap_is_an_object_for_those_who_ask() {
    let directory = TempDir::new().expect("a directory");
    if let Some(program) = compile("c++", "heap.cpp", &["-std=gnu++17"], &directory) {
        run(&program);
    }
}

#[test]
fn a_bound_heap_leaves_another_one_bound() {
    let directory = TempDir::new().expect("a directory");
    if let Some(program) = compile("c++", "bound.cpp", &["-std=gnu++17"], &directory) {
        run(&program);
    }
}

/// Names that begin like those of the interface, each up to its bracket, in text after `before`.
fn functions<'a>(text: &'a str, before: &str) -> BTreeSet<&'a str> {
    text.match_indices(before)
        .filter_map(|(place, _)| {
            let name = text[place + before.len()..].split('(').next()?;
            let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            (name.starts_with("scatterheap_") && name.chars().all(is_name)).then_some(name)
        })
        .collect()
}

/// The functions that a header declares.
fn declared(header: &str) -> BTreeSet<&str> {
    let declarations = header
        .lines()
        .filter(|line| line.ends_with(");") && !line.starts_with([' ', '*']));
    let both = declarations.flat_map(|line| [functions(line, " "), functions(line, " *")]);
    both.flatten().collect()
}

#[test]
fn the_header_declares_what_is_exported() {
    let mut exported = BTreeSet::new();
    for source in SOURCES {
        exported.extend(functions(source, "extern \"C\" fn "));
        exported.extend(functions(source, "extern \"C-unwind\" fn "));
    }
    assert_eq!(exported, declared(HEADER));
    assert!(exported.len() > 25, "{exported:?}");
}

#[test]
fn the_header_for_kernels_declares_what_the_module_has() {
    let mut module = functions(DEVICE_FUNCTIONS, "extern \"C\" fn ");
    // These are made into a header.
    module.retain(|name| !name.starts_with("scatterheap_inline_"));
    let mut declared = declared(DEVICE_HEADER);
    assert!(declared.remove("scatterheap_bind"), "{declared:?}");
    assert_eq!(module, declared);
    assert!(module.len() > 6, "{module:?}");
}
