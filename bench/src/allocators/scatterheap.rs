//! scatterheap, as the benchmark calls it.

use super::{grid_of_warps, resources};
use crate::allocator::{Allocator, Churn, Handle, Request, Resources};
use crate::case::Test;
use crate::error::{Error, Result};
use bench_kernels::blocks::{self, BlocksArguments};
use bench_kernels::churn::{self, ChurnArguments};
use heap_core::Heap as DeviceHeap;
use scatterheap_host::{Device, Grid, Heap};
use simt::kernel::Kernel;

/// Name in the table.
const NAME: &str = "scatterheap";

/// This project's heap.
#[derive(Debug)]
pub struct Scatterheap {
    device: Device,
    /// The heap, and as kernels take it.
    heap: Option<(Heap, DeviceHeap)>,
}

impl Scatterheap {
    /// Without a heap yet, on a device that has the kernels of scatterheap and of the benchmark.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            heap: None,
        }
    }

    fn heap(&self) -> Result<&(Heap, DeviceHeap)> {
        self.heap.as_ref().ok_or_else(|| Error::no_heap(NAME))
    }

    unsafe fn launch<K>(&self, grid: Grid, request: &Request) -> Result<()>
    where
        K: Kernel<Arguments = BlocksArguments<DeviceHeap>>,
    {
        let (heap, allocator) = self.heap()?;
        let arguments = BlocksArguments {
            allocator: *allocator,
            request: request.for_kernels(),
        };
        // SAFETY: as the caller promises; the heap outlives the launch, because what destroys it waits.
        unsafe { heap.launch::<K>(grid, &arguments)? };
        Ok(())
    }
}

impl Allocator for Scatterheap {
    fn name(&self) -> &str {
        NAME
    }

    fn can(&self, _test: Test) -> bool {
        true
    }

    fn handle(&self) -> Option<Handle> {
        let (_, handle) = self.heap.as_ref()?;
        Some(Handle::Heap(*handle))
    }

    fn resources(&self) -> Result<Option<Resources>> {
        resources::<blocks::AllocateUniform, blocks::Free>(&self.device)
    }

    fn create(&mut self, bytes: u64) -> Result<()> {
        self.heap = None;
        let heap = Heap::builder(&self.device).capacity(bytes).build()?;
        let handle = heap.handle()?;
        self.heap = Some((heap, handle));
        Ok(())
    }

    fn destroy(&mut self) {
        self.heap = None;
    }

    fn reset(&mut self) -> Result<()> {
        Ok(self.heap()?.0.reset()?)
    }

    unsafe fn allocate(&mut self, request: &Request) -> Result<()> {
        let grid = Grid::of(request.n);
        // SAFETY: as the caller promises.
        unsafe {
            match request.sizes {
                0 => self.launch::<blocks::AllocateUniform>(grid, request),
                _ => self.launch::<blocks::AllocateMixed>(grid, request),
            }
        }
    }

    unsafe fn free(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.launch::<blocks::Free>(Grid::of(request.n), request) }
    }

    unsafe fn allocate_of_warps(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.launch::<blocks::AllocateOfWarps>(grid_of_warps(request.n), request) }
    }

    unsafe fn free_of_warps(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.launch::<blocks::FreeOfWarps>(grid_of_warps(request.n), request) }
    }

    unsafe fn churn(&mut self, churn: &Churn) -> Result<()> {
        let (heap, allocator) = self.heap()?;
        let arguments = ChurnArguments {
            allocator: *allocator,
            rounds: churn.for_kernels(),
        };
        // SAFETY: as the caller promises.
        unsafe { heap.launch::<churn::Churn>(Grid::of(churn.n), &arguments)? };
        Ok(())
    }
}
