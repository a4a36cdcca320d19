//! What a heap offers to who wants it larger or smaller.

use super::{Growth, Pieces, Plan, Watcher, maps_beside_kernels};
use crate::device::{Device, Grid};
use crate::error::{Error, Result};
use crate::heap::{Heap, Pages};
use heap_core::inspect::failed_requests;
use heap_core::layout::Layout;
use kernels::growth::{Admit, AdmitArguments, Retract, RetractArguments};
use serde::Serialize;
use simt::kernel::Kernel;
use std::sync::Arc;

/// The pages of a heap that grows.
#[derive(Debug)]
pub(crate) struct Growing {
    /// Before the pieces, so that it ends before they are released.
    watcher: Option<Watcher>,
    pub pieces: Arc<Pieces>,
    growth: Growth,
    notice: Option<String>,
}

/// What [`Heap::launch_with_growth`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GrownLaunch {
    /// How often the kernel was launched.
    pub launches: u32,
    /// Requests that found no memory in the last launch: not zero if the heap could not grow.
    pub failed: u64,
    /// Bytes that can be allocated now.
    pub capacity: u64,
}

impl Growing {
    pub fn new(device: &Device, layout: Layout, plan: Plan) -> Result<Self> {
        let mut plan = plan;
        let mut notice = None;
        if plan.live && !maps_beside_kernels(device)? {
            plan.live = false;
            notice = Some(format!(
                "{} cannot map memory while a kernel runs: the heap grows between launches",
                device.label()
            ));
        }
        let pieces = Arc::new(Pieces::new(device, layout, plan)?);
        let watcher = plan
            .live
            .then(|| Watcher::start(Arc::clone(&pieces)))
            .transpose()?;
        Ok(Self {
            watcher,
            pieces,
            growth: if plan.live {
                Growth::Live
            } else {
                Growth::BetweenLaunches
            },
            notice,
        })
    }
}

impl Heap {
    fn growing(&self) -> Option<&Growing> {
        match &self.pages {
            Pages::Whole(_) => None,
            Pages::Growing(growing) => Some(growing),
        }
    }

    fn growing_or_refuse(&self) -> Result<&Growing> {
        self.growing().ok_or(Error::FixedCapacity(self.capacity()))
    }

    /// When the heap grows by itself. Not always what was asked for, see
    /// [`growth_notice`](Self::growth_notice).
    #[must_use]
    pub fn growth(&self) -> Growth {
        self.growing()
            .map_or(Growth::Fixed, |growing| growing.growth)
    }

    /// Why the heap does not grow as was asked for, or did not grow when it should have, if so.
    #[must_use]
    pub fn growth_notice(&self) -> Option<String> {
        let growing = self.growing()?;
        growing.notice.clone().or_else(|| growing.pieces.failure())
    }

    /// Makes the heap larger by at least `bytes`, after all launches. Blocks stay where they are.
    /// Gives the bytes that can be allocated then.
    ///
    /// # Errors
    ///
    /// If the heap is fixed or may not be as large, or the device has not as much memory: then
    /// nothing changes.
    pub fn grow(&self, bytes: u64) -> Result<u64> {
        let growing = self.growing_or_refuse()?;
        let _turn = self.in_turn.lock();
        self.check()?;
        growing
            .pieces
            .grow(bytes, &|first, count| self.prepare(first, count))?;
        self.admit()?;
        self.device().synchronize()?;
        Ok(self.capacity())
    }

    /// Gives memory in which no block lies back to the device, after all launches: the pieces that
    /// were added last, as far as they are free, and never the first. Gives the bytes that can be allocated
    /// then.
    ///
    /// # Errors
    ///
    /// If the heap is fixed, or the device fails.
    ///
    /// # Safety
    ///
    /// No kernel that uses the heap may be launched from elsewhere meanwhile.
    pub unsafe fn shrink(&self) -> Result<u64> {
        let growing = self.growing_or_refuse()?;
        let _turn = self.in_turn.lock();
        self.check()?;
        self.drain_quarantine()?;
        self.device().synchronize()?;
        let done = self.device().allocate(4)?;
        let retract = |first| {
            done.clear()?;
            let arguments = RetractArguments {
                heap: self.handle()?,
                done: done.address(),
                first,
                padding: 0,
            };
            // SAFETY: the word is this function's, and as the caller promises.
            unsafe { self.device().launch::<Retract>(ONE_THREAD, &arguments)? };
            Ok(done.read::<u32>(0, 1)? == [1])
        };
        // SAFETY: as the caller promises.
        unsafe { growing.pieces.shrink(retract)? };
        Ok(self.capacity())
    }

    /// Launches a kernel, waits for it, and, as long as requests found no memory and the heap can
    /// grow, doubles the heap and launches it again with the same arguments. So the kernel must
    /// do only what it has not done before: skip a thread whose result is there, say.
    ///
    /// # Errors
    ///
    /// As for [`launch`](Self::launch). That the heap can grow no more is none: the result tells.
    ///
    /// # Safety
    ///
    /// As for [`Device::launch`], for each of the launches.
    pub unsafe fn launch_with_growth<K: Kernel>(
        &self,
        grid: Grid,
        arguments: &K::Arguments,
    ) -> Result<GrownLaunch> {
        let mut launches = 0;
        loop {
            self.device().synchronize()?;
            let before = self.failed_requests()?;
            // SAFETY: as the caller promises.
            unsafe { self.launch::<K>(grid, arguments)? };
            self.device().synchronize()?;
            launches += 1;
            let failed = self.failed_requests()?.saturating_sub(before);
            if failed == 0 || !self.double()? {
                return Ok(GrownLaunch {
                    launches,
                    failed,
                    capacity: self.capacity(),
                });
            }
        }
    }

    /// Doubles the heap, or makes it as large as it may be; false if it is, or there is no memory.
    fn double(&self) -> Result<bool> {
        let room = self.layout().capacity - self.capacity();
        let mut bytes = room.min(self.capacity());
        while bytes >= self.layout().page_bytes() {
            match self.grow(bytes) {
                Err(Error::OutOfMemory { .. }) => bytes /= 2,
                other => return other.map(|_| true),
            }
        }
        Ok(false)
    }

    /// Requests that found no memory since the heap was made or reset.
    fn failed_requests(&self) -> Result<u64> {
        let (offset, bytes) = heap_core::inspect::counters_range(self.layout());
        let counters: Vec<u8> = self.metadata().read(offset, bytes)?;
        Ok(failed_requests(&counters))
    }

    /// Maps what requests did not find since the last launch, as a launch through the heap does before: for
    /// programs that launch their kernels by other means. Does nothing if the heap is fixed.
    ///
    /// # Errors
    ///
    /// If the device fails. That the heap can grow no more is none.
    pub fn attend(&self) -> Result<()> {
        let Some(growing) = self.growing() else {
            return Ok(());
        };
        if let Some(watcher) = &growing.watcher {
            watcher.attend();
            return Ok(());
        }
        // A launch waits for nobody if nothing is to be mapped before it.
        if !growing.pieces.is_asked() {
            return Ok(());
        }
        let _turn = self.in_turn.lock();
        let prepare = |first, count| self.prepare(first, count);
        match growing.pieces.serve_request(&prepare) {
            Ok(true) => self.admit(),
            // A heap that cannot grow can be used as it is: requests will be answered with NULL.
            Ok(false) | Err(Error::OutOfMemory { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes pages that have memory now what the heap expects of free pages, before it knows of them:
    /// a kernel that runs admits them as soon as the mailbox names them.
    fn prepare(&self, first: u32, count: u32) -> Result<()> {
        // SAFETY: the heap does not know these pages yet.
        unsafe { self.poison_pages(first, count) }
    }

    /// Lets the heap have the pages that have memory now.
    fn admit(&self) -> Result<()> {
        let arguments = AdmitArguments {
            heap: self.handle()?,
        };
        // SAFETY: the kernel uses the heap alone.
        unsafe { self.device().launch::<Admit>(ONE_THREAD, &arguments) }
    }
}

const ONE_THREAD: Grid = Grid {
    blocks: 1,
    block_dim: 1,
};
