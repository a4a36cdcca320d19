//! Compiles the kernels to PTX.

#![allow(
    clippy::unnecessary_wraps,
    reason = "nothing can fail without the feature `cuda`"
)]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(feature = "cuda")]
    scatterheap_ptx_builder::Builder::new("kernels")
        .baseline(scatterheap_ptx_builder::Baseline::SM_75)
        .build_for_build_script()?;
    Ok(())
}
