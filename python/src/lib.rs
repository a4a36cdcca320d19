//! `scatterheap._native`: heaps and memory resources as Python objects. It also exports the C interface, whose functions
//! `scatterheap.torch` hands to `PyTorch`, so that both use the same default resources.

#![allow(
    missing_docs,
    reason = "what Python sees is documented; the macros make more"
)]

mod code;
mod errors;
mod heap;
mod held;
mod picture;
mod resource;
mod snapshot;

use pyo3::prelude::*;

/// Heaps and memory resources of scatterheap. Use the package `scatterheap` instead.
#[pymodule]
mod _native {
    use pyo3::prelude::*;
    use std::os::raw::c_int;

    #[pymodule_export]
    use crate::code::{device_functions, link};
    #[pymodule_export]
    use crate::heap::Heap;
    #[pymodule_export]
    use crate::resource::Resource;
    #[pymodule_export]
    use crate::snapshot::Snapshot;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    /// How many GPUs there are.
    #[pyfunction]
    fn gpu_count() -> u32 {
        scatterheap_host::Device::gpu_count()
    }

    /// The resource that `scatterheap.torch.use()` lets `PyTorch` use for this GPU.
    #[pyfunction]
    #[pyo3(signature = (device = 0))]
    fn default_resource(py: Python<'_>, device: c_int) -> PyResult<Resource> {
        let found = py.detach(|| scatterheap_capi::torch::default_resource(device));
        Ok(Resource::of(
            found.map_err(|error| crate::errors::exception(py, &error))?,
        ))
    }

    /// A composition for one of several devices, so that each writes its own traces.
    #[pyfunction]
    fn composition_of_device(py: Python<'_>, composition: &str, number: u32) -> PyResult<String> {
        let composition = composition.parse::<scatterheap_capi::Composition>();
        let composition = composition.map_err(|error| crate::errors::exception(py, &error))?;
        Ok(composition.of_device(number).to_string())
    }

    /// Says what default resources are made of that are created from now on.
    #[pyfunction]
    fn configure_default(py: Python<'_>, composition: &str) -> PyResult<()> {
        // Another thread may be creating a default resource, which is waited for.
        let configured = py.detach(|| scatterheap_capi::torch::configure(composition));
        configured.map_err(|error| crate::errors::exception(py, &error))
    }
}
