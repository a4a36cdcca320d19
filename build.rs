//! Compiles the kernels to PTX for both baselines, to be embedded in the library.

fn main() {
    #[cfg(feature = "cuda")]
    if let Err(error) = scatterheap_ptx_builder::Builder::new(scatterheap_kernels::SOURCE_DIRECTORY)
        .build_for_build_script()
    {
        // A panic would bury the message under a backtrace note.
        eprintln!("{error}");
        std::process::exit(1);
    }
}
