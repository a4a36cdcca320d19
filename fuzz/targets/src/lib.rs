//! What is fuzzed. Each target is a function of any bytes, and panics if something is wrong.
//!
//! Two callers run them: the programs of `fuzz/`, which libFuzzer feeds (`cargo xtask fuzz`), and the
//! tests of this crate, which feed them the committed corpora and random bytes.

extern crate scatterheap_bench as bench;
extern crate scatterheap_heap as heap_core;
extern crate scatterheap_host as host;
extern crate scatterheap_simt as simt;
extern crate scatterheap_trace as trace_format;

#[path = "../../../heap/tests/host_heap/mod.rs"]
#[allow(missing_docs, reason = "it belongs to the heap's tests")]
mod host_heap;
#[path = "../../../heap/tests/shadow_model/mod.rs"]
mod shadow_model;

mod memory;
pub mod operations;
mod program;
pub mod sizes;
pub mod snapshot;
pub mod tables;
pub mod threads;
pub mod trace;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which its corpus and its program have too.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 6] = [
    Target {
        name: "operations",
        run: operations::run,
    },
    Target {
        name: "threads",
        run: threads::run,
    },
    Target {
        name: "trace",
        run: trace::run,
    },
    Target {
        name: "snapshot",
        run: snapshot::run,
    },
    Target {
        name: "sizes",
        run: sizes::run,
    },
    Target {
        name: "tables",
        run: tables::run,
    },
];
