//! Compiles the kernels to PTX, with `alloc`.

fn main() {
    #[cfg(feature = "cuda")]
    if let Err(error) =
        scatterheap_ptx_builder::Builder::new(scatterheap_collections_kernels::SOURCE_DIRECTORY)
            .baseline(scatterheap_ptx_builder::Baseline::SM_75)
            .with_alloc()
            .build_for_build_script()
    {
        // A panic would bury the message under a backtrace note.
        eprintln!("{error}");
        std::process::exit(1);
    }
}
