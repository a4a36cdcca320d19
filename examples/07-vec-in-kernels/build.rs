//! Compiles the kernels to PTX, with `alloc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(feature = "cuda")]
    scatterheap_ptx_builder::Builder::new("kernels")
        .with_alloc()
        .build_for_build_script()?;
    Ok(())
}
