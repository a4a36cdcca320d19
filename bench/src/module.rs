//! The benchmark's kernels, compiled to PTX when it was built.

use crate::error::{Error, Result};
use scatterheap_host::{Device, KernelSource};

/// The kernels, for each baseline that they were compiled for. Empty without the feature `cuda`.
#[cfg(feature = "cuda")]
pub const KERNELS: &[KernelSource] = &[
    KernelSource {
        capability: (7, 5),
        ptx: include_str!(concat!(
            env!("OUT_DIR"),
            "/scatterheap-bench-kernels.sm_75.ptx"
        )),
    },
    KernelSource {
        capability: (8, 0),
        ptx: include_str!(concat!(
            env!("OUT_DIR"),
            "/scatterheap-bench-kernels.sm_80.ptx"
        )),
    },
];

/// The kernels, for each baseline that they were compiled for. Empty without the feature `cuda`.
#[cfg(not(feature = "cuda"))]
pub const KERNELS: &[KernelSource] = &[];

/// Bytes of the heap of CUDA's `malloc`, which the driver sets up once, when the kernels are loaded.
pub const NATIVE_HEAP_BYTES: u64 = 1 << 30;

/// Loads the kernels into a device that has scatterheap's. Once for each device; nothing to do on the CPU.
///
/// # Errors
///
/// If there are none for the device, or the driver refuses them.
pub fn load(device: &Device) -> Result<()> {
    let Some(capability) = device.compute_capability() else {
        return Ok(());
    };
    let source = KERNELS
        .iter()
        .filter(|source| source.capability <= capability)
        .max_by_key(|source| source.capability)
        .ok_or_else(|| Error::NoKernels(device.to_string()))?;
    device.set_malloc_heap(NATIVE_HEAP_BYTES)?;
    Ok(device.load_module(source.ptx)?)
}
