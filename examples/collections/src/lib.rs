//! What the numbered examples share whose kernels use Rust's collections.

pub use scatterheap_collections_kernels as kernels;

use scatterheap::{Device, Result, Selector};

/// The kernels, compiled to PTX. Empty without the feature `cuda`.
#[cfg(feature = "cuda")]
pub const PTX: &str = include_str!(concat!(
    env!("OUT_DIR"),
    "/scatterheap-collections-kernels.sm_75.ptx"
));
/// The kernels, compiled to PTX. Empty without the feature `cuda`.
#[cfg(not(feature = "cuda"))]
pub const PTX: &str = "";

/// Opens a device, with the kernels loaded.
///
/// # Errors
///
/// If there is no such device, or it refuses the kernels.
pub fn open(selector: &Selector) -> Result<Device> {
    let device = scatterheap::open(selector)?;
    device.load_module(PTX)?;
    Ok(device)
}
