//! Compiles the benchmark's kernels to PTX for both baselines.

fn main() {
    #[cfg(feature = "cuda")]
    if let Err(error) =
        scatterheap_ptx_builder::Builder::new(scatterheap_bench_kernels::SOURCE_DIRECTORY)
            // 2048, 1536 and 1024 threads on a multiprocessor, and nothing spilled.
            .limit_registers("scatterheap_bench_heap_free", 32)
            .limit_registers("scatterheap_bench_heap_allocate_mixed", 40)
            .limit_registers("scatterheap_bench_heap_allocate", 32)
            .limit_registers("scatterheap_bench_heap_churn", 64)
            .build_for_build_script()
    {
        // A panic would bury the message under a backtrace note.
        eprintln!("{error}");
        std::process::exit(1);
    }
}
