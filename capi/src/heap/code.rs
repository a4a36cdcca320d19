//! The device functions as PTX, for whoever links or loads it, with the kernels that make heaps.

use scatterheap_host::KernelSource;

/// The module, for each baseline that it was compiled for. Empty without the feature `cuda`.
#[cfg(feature = "cuda")]
pub const MODULES: &[KernelSource] = &[
    KernelSource {
        capability: (7, 5),
        ptx: include_str!(concat!(env!("OUT_DIR"), "/scatterheap-device.sm_75.ptx")),
    },
    KernelSource {
        capability: (8, 0),
        ptx: include_str!(concat!(env!("OUT_DIR"), "/scatterheap-device.sm_80.ptx")),
    },
];

/// The module, for each baseline that it was compiled for. Empty without the feature `cuda`.
#[cfg(not(feature = "cuda"))]
pub const MODULES: &[KernelSource] = &[];

/// The best module for GPUs of a compute capability, such as (9, 0), if one runs there.
#[must_use]
pub fn module(capability: (u32, u32)) -> Option<&'static str> {
    let fitting = MODULES
        .iter()
        .filter(|module| module.capability <= capability);
    let best = fitting.max_by_key(|module| module.capability)?;
    Some(best.ptx)
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;

    #[test]
    fn the_best_module_that_runs_is_chosen() {
        let baseline = |capability| {
            let text = module(capability)?;
            text.lines().find(|line| line.starts_with(".target "))
        };
        assert_eq!(baseline((7, 0)), None);
        assert_eq!(baseline((7, 5)), Some(".target sm_75"));
        assert_eq!(baseline((9, 0)), Some(".target sm_80"));
    }
}
