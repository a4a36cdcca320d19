//! A heap on a device.

use crate::device::{Device, Grid};
use crate::error::{Error, Result};
use crate::growth::{Growing, Growth, Plan};
use crate::hardening;
use crate::memory::Memory;
use crate::snapshot::Snapshot;
use bytemuck::bytes_of;
use heap_core::hardened::Hardening;
use heap_core::inspect::{self, InspectError, MisuseReport};
use heap_core::layout::{Layout, LayoutError, MIN_CAPACITY};
use heap_core::{COUNT_BYTES, Core, Heap as Handle};
use kernels::initialise::{Initialise, InitialiseArguments};
use simt::kernel::Kernel;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Threads that write the metadata of a heap.
const INITIALISERS: u32 = 1 << 18;
/// Places of a quarantine where none are said.
const QUARANTINED: u32 = 4096;
/// Capacity where none is said.
const DEFAULT_CAPACITY: u64 = 256 << 20;
/// How long a request waits for the host where nothing is said.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a heap is to be.
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct HeapBuilder<'a> {
    device: &'a Device,
    capacity: u64,
    stripes: Option<u32>,
    count_bytes: bool,
    region: Option<(u64, u64)>,
    max_capacity: Option<u64>,
    growth: Option<Growth>,
    patience: Duration,
    hardening: Hardening,
    quarantine: u32,
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

    /// Bytes that the heap may have once it has grown; its capacity if nothing is said. Addresses
    /// are reserved for all of it, and metadata allocated. The page size follows from it: a heap that may
    /// become 1000 times as large has few pages at first.
    pub fn max_capacity(mut self, bytes: u64) -> Self {
        self.max_capacity = Some(bytes);
        self
    }

    /// When the heap grows by itself; between launches, if nothing is said and it may become
    /// larger than its capacity.
    pub fn growth(mut self, growth: Growth) -> Self {
        self.growth = Some(growth);
        self
    }

    /// How long a request waits for the host to map memory, where the heap grows while kernels
    /// run; two seconds if nothing is said.
    pub fn growth_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Modes that find misuse which a plain heap cannot find; none if nothing is said. What they cost
    /// is in `docs/hardening.md`.
    pub fn harden(mut self, modes: Hardening) -> Self {
        self.hardening = modes;
        self
    }

    /// How many freed blocks a heap with [`Hardening::QUARANTINE`] holds back, rounded up to a power of
    /// two; 4096 if nothing is said, and 2^24 at most.
    pub fn quarantine(mut self, blocks: u32) -> Self {
        self.quarantine = blocks;
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
        let counting = if self.count_bytes { COUNT_BYTES } else { 0 };
        let flags = counting | self.hardening.flags();
        let ring = hardening::make_ring(self.device, self.hardening, self.quarantine)?;
        let (layout, metadata, pages) = match (self.region, self.plan()?) {
            (Some(_), Some(_)) => return Err(Error::GrowthInRegion),
            (Some(region), None) => self.place_in(region, stripes)?,
            (None, None) => self.allocate(stripes)?,
            (None, Some((most, plan))) => self.reserve(stripes, most, plan)?,
        };
        let heap = Heap {
            device: self.device.clone(),
            layout,
            metadata,
            pages,
            flags,
            generation: AtomicU32::new(0),
            ring,
        };
        heap.make_empty()?;
        Ok(heap)
    }

    /// The most bytes and how to get there, if the heap is to grow.
    fn plan(&self) -> Result<Option<(u64, Plan)>> {
        let most = self.max_capacity.unwrap_or(self.capacity);
        if most < self.capacity {
            return Err(Error::MostBelowCapacity {
                capacity: self.capacity,
                most,
            });
        }
        let usual = if most > self.capacity {
            Growth::BetweenLaunches
        } else {
            Growth::Fixed
        };
        let growth = self.growth.unwrap_or(usual);
        if growth == Growth::Live && self.hardening.contains(Hardening::POISON) {
            return Err(Error::PoisonWhileGrowing);
        }
        let plan = Plan {
            capacity: self.capacity,
            patience: self.patience,
            live: growth == Growth::Live,
        };
        Ok((growth != Growth::Fixed).then_some((most, plan)))
    }

    fn reserve(&self, stripes: u32, most: u64, plan: Plan) -> Result<(Layout, Memory, Pages)> {
        lay_out(self.capacity, stripes)?;
        let layout = lay_out(most, stripes)?;
        let metadata = self.device.allocate(layout.metadata_bytes)?;
        let growing = Growing::new(self.device, layout, plan)?;
        Ok((layout, metadata, Pages::Growing(growing)))
    }

    fn allocate(&self, stripes: u32) -> Result<(Layout, Memory, Pages)> {
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
        Ok((layout, metadata, Pages::Whole(pages)))
    }

    fn place_in(&self, region: (u64, u64), stripes: u32) -> Result<(Layout, Memory, Pages)> {
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
        Ok((layout, metadata, Pages::Whole(pages)))
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
    pub(crate) pages: Pages,
    flags: u32,
    /// How often the heap was reset.
    generation: AtomicU32,
    /// Of the quarantine.
    ring: Option<Memory>,
}

/// Where the pages of a heap are.
#[derive(Debug)]
pub(crate) enum Pages {
    /// All of them in one piece of memory.
    Whole(Memory),
    /// In memory that grows.
    Growing(Growing),
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
            max_capacity: None,
            growth: None,
            patience: PATIENCE,
            hardening: Hardening::NONE,
            quarantine: QUARANTINED,
        }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes that can be allocated; it may become more if the heap grows.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        match &self.pages {
            Pages::Whole(_) => self.layout.capacity,
            Pages::Growing(growing) => growing.pieces.capacity(),
        }
    }

    /// Bytes that can be allocated once the heap has grown as far as it may.
    #[must_use]
    pub fn max_capacity(&self) -> u64 {
        self.layout.capacity
    }

    /// Pages that have memory.
    pub(crate) fn page_count(&self) -> u32 {
        u32::try_from(self.capacity() >> self.layout.page_shift).unwrap_or(u32::MAX)
    }

    /// Shape of the heap, once it has grown as far as it may.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Address of the first page.
    #[must_use]
    pub fn base(&self) -> u64 {
        match &self.pages {
            Pages::Whole(memory) => memory.address().next_multiple_of(self.layout.page_bytes()),
            Pages::Growing(growing) => growing.pieces.base(),
        }
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
        Ok(*self.fixed_core().heap())
    }

    /// The heap as kernels on its own device take it in their arguments.
    ///
    /// # Errors
    ///
    /// If the heap was lost.
    pub fn handle(&self) -> Result<Handle> {
        self.handle_on(&self.device)
    }

    /// The head of the heap, but for what it says of growth: that is not in handles.
    fn fixed_core(&self) -> Core {
        Core::new(
            self.layout,
            self.metadata.address(),
            self.base(),
            self.flags,
        )
        .of_generation(self.generation.load(Ordering::SeqCst))
        .with_quarantine(
            self.ring.as_ref().map_or(0, Memory::address),
            self.ring.as_ref().map_or(0, |ring| ring.bytes() / 8),
        )
    }

    pub(crate) fn flags(&self) -> u32 {
        self.flags
    }

    /// The pages that have memory.
    pub(crate) fn user_memory(&self) -> Memory {
        // SAFETY: the heap owns the memory, and lives longer than who asks.
        unsafe { self.device.adopt(self.base(), self.capacity()) }
    }

    fn core(&self) -> Core {
        let core = self.fixed_core();
        match &self.pages {
            Pages::Whole(_) => core,
            Pages::Growing(growing) => core.growing(growing.pieces.constants()),
        }
    }

    pub(crate) fn metadata(&self) -> &Memory {
        &self.metadata
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.metadata.is_alive() {
            Ok(())
        } else {
            Err(Error::HeapLost)
        }
    }

    /// Launches a kernel on the heap's device. A heap that grows between launches grows before, if a
    /// request found no memory since the last launch.
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
        self.attend()?;
        // SAFETY: as the caller promises.
        unsafe { self.device.launch::<K>(grid, arguments) }
    }

    /// Makes the heap empty; all blocks are gone. Waits until that is done. Handles from before are
    /// stale then: what is tried through them is refused and counted, see
    /// [`Misuse::Stale`](heap_core::misuse::Misuse::Stale).
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn reset(&self) -> Result<()> {
        self.check()?;
        self.device.synchronize()?;
        // SeqCst: nothing depends on it but the next handle.
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.make_empty()
    }

    /// Writes the metadata of an empty heap.
    fn make_empty(&self) -> Result<()> {
        if let Some(ring) = &self.ring {
            ring.clear()?;
        }
        if let Pages::Growing(growing) = &self.pages {
            growing.pieces.begin();
        }
        let core = self.core();
        self.metadata.write(0, bytes_of(&core))?;
        let arguments = InitialiseArguments { heap: *core.heap() };
        // SAFETY: the head was just written for this memory, which nobody uses.
        unsafe {
            self.device
                .launch::<Initialise>(Grid::of(INITIALISERS), &arguments)?;
        }
        self.device.synchronize()?;
        // SAFETY: nothing is handed out.
        unsafe { self.poison_pages(0, self.page_count()) }
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
            self.pages = match &self.pages {
                Pages::Whole(_) => Pages::Whole(self.device.allocate(page_memory(&self.layout))?),
                Pages::Growing(growing) => Pages::Growing(Growing::new(
                    &self.device,
                    self.layout,
                    growing.pieces.plan(),
                )?),
            };
            let places = self.ring.as_ref().map_or(0, |ring| ring.bytes() / 8);
            let places = u32::try_from(places).unwrap_or(0);
            self.ring = hardening::make_ring(&self.device, self.hardening(), places)?;
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

    /// How the heap was misused since it was made or reset, after all launches.
    ///
    /// # Errors
    ///
    /// As for [`snapshot`](Self::snapshot).
    pub fn misuse_report(&self) -> Result<MisuseReport> {
        Ok(self.snapshot()?.misuse_report())
    }
}
