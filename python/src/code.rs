//! The device functions, as PTX, and what is linked with them.

use crate::errors::{exception, of_text};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use scatterheap_capi::heap::{code, device};
use scatterheap_host::KeptContext;

/// The device functions as PTX, for GPUs of this compute capability.
#[pyfunction]
pub fn device_functions(py: Python<'_>, major: u32, minor: u32) -> PyResult<&'static str> {
    code::module((major, minor)).ok_or_else(|| {
        let text = format!(
            "device functions for compute capability {major}.{minor} were asked for, but they are built for 7.5 and above: use \
             a newer GPU"
        );
        of_text(py, &text)
    })
}

/// Machine code for a GPU, linked from modules of PTX.
#[pyfunction]
pub fn link<'py>(
    py: Python<'py>,
    selector: &str,
    modules: Vec<String>,
    registers: u32,
) -> PyResult<Bound<'py, PyBytes>> {
    let linked = py.detach(move || {
        let _context = KeptContext::of_this_thread();
        let device = device(&selector.parse()?)?;
        let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
        Ok(device.link(&modules, registers)?)
    });
    match linked {
        Ok(image) => Ok(PyBytes::new(py, &image)),
        Err(error) => Err(exception(py, &error)),
    }
}
