//! A heap on a device.

mod builder;
mod each;
mod global;

pub use builder::HeapBuilder;
pub use global::GlobalHeap;

use crate::device::{Device, Grid};
use crate::error::{Error, Result};
use crate::growth::Growing;
use crate::hardening;
use crate::memory::Memory;
use crate::monitor::{Exposed, Seen};
use crate::snapshot::Snapshot;
use bytemuck::bytes_of;
use heap_core::inspect::{self, InspectError, MisuseReport};
use heap_core::layout::Layout;
use heap_core::{Core, Heap as Handle};
use kernels::initialise::{Initialise, InitialiseArguments};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use simt::kernel::Kernel;
use std::sync::atomic::{AtomicU32, Ordering};

/// Threads that write the metadata of a heap.
const INITIALISERS: u32 = 1 << 18;

/// Bytes to allocate for the pages, so that they can begin at a multiple of their size.
fn page_memory(layout: &Layout) -> u64 {
    layout.capacity + layout.page_bytes()
}

/// A heap on a device, from which kernels allocate by its handle.
#[derive(Debug)]
pub struct Heap {
    /// Before the memory, so that nobody looks at it when it is released.
    exposed: Exposed,
    device: Device,
    layout: Layout,
    metadata: Memory,
    pub(crate) pages: Pages,
    flags: u32,
    /// How often the heap was reset.
    generation: AtomicU32,
    /// Of the quarantine.
    ring: Option<Memory>,
    /// Held by calls that make the heap empty or larger, read it as a whole or allocate for the host, so that each comes
    /// before or after another of a different thread. On the CPU, where nothing is enqueued, nothing else orders
    /// them. Reentrant: some of them are made of others.
    pub(crate) in_turn: ReentrantMutex<()>,
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
    /// What this gives is plain data, and does not borrow the heap: use it only while the heap lives, in kernels on
    /// its device or, on the CPU, here. When the heap is dropped its memory goes, and whatever is called through a handle of it, safe
    /// methods too, is undefined behaviour. After a [`reset`](Self::reset) take it anew: older ones are refused.
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

    /// The heap as kernels on its own device take it in their arguments: to be used only while the heap lives, as that of
    /// [`handle_on`](Self::handle_on).
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

    /// What those who watch it see.
    pub(crate) fn exposed(&self) -> &Exposed {
        &self.exposed
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.metadata.is_alive() {
            Ok(())
        } else {
            Err(self.device.why_lost())
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
    /// As for [`Device::launch`], and no other host thread may [`reset`](Self::reset) the heap meanwhile.
    pub unsafe fn launch<K: Kernel>(&self, grid: Grid, arguments: &K::Arguments) -> Result<()> {
        self.check()?;
        self.attend()?;
        // SAFETY: as the caller promises.
        unsafe { self.device.launch::<K>(grid, arguments) }
    }

    /// Launches a kernel as [`launch`](Self::launch) does, waits for it and gives its time in seconds by the device's own clock.
    ///
    /// # Errors
    ///
    /// As for [`Device::time`], and if the heap was lost.
    ///
    /// # Safety
    ///
    /// As for [`launch`](Self::launch).
    pub unsafe fn time<K: Kernel>(&self, grid: Grid, arguments: &K::Arguments) -> Result<f64> {
        self.check()?;
        self.attend()?;
        // SAFETY: as the caller promises.
        unsafe { self.device.time::<K>(grid, arguments) }
    }

    /// Makes the heap empty; all blocks are gone. Waits until that is done. Handles from before are
    /// stale then: what is tried through them is refused and counted, see
    /// [`Misuse::Stale`](heap_core::misuse::Misuse::Stale). Other host threads may call [`malloc_each`](Self::malloc_each),
    /// [`free_each`](Self::free_each), [`on_the_host`](Self::on_the_host), [`grow`](Self::grow) and [`snapshot`](Self::snapshot) meanwhile, which come
    /// before or after it, but launch nothing that uses the heap, nor call it themselves by a handle.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn reset(&self) -> Result<()> {
        let _turn = self.in_turn.lock();
        self.check()?;
        self.device.synchronize()?;
        // SeqCst: nothing depends on it but the next handle.
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.make_empty()?;
        self.device.refresh_global(self.handle()?)
    }

    /// Writes the metadata of an empty heap.
    fn make_empty(&self) -> Result<()> {
        // Nobody looks at metadata that are half written.
        let mut exposed = self.exposed.take_back();
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
        *exposed = Some(Seen::new(&core, &self.metadata));
        drop(exposed);
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
        drop(self.exposed.take_back());
        self.device.recover()?;
        if !self.metadata.is_alive() {
            if !self.metadata.is_owned() {
                return Err(Error::RegionLost);
            }
            let metadata = self.device.allocate(self.layout.metadata_bytes)?;
            metadata.clear()?;
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

    /// Lets nobody else empty or read the heap until the guard is dropped: for runs of launches in which nothing of the kind may come.
    pub(crate) fn take_turn(&self) -> ReentrantMutexGuard<'_, ()> {
        self.in_turn.lock()
    }

    /// Reads back what the heap holds, after all launches. What other host threads launch meanwhile may be in it by
    /// half, as if the heap were damaged: on the CPU that is every launch of theirs that has not returned, but for
    /// [`malloc_each`](Self::malloc_each), [`free_each`](Self::free_each) and [`on_the_host`](Self::on_the_host), which come before or after it.
    ///
    /// # Errors
    ///
    /// If the device fails, or the metadata make no sense.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let _turn = self.in_turn.lock();
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
