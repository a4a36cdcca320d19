//! The class `Resource`.

use crate::errors::exception;
use crate::held::{Held, detached};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use scatterheap_capi as capi;
use scatterheap_host::KeptContext;
use scatterheap_host::resource::DevicePointer;
use std::sync::Arc;

/// Hands out memory of a device, in the order of streams. See `scatterheap.Resource`.
#[pyclass(frozen, module = "scatterheap")]
pub struct Resource {
    label: String,
    is_gpu: bool,
    composition: String,
    /// Nothing after it was closed.
    inner: Held<capi::Resource>,
}

impl Resource {
    pub fn of(resource: Arc<capi::Resource>) -> Self {
        Self {
            label: resource.device().label(),
            is_gpu: resource.device().is_gpu(),
            composition: resource.composition().to_string(),
            inner: Held::of(resource, "resource"),
        }
    }

    /// Gives the memory back, unless that was done.
    fn shut(&self) -> capi::Result<()> {
        let _context = KeptContext::of_this_thread();
        let Some(resource) = self.inner.take() else {
            return Ok(());
        };
        let flushed = resource.flush();
        drop(resource);
        flushed
    }

    /// Lets other Python threads run meanwhile, as devices may be waited for.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&capi::Resource) -> capi::Result<T> + Send,
    ) -> PyResult<T> {
        let outcome = py.detach(|| {
            let _context = KeptContext::of_this_thread();
            let resource = self.inner.get()?;
            body(&resource)
        });
        outcome.map_err(|error| exception(py, &error))
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        detached(|| {
            // A trace that cannot be written has nobody to be told any more.
            let _failed = self.shut();
        });
    }
}

fn pointer(address: u64) -> capi::Result<DevicePointer> {
    DevicePointer::new(address).ok_or(capi::Error::NullPointer("the block"))
}

#[pymethods]
impl Resource {
    #[new]
    #[pyo3(signature = (device = "auto", composition = "default"))]
    fn new(py: Python<'_>, device: &str, composition: &str) -> PyResult<Self> {
        let made = py.detach(|| capi::Resource::new(device, composition));
        Ok(Self::of(made.map_err(|error| exception(py, &error))?))
    }

    /// The device, such as `cpu` or `cuda:0`.
    #[getter]
    fn device(&self) -> &str {
        &self.label
    }

    /// Whether the device is a GPU; else the memory is the host's.
    #[getter]
    fn is_gpu(&self) -> bool {
        self.is_gpu
    }

    /// What it is made of.
    #[getter]
    fn composition(&self) -> &str {
        &self.composition
    }

    /// Allocates bytes for work on a stream; the address.
    #[pyo3(signature = (bytes, alignment = 256, stream = 0))]
    fn allocate(&self, py: Python<'_>, bytes: u64, alignment: u64, stream: u64) -> PyResult<u64> {
        self.with(py, |resource| {
            // SAFETY: a caller in Python promises that the stream lives as long as the resource: the package says that it must.
            let block = unsafe { resource.allocate(bytes, alignment, stream) }?;
            Ok(block.address())
        })
    }

    /// How often it was reset. Blocks from before a reset are gone.
    #[getter]
    fn generation(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |resource| Ok(resource.generation()))
    }

    /// Takes a block back, after the work on a stream; if a generation is given, only while it lasts.
    #[pyo3(signature = (address, bytes, alignment = 256, stream = 0, *, generation = None))]
    fn deallocate(
        &self,
        py: Python<'_>,
        address: u64,
        bytes: u64,
        alignment: u64,
        stream: u64,
        generation: Option<u64>,
    ) -> PyResult<()> {
        self.with(py, |resource| {
            let block = pointer(address)?;
            match generation {
                // SAFETY: as for the other.
                Some(generation) => unsafe {
                    resource.deallocate_of(generation, block, bytes, alignment, stream)
                },
                // SAFETY: this is what a caller in Python says by it: nothing uses the block any more. The stream is as for `allocate`.
                None => unsafe { resource.deallocate(block, bytes, alignment, stream) },
            }
        })
    }

    /// Says that a block is also used on another stream, which is waited for when it is deallocated.
    fn record_stream(&self, py: Python<'_>, address: u64, stream: u64) -> PyResult<()> {
        self.with(py, |resource| {
            // SAFETY: as for `allocate`.
            unsafe { resource.record_stream(pointer(address)?, stream) }
        })
    }

    /// Gives what is kept for later back to the device; the bytes.
    fn trim(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, capi::Resource::trim)
    }

    /// Takes all blocks of an arena back at once.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: this is what a caller in Python says by it: nothing uses the blocks any more.
        self.with(py, |resource| unsafe { resource.reset() })
    }

    /// Writes out what traces have in memory.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, capi::Resource::flush)
    }

    /// What is counted, by name. What nothing in the composition counts is left out.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let figures = self.with(py, |resource| Ok(resource.figures()))?;
        let known = PyDict::new(py);
        for (name, value) in figures.known() {
            known.set_item(name, value)?;
        }
        Ok(known)
    }

    /// The places of all segments, by address: address, bytes, whether it is free, whether a segment begins there.
    fn places(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64, bool, bool)>> {
        let places = self.with(py, |resource| Ok(resource.places()))?;
        let tuple = |place: capi::Place| {
            (
                place.address,
                place.bytes,
                place.is_free != 0,
                place.begins_segment != 0,
            )
        };
        Ok(places.into_iter().map(tuple).collect())
    }

    /// Address and bytes of each block that is handed out, oldest first; None if they are not tracked.
    fn live_blocks(&self, py: Python<'_>) -> PyResult<Option<Vec<(u64, u64)>>> {
        let report = self.with(py, |resource| Ok(resource.tracked()))?;
        let blocks = report.map(|report| {
            let block = |block: scatterheap_host::resource::adaptor::Allocation| {
                (block.pointer.address(), block.bytes)
            };
            report.0.into_iter().map(block).collect()
        });
        Ok(blocks)
    }

    /// Figures, and blocks if they are tracked, as text.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |resource| Ok(resource.report()))
    }

    /// Gives all memory back to the device, and writes traces out. It is closed even if that raises an error; later calls
    /// raise one.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| self.shut());
        closed.map_err(|error| exception(py, &error))
    }

    fn __repr__(&self) -> String {
        format!(
            "Resource(device={:?}, composition={:?})",
            self.label, self.composition
        )
    }
}
