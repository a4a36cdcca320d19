//! The global heap of a device: which it is, and that kernels get to know.
//!
//! A device has one or none. The CPU's workers are told at each launch; on a GPU it is written into each module
//! that has a place for it.

use super::{Device, Kind};
use crate::error::{Error, Result};
use crate::virtual_memory::HostMemory;
use alloc_core::{Binding, Failures};
use heap_core::Heap as Handle;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A heap as a device's global heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Global {
    /// What kernels get.
    pub(super) binding: Binding,
    /// Where the host finds the [`Failures`], which kernels know by another address.
    pub(super) failures: u64,
}

impl Global {
    /// The heap with this handle. The memory is for its [`Failures`], and must outlive it.
    pub fn new(heap: Handle, failures: &HostMemory) -> Self {
        // SAFETY: the memory was allocated for failures, which are atomics and may be all zero.
        let place: &Failures = unsafe { failures.get() };
        Self {
            binding: Binding {
                heap,
                failures: failures.address(),
            },
            failures: std::ptr::from_ref(place) as u64,
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.failures == other.failures
    }
}

/// The global heap of a device, of which all handles know.
#[derive(Debug, Default)]
pub(super) struct Current(Mutex<Option<Global>>);

impl Current {
    fn lock(&self) -> MutexGuard<'_, Option<Global>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    /// Makes a heap the global one.
    pub(crate) fn bind_global(&self, global: Global) -> Result<()> {
        self.synchronize()?;
        let mut current = self.0.global.lock();
        if current.is_some() {
            return Err(Error::GlobalHeapTaken(self.label()));
        }
        either!(self, device => device.write_global(Some(global)))?;
        *current = Some(global);
        Ok(())
    }

    /// Tells kernels the handle of a heap that was reset, if it is the global one.
    pub(crate) fn refresh_global(&self, heap: Handle) -> Result<()> {
        let mut current = self.0.global.lock();
        if let Some(global) = &mut *current
            && global.binding.heap.metadata() == heap.metadata()
        {
            global.binding.heap = heap;
            either!(self, device => device.write_global(Some(*global)))?;
        }
        Ok(())
    }

    /// Ends that a heap is global, after all launches.
    pub(crate) fn unbind_global(&self, global: Global) {
        let mut current = self.0.global.lock();
        if current.is_some_and(|current| current.is(&global)) {
            *current = None;
            either!(self, device => device.withdraw_global());
            let waited = self.synchronize();
            // A lost device has no modules, but knows where failures are noted, until it is told to forget that.
            let _written = either!(self, device => device.write_global(None));
            self.tell_later(waited);
        }
    }

    /// Makes a lost device usable again, if it still is one: another thread may have done that, and made a heap global. Whichever was global before is gone.
    pub(super) fn recover_without_global(&self) -> Result<()> {
        let mut current = self.0.global.lock();
        if self.is_lost() {
            *current = None;
        }
        either!(self, device => device.recover())
    }
}
