//! scatterheap, as the benchmark calls it.

use super::{grid_of_warps, resources};
use crate::allocator::{Allocator, Churn, Handle, Request, Resources};
use crate::case::Test;
use crate::error::{Error, Result};
use bench_kernels::blocks::{self, BlocksArguments};
use bench_kernels::churn::{self, ChurnArguments};
use heap_core::{Heap as DeviceHeap, class};
use scatterheap_host::{Device, Grid, Hardening, Heap};
use simt::kernel::Kernel;

/// Name in the table.
const NAME: &str = "scatterheap";

/// This project's heap.
#[derive(Debug)]
pub struct Scatterheap {
    device: Device,
    name: String,
    /// Stripes of a class at most, if they were chosen.
    stripes: Option<u32>,
    hardening: Hardening,
    /// The heap, and as kernels take it.
    heap: Option<(Heap, DeviceHeap)>,
}

/// The name of a heap with these modes: `scatterheap`, `scatterheap+red-zones+poison`, or `scatterheap+all`.
#[must_use]
pub fn name_of_hardened(modes: Hardening) -> String {
    if modes == Hardening::NONE {
        return NAME.into();
    }
    if modes == Hardening::all() {
        return format!("{NAME}+all");
    }
    format!("{NAME}+{}", modes.to_string().replace(',', "+"))
}

impl Scatterheap {
    /// Without a heap yet, on a device that has the kernels of scatterheap and of the benchmark.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            name: NAME.into(),
            stripes: None,
            hardening: Hardening::NONE,
            heap: None,
        }
    }

    /// How many stripes a class of its heaps has at most; none: what it takes by itself.
    #[must_use]
    pub fn stripes(mut self, stripes: Option<u32>) -> Self {
        self.stripes = stripes;
        self
    }

    /// With hardened modes, which are a part of the name then.
    #[must_use]
    pub fn hardened(mut self, modes: Hardening) -> Self {
        self.name = name_of_hardened(modes);
        self.hardening = modes;
        self
    }

    fn heap(&self) -> Result<&(Heap, DeviceHeap)> {
        self.heap.as_ref().ok_or_else(|| Error::no_heap(&self.name))
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

// SAFETY: its kernels store what the heap's `malloc` gives them, and are launched on the default stream; the handle is that
// of the heap that it has, which waits for launches before it is gone.
unsafe impl Allocator for Scatterheap {
    fn name(&self) -> &str {
        &self.name
    }

    fn device(&self) -> Option<&Device> {
        Some(&self.device)
    }

    fn can(&self, _test: Test) -> bool {
        true
    }

    fn handle(&self) -> Option<Handle> {
        let (_, handle) = self.heap.as_ref()?;
        Some(Handle::Heap(*handle))
    }

    fn rounded(&self, bytes: u64) -> Option<u64> {
        // The host's: the handle's is in the device's memory.
        let (heap, _) = self.heap.as_ref()?;
        let layout = heap.layout();
        let bytes = bytes + self.hardening.overhead();
        // Larger requests get whole pages.
        let rounded = match u32::try_from(bytes) {
            Ok(bytes) if bytes > 0 && bytes <= layout.largest_slot => {
                class::slot_bytes(class::class_of(bytes)).into()
            }
            _ => bytes.next_multiple_of(layout.page_bytes()),
        };
        Some(rounded)
    }

    fn resources(&self) -> Result<Option<Resources>> {
        resources::<blocks::AllocateUniform, blocks::Free>(&self.device)
    }

    fn create(&mut self, bytes: u64) -> Result<()> {
        self.heap = None;
        let mut builder = Heap::builder(&self.device)
            .capacity(bytes)
            .harden(self.hardening);
        if let Some(stripes) = self.stripes {
            builder = builder.stripes(stripes);
        }
        let heap = builder.build()?;
        let handle = heap.handle()?;
        self.heap = Some((heap, handle));
        Ok(())
    }

    fn destroy(&mut self) {
        self.heap = None;
    }

    fn reset(&mut self) -> Result<()> {
        let Some((heap, handle)) = &mut self.heap else {
            return Ok(());
        };
        heap.reset()?;
        // The one from before is stale.
        *handle = heap.handle()?;
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_block_takes_is_its_slot_or_whole_pages() {
        let mut allocator = Scatterheap::new(&Device::cpu()).stripes(Some(1));
        assert_eq!(allocator.rounded(16), None);
        allocator.create(16 << 20).expect("there is room");
        let page = allocator
            .heap()
            .expect("there is one")
            .1
            .layout()
            .page_bytes();
        let sizes = [(1, 16), (16, 16), (17, 32), (257, 288), (4096, 4096)];
        let large = (10 * page + 1, 11 * page);
        for (bytes, expected) in sizes.into_iter().chain([large]) {
            assert_eq!(allocator.rounded(bytes), Some(expected), "{bytes}");
        }
    }
}
