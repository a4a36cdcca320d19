//! The kernels that come with the library, compiled to PTX when it was built.

use scatterheap_host::{Device, KernelSource, Result, Selector};

/// The kernels, for each baseline that they were compiled for; [`Device::open`] takes the best one
/// for the GPU. Empty without the feature `cuda`.
#[cfg(feature = "cuda")]
pub const KERNELS: &[KernelSource] = &[
    KernelSource {
        capability: (7, 5),
        ptx: include_str!(concat!(env!("OUT_DIR"), "/scatterheap-kernels.sm_75.ptx")),
    },
    KernelSource {
        capability: (8, 0),
        ptx: include_str!(concat!(env!("OUT_DIR"), "/scatterheap-kernels.sm_80.ptx")),
    },
];

/// The kernels, for each baseline that they were compiled for. Empty without the feature `cuda`.
#[cfg(not(feature = "cuda"))]
pub const KERNELS: &[KernelSource] = &[];

/// Opens the device that a selector means, with the embedded kernels loaded.
///
/// # Errors
///
/// If a GPU is asked for and there is no driver, no such device, or the driver refuses the kernels.
pub fn open(selector: &Selector) -> Result<Device> {
    Device::open(selector, KERNELS)
}
