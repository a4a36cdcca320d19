//! Compiles the kernels to PTX for both baselines, to be embedded in the library.

fn main() {
    #[cfg(feature = "cuda")]
    if let Err(error) = scatterheap_ptx_builder::Builder::new(scatterheap_kernels::SOURCE_DIRECTORY)
        // 2048 and 1536 threads on a multiprocessor, and nothing spilled.
        .limit_registers("scatterheap_bench_free", 32)
        .limit_registers("scatterheap_bench_", 40)
        .build_for_build_script()
    {
        // A panic would bury the message under a backtrace note.
        eprintln!("{error}");
        std::process::exit(1);
    }
}
