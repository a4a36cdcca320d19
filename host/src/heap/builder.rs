//! How a heap is to be, and the memory that it gets.

use super::{Heap, Pages, page_memory};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::growth::{Growing, Growth, Plan};
use crate::hardening;
use crate::memory::Memory;
use crate::monitor::Exposed;
use heap_core::COUNT_BYTES;
use heap_core::hardened::Hardening;
use heap_core::layout::{Layout, LayoutError, MIN_CAPACITY};
use parking_lot::ReentrantMutex;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

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
    /// come on top: 0.9 % from 16 GiB on, 1.7 % of 1 GiB, 4.4 % of 256 MiB, 8 to 9 % from 128 MiB down.
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = bytes;
        self
    }

    /// How many stripes a class has at most; one for each multiprocessor if nothing is said. A heap below 2 GiB has no more than 48.
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
        // What lies between arrays and fields nobody reads, but snapshots copy it.
        metadata.clear()?;
        let heap = Heap {
            exposed: Exposed::nothing(),
            device: self.device.clone(),
            layout,
            metadata,
            pages,
            flags,
            generation: AtomicU32::new(0),
            ring,
            in_turn: ReentrantMutex::new(()),
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
        if growth == Growth::Fixed && most > self.capacity {
            return Err(Error::MostOfFixed {
                capacity: self.capacity,
                most,
            });
        }
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
}
