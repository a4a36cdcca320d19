//! A heap on a device.

use crate::device::{Device, Grid};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::snapshot::Snapshot;
use bytemuck::bytes_of;
use heap_core::inspect::{self, InspectError};
use heap_core::layout::{Layout, LayoutError, MIN_CAPACITY};
use heap_core::{COUNT_BYTES, Core, Heap as Handle};
use kernels::initialise::{Initialise, InitialiseArguments};
use simt::kernel::Kernel;

/// Threads that write the metadata of a heap.
const INITIALISERS: u32 = 1 << 18;
/// Capacity where none is said.
const DEFAULT_CAPACITY: u64 = 256 << 20;

/// How a heap is to be.
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct HeapBuilder<'a> {
    device: &'a Device,
    capacity: u64,
    stripes: Option<u32>,
    count_bytes: bool,
    region: Option<(u64, u64)>,
}

impl HeapBuilder<'_> {
    /// Bytes that can be allocated, rounded up to pages; 256 MiB if nothing is said. The metadata
    /// come on top: about 1 % of 16 GiB or more, 4 % of 256 MiB, 6 or 7 % of less.
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = bytes;
        self
    }

    /// How many stripes a class has at most; one for each multiprocessor if nothing is said.
    pub fn stripes(mut self, stripes: u32) -> Self {
        self.stripes = Some(stripes);
        self
    }

    /// Whether to count requests and bytes asked for, by class, so that the occupancy knows the
    /// internal fragmentation. Costs two atomics a request. Not if nothing is said.
    pub fn count_bytes(mut self, count: bool) -> Self {
        self.count_bytes = count;
        self
    }

    /// Puts the heap, metadata and all, into memory that the caller brings: pinned or managed
    /// memory, imported memory, a communication library's symmetric memory. The capacity is then
    /// what fits, whatever was said.
    ///
    /// # Safety
    ///
    /// The region must be readable and writable by the device's kernels and by the driver's
    /// copies, stay so until the heap is dropped, and be used by nobody else.
    pub unsafe fn in_region(mut self, address: u64, bytes: u64) -> Self {
        self.region = Some((address, bytes));
        self
    }

    /// Creates the heap, empty.
    ///
    /// # Errors
    ///
    /// If the capacity is out of bounds or more than the device has free, or the device fails.
    pub fn build(self) -> Result<Heap> {
        let stripes = self
            .stripes
            .unwrap_or_else(|| self.device.multiprocessors());
        let flags = if self.count_bytes { COUNT_BYTES } else { 0 };
        let (layout, metadata, pages) = match self.region {
            Some(region) => self.place_in(region, stripes)?,
            None => self.allocate(stripes)?,
        };
        let heap = Heap {
            device: self.device.clone(),
            layout,
            metadata,
            pages,
            flags,
        };
        heap.reset()?;
        Ok(heap)
    }

    fn allocate(&self, stripes: u32) -> Result<(Layout, Memory, Memory)> {
        let layout = lay_out(self.capacity, stripes)?;
        let needed = layout.metadata_bytes + page_memory(&layout);
        let too_large = |free| Error::OutOfDeviceMemory {
            capacity: self.capacity,
            needed,
            free,
        };
        let free = self.device.memory_info()?.free;
        if needed > free {
            return Err(too_large(free));
        }
        let allocate = |bytes| match self.device.allocate(bytes) {
            Err(Error::OutOfMemory { free, .. }) => Err(too_large(free)),
            other => other,
        };
        let metadata = allocate(layout.metadata_bytes)?;
        let pages = allocate(page_memory(&layout))?;
        Ok((layout, metadata, pages))
    }

    fn place_in(&self, region: (u64, u64), stripes: u32) -> Result<(Layout, Memory, Memory)> {
        let (address, bytes) = region;
        let too_small = |needed| Error::RegionTooSmall {
            address,
            bytes,
            needed,
        };
        let start = address.next_multiple_of(256);
        let room = |layout: &Layout| {
            let pages = (start + layout.metadata_bytes).next_multiple_of(layout.page_bytes());
            pages + layout.capacity - address
        };
        let least = lay_out(MIN_CAPACITY, stripes)?;
        if bytes < room(&least) {
            return Err(too_small(room(&least)));
        }
        // The largest capacity that fits, or near it: what is needed grows with it, but for where the
        // page size doubles.
        let (mut fits, mut too_much) = (MIN_CAPACITY, bytes + 1);
        while too_much - fits > 1 {
            let middle = fits + (too_much - fits) / 2;
            match Layout::new(middle, stripes) {
                Ok(layout) if room(&layout) <= bytes => fits = middle,
                _ => too_much = middle,
            }
        }
        let layout = lay_out(fits, stripes)?;
        // SAFETY: as the caller of `in_region` promises.
        let (metadata, pages) = unsafe {
            let pages = (start + layout.metadata_bytes).next_multiple_of(layout.page_bytes());
            (
                self.device.adopt(start, layout.metadata_bytes),
                self.device.adopt(pages, layout.capacity),
            )
        };
        Ok((layout, metadata, pages))
    }
}

fn lay_out(capacity: u64, stripes: u32) -> Result<Layout> {
    Layout::new(capacity, stripes).map_err(|error| match error {
        LayoutError::TooSmall => Error::CapacityTooSmall(capacity),
        LayoutError::TooLarge => Error::CapacityTooLarge(capacity),
    })
}

/// Bytes to allocate for the pages, so that they can begin at a multiple of their size.
fn page_memory(layout: &Layout) -> u64 {
    layout.capacity + layout.page_bytes()
}

/// A heap on a device, from which kernels allocate by its handle.
#[derive(Debug)]
pub struct Heap {
    device: Device,
    layout: Layout,
    metadata: Memory,
    pages: Memory,
    flags: u8,
}

impl Heap {
    /// Begins to build a heap on a device.
    pub fn builder(device: &Device) -> HeapBuilder<'_> {
        HeapBuilder {
            device,
            capacity: DEFAULT_CAPACITY,
            stripes: None,
            count_bytes: false,
            region: None,
        }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes that can be allocated.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.layout.capacity
    }

    /// Shape of the heap.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Address of the first page.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.pages
            .address()
            .next_multiple_of(self.layout.page_bytes())
    }

    /// The heap as kernels on `device` take it in their arguments.
    ///
    /// # Errors
    ///
    /// If that is not the heap's device, or the heap was lost.
    pub fn handle_on(&self, device: &Device) -> Result<Handle> {
        if !self.device.is_same(device) {
            return Err(Error::WrongDevice {
                heap: self.device.label(),
                used: device.label(),
            });
        }
        self.check()?;
        Ok(*self.core().heap())
    }

    /// The heap as kernels on its own device take it in their arguments.
    ///
    /// # Errors
    ///
    /// If the heap was lost.
    pub fn handle(&self) -> Result<Handle> {
        self.handle_on(&self.device)
    }

    fn core(&self) -> Core {
        Core::new(
            self.layout,
            self.metadata.address(),
            self.base(),
            self.flags,
        )
    }

    fn check(&self) -> Result<()> {
        if self.metadata.is_alive() {
            Ok(())
        } else {
            Err(Error::HeapLost)
        }
    }

    /// Launches a kernel on the heap's device.
    ///
    /// # Errors
    ///
    /// As for [`Device::launch`], and if the heap was lost.
    ///
    /// # Safety
    ///
    /// As for [`Device::launch`].
    pub unsafe fn launch<K: Kernel>(&self, grid: Grid, arguments: &K::Arguments) -> Result<()> {
        self.check()?;
        // SAFETY: as the caller promises.
        unsafe { self.device.launch::<K>(grid, arguments) }
    }

    /// Makes the heap empty; all blocks are gone. Waits until that is done.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn reset(&self) -> Result<()> {
        self.check()?;
        self.device.synchronize()?;
        let core = self.core();
        self.metadata.write(0, bytes_of(&core))?;
        let arguments = InitialiseArguments { heap: *core.heap() };
        // SAFETY: the head was just written for this memory, which nobody uses.
        unsafe {
            self.device
                .launch::<Initialise>(Grid::of(INITIALISERS), &arguments)?;
        }
        self.device.synchronize()
    }

    /// Makes a new, empty heap of the same shape after the device faulted; recovers the device
    /// first. A heap that was not lost is reset.
    ///
    /// # Errors
    ///
    /// If the driver does not give the device back ([`Error::NotRecoverable`]: as it is with GPUs
    /// today, only a new process helps), or a heap in the caller's region was lost.
    pub fn rebuild(&mut self) -> Result<()> {
        self.device.recover()?;
        if !self.metadata.is_alive() {
            if !self.metadata.is_owned() {
                return Err(Error::RegionLost);
            }
            let metadata = self.device.allocate(self.layout.metadata_bytes)?;
            self.pages = self.device.allocate(page_memory(&self.layout))?;
            self.metadata = metadata;
        }
        self.reset()
    }

    /// Reads back what the heap holds, after all launches.
    ///
    /// # Errors
    ///
    /// If the device fails, or the metadata make no sense.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.check()?;
        self.device.synchronize()?;
        let length = usize::try_from(self.layout.metadata_bytes).unwrap_or(usize::MAX);
        let content = inspect::Snapshot::new(self.metadata.read(0, length)?)?;
        if !content.is_of(&self.core()) {
            return Err(InspectError::Head.into());
        }
        Ok(Snapshot::new(content, &self.device))
    }
}
