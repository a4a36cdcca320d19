//! The kernels' PTX: that nothing is missing in it, and no atomic lost its ordering and scope.
#![cfg(feature = "cuda")]

use scatterheap_collections::PTX;

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
