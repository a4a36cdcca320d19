//! Errors as exceptions of the package.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use scatterheap_capi::Error;

static ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static OUT_OF_MEMORY: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The exception for an error: `scatterheap.OutOfMemory`, or `scatterheap.Error` for all else.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    make(py, error.is_out_of_memory(), error.to_string())
}

/// `scatterheap.Error` with this text.
pub fn of_text(py: Python<'_>, text: &str) -> PyErr {
    make(py, false, text.to_owned())
}

fn make(py: Python<'_>, is_out_of_memory: bool, text: String) -> PyErr {
    let (place, name) = if is_out_of_memory {
        (&OUT_OF_MEMORY, "OutOfMemory")
    } else {
        (&ERROR, "Error")
    };
    match place.import(py, "scatterheap.errors", name) {
        Ok(kind) => PyErr::from_type(kind.clone(), text),
        // The module was loaded without its package.
        Err(_) => PyRuntimeError::new_err(text),
    }
}
