//! The class `Heap`.

use crate::errors::exception;
use crate::held::{Held, detached};
use crate::snapshot::Snapshot;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use scatterheap_capi as capi;
use scatterheap_capi::heap::{DeviceHeap, HeapHandle};
use scatterheap_host::KeptContext;

/// A heap in a device's memory. See `scatterheap.Heap`.
#[pyclass(frozen, subclass, module = "scatterheap")]
pub struct Heap {
    label: String,
    is_gpu: bool,
    /// Nothing after it was closed.
    inner: Held<DeviceHeap>,
}

impl Heap {
    /// Runs a call of the heap while other Python threads run, too, as devices may be waited for.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&scatterheap_host::Heap) -> scatterheap_host::Result<T> + Send,
    ) -> PyResult<T> {
        let outcome: capi::Result<T> = py.detach(|| {
            let _context = KeptContext::of_this_thread();
            let heap = self.inner.get()?;
            Ok(body(heap.heap())?)
        });
        outcome.map_err(|error| exception(py, &error))
    }

    /// A call of the allocator itself, by this thread, where the device's memory is the host's.
    fn on_the_host<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&HeapHandle) -> T + Send,
    ) -> PyResult<T> {
        self.with(py, |heap| heap.on_the_host(body))
    }

    fn shut(&self) {
        let _context = KeptContext::of_this_thread();
        drop(self.inner.take());
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        detached(|| self.shut());
    }
}

/// The 64-bit numbers that bytes of an array are.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers
        .iter()
        .map(|&number| u64::from_ne_bytes(number))
        .collect()
}

#[pymethods]
impl Heap {
    /// The options are words as in the C interface: `1GiB,max=16GiB`.
    #[new]
    fn new(py: Python<'_>, device: &str, options: &str) -> PyResult<Self> {
        let made = py.detach(|| DeviceHeap::new(device, options));
        let heap = made.map_err(|error: capi::Error| exception(py, &error))?;
        let device = heap.heap().device();
        Ok(Self {
            label: device.label(),
            is_gpu: device.is_gpu(),
            inner: Held::of(heap, "heap"),
        })
    }

    #[getter]
    fn device(&self) -> &str {
        &self.label
    }

    #[getter]
    fn is_gpu(&self) -> bool {
        self.is_gpu
    }

    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |heap| Ok(heap.capacity()))
    }

    #[getter]
    fn max_capacity(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |heap| Ok(heap.max_capacity()))
    }

    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |heap| Ok(heap.handle()?.metadata()))
    }

    /// Sizes and addresses are the bytes of arrays of 64-bit numbers.
    fn malloc_each<'py>(&self, py: Python<'py>, sizes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let sizes = numbers(sizes);
        let addresses = self.with(py, |heap| heap.malloc_each(&sizes))?;
        Ok(PyBytes::new(py, bytemuck::cast_slice(&addresses)))
    }

    fn free_each(&self, py: Python<'_>, addresses: &[u8]) -> PyResult<()> {
        let addresses = numbers(addresses);
        // SAFETY: who calls says that nobody uses the blocks, as with any `free`.
        self.with(py, |heap| unsafe { heap.free_each(&addresses) })
    }

    fn malloc(&self, py: Python<'_>, bytes: u64) -> PyResult<u64> {
        self.on_the_host(py, |heap| heap.malloc(bytes) as u64)
    }

    fn free(&self, py: Python<'_>, address: u64) -> PyResult<()> {
        // SAFETY: as in `free_each`.
        self.on_the_host(py, |heap| unsafe { heap.free(address as *mut u8) })
    }

    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, scatterheap_host::Heap::reset)
    }

    fn grow(&self, py: Python<'_>, bytes: u64) -> PyResult<u64> {
        self.with(py, |heap| heap.grow(bytes))
    }

    fn attend(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |heap| {
            heap.attend()?;
            Ok(heap.capacity())
        })
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        self.with(py, |heap| Ok(Snapshot::of(heap.snapshot()?)))
    }

    /// Sites, classes, blocks, bytes and examples as 64-bit numbers, and how many blocks more there are whose header
    /// was written over.
    fn leaks<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, u64)> {
        let report = self.with(py, scatterheap_host::Heap::leak_report)?;
        let rows = report.sites.iter().flat_map(|leak| {
            let class = leak.class.map_or(-1, i64::from);
            let site = u64::from(leak.site);
            [
                site,
                class.cast_unsigned(),
                leak.blocks,
                leak.bytes,
                leak.example,
            ]
        });
        let numbers: Vec<u64> = rows.collect();
        let bytes = PyBytes::new(py, bytemuck::cast_slice(&numbers));
        Ok((bytes, report.damaged))
    }

    #[getter]
    fn growth_notice(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, |heap| Ok(heap.growth_notice()))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.shut());
    }
}
