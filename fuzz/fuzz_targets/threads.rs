//! See `targets/src/threads.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| scatterheap_fuzz_targets::threads::run(bytes));
