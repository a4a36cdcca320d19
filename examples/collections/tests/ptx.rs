//! The kernels' PTX: that nothing is missing in it, and no atomic lost its ordering and scope.
#![cfg(feature = "cuda")]

use scatterheap_collections::PTX;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Instructions of the module, without labels and predicates.
fn opcodes() -> impl Iterator<Item = &'static str> {
    let instructions = PTX.lines().flat_map(|line| line.split([';', '{', '}']));
    instructions.filter_map(|instruction| {
        let mut words = instruction.split_whitespace();
        words.find(|word| !word.starts_with('@') && !word.ends_with(':'))
    })
}

#[test]
fn everything_is_linked_in() {
    assert!(!PTX.contains(".extern"), "something is missing");
    assert!(PTX.contains(".visible .global .align 8 .b8 scatterheap_global_heap["));
    for entry in [
        "collections_exercise(",
        "collections_keep(",
        "collections_exceed(",
    ] {
        assert!(PTX.contains(&format!(".visible .entry {entry}")), "{entry}");
    }
}

/// Collections bring no atomics of `core`: these are relaxed whatever they were meant to be.
#[test]
fn every_atomic_has_ordering_and_scope() {
    let mut seen = 0;
    for opcode in opcodes() {
        let parts: Vec<&str> = opcode.split('.').collect();
        if !matches!(parts[0], "atom" | "red" | "fence" | "membar") {
            continue;
        }
        seen += 1;
        let orderings = ["relaxed", "acquire", "release", "acq_rel", "sc"];
        let ordered = parts.iter().any(|part| orderings.contains(part));
        assert!(ordered && parts.contains(&"gpu"), "{opcode}");
    }
    assert!(seen > 100, "only {seen} atomics");
}

/// NVIDIA's assembler takes what calls itself by name for the same in all lanes; sorting is recursive.
#[test]
fn recursion_goes_through_pointers() {
    let mut function = "";
    for line in PTX.lines() {
        if [".func", ".weak .func", ".visible .func", ".visible .entry"]
            .iter()
            .any(|start| line.starts_with(start))
        {
            let head = line.trim_end_matches(['(', ')']);
            function = head.rsplit(' ').next().unwrap_or_default();
        }
        let calls = line.trim_start().starts_with("call");
        assert!(
            !(calls && line.contains(&format!(" {function},"))),
            "{line}"
        );
    }
    assert!(PTX.contains("mov.b64 %itself, "), "nothing is recursive");
}

/// CUDA's assembler: the one that `cargo xtask setup` installs, else the one on the search path.
fn assembler() -> Option<PathBuf> {
    // Asked at run time, so that the test runs without its sources too.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let installed = Path::new(&package).join("../../.tools/cuda/bin");
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::iter::once(installed).chain(std::env::split_paths(&search_path));
    let programs = directories.map(|directory| directory.join("ptxas"));
    programs.into_iter().find(|program| program.is_file())
}

#[test]
fn the_oldest_and_the_newest_gpu_can_be_assembled_for() {
    let Some(assembler) = assembler() else {
        println!("skipped: ptxas: assembling collections (run `cargo xtask setup`)");
        return;
    };
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let input = scratch.path().join("collections.ptx");
    std::fs::write(&input, PTX).expect("it is writable");
    for gpu in ["sm_75", "sm_120"] {
        // As the host has it compiled: to be linked, with few registers.
        let output = Command::new(&assembler)
            .args([
                "--compile-only",
                "-O1",
                "--maxrregcount=64",
                "-arch",
                gpu,
                "-o",
            ])
            .arg(scratch.path().join(gpu))
            .arg(&input)
            .output()
            .expect("it starts");
        let report = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{gpu}: {report}");
    }
}
