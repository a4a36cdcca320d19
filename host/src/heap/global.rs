//! The heap that the collections of a device's kernels allocate from.

use super::Heap;
use crate::device::{Global, Grid};
use crate::error::Result;
use crate::virtual_memory::HostMemory;
use alloc_core::Failures;
use simt::kernel::Kernel;

/// A heap that is its device's global heap, until this is dropped.
#[derive(Debug)]
#[must_use = "the heap is global only until this is dropped"]
pub struct GlobalHeap<'a> {
    heap: &'a Heap,
    global: Global,
    /// Where kernels note what they had to have and could not get: a trap takes what is on the device.
    _failures: HostMemory,
}

impl Heap {
    /// Makes this the heap that `Vec`, `Box` and all else of Rust's `alloc` in kernels allocate from, on this heap's
    /// device: in modules with the line `scatterheap_alloc::global_heap!()` that were or will be loaded,
    /// and in kernels on the CPU of a program with that line. Waits for launches before. A [`reset`](Self::reset)
    /// keeps it global.
    ///
    /// # Errors
    ///
    /// If another heap is global there, or the heap was lost, or the device fails.
    pub fn make_global(&self) -> Result<GlobalHeap<'_>> {
        let failures = self.device.allocate_host(size_of::<Failures>() as u64)?;
        let global = Global::new(self.handle()?, &failures);
        self.device.bind_global(global)?;
        Ok(GlobalHeap {
            heap: self,
            global,
            _failures: failures,
        })
    }
}

impl GlobalHeap<'_> {
    /// The heap.
    #[must_use]
    pub fn heap(&self) -> &Heap {
        self.heap
    }

    /// Launches a kernel, as [`Heap::launch`] does.
    ///
    /// # Errors
    ///
    /// As for [`Heap::launch`].
    ///
    /// # Safety
    ///
    /// As for [`Heap::launch`].
    pub unsafe fn launch<K: Kernel>(&self, grid: Grid, arguments: &K::Arguments) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.heap.launch::<K>(grid, arguments) }
    }
}

impl Drop for GlobalHeap<'_> {
    fn drop(&mut self) {
        self.heap.device.unbind_global(self.global);
    }
}
