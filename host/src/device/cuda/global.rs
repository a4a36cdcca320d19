//! The global heap of a GPU's modules: a variable of each module that has the line `global_heap!()`.

use super::module::Module;
use super::{Cuda, Error, Result};
use crate::device::global::Global;
use alloc_core::{Binding, Failed, Failures};
use bytemuck::{Zeroable, bytes_of};
use cudarc::driver::{DriverError, result};
use std::sync::{MutexGuard, PoisonError};

/// Writes a module's global heap, if it has a place for one. No kernel of it may run.
pub(super) fn write(
    module: &Module,
    global: Option<&Global>,
) -> std::result::Result<(), DriverError> {
    let binding = global.map_or_else(Binding::zeroed, |global| global.binding);
    let Some(address) = module.global_heap()? else {
        return Ok(());
    };
    // SAFETY: the variable is a binding.
    unsafe { result::memcpy_htod_sync(address, bytes_of(&binding)) }
}

/// What is done to a module.
pub(super) const TELL: &str = "tell a module its global heap";

impl Cuda {
    /// Tells the modules their global heap, those too that will be loaded. No kernel may run.
    pub fn write_global(&self, global: Option<Global>) -> Result<()> {
        self.forget_failures();
        let mut state = self.state()?;
        for module in &state.modules {
            write(module, global.as_ref()).map_err(|error| self.judge(TELL, error))?;
        }
        state.global = global.map(Box::new);
        *self.failures() = global.map(|global| global.failures);
        Ok(())
    }

    /// Refuses launches of kernels that need a global heap from now on. Modules still have it, for those that run.
    pub fn withdraw_global(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.global = None;
    }

    /// What kernels had to have of the global heap and could not get.
    pub(super) fn noted_failures(&self) -> Option<Failed> {
        // Locked until it was read: who owns the failures makes us forget them before they go.
        let failures = self.failures();
        let address = (*failures)?;
        // SAFETY: failures are there as long as they are known here.
        unsafe { &*(address as *const Failures) }.failed()
    }

    /// Forgets where failures are noted, because they go.
    pub(super) fn forget_failures(&self) {
        *self.failures() = None;
    }

    fn failures(&self) -> MutexGuard<'_, Option<u64>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error if a module's kernels need a global heap and there is none.
    pub(super) fn check_global(
        has_place: bool,
        is_bound: bool,
        kernel: &'static str,
    ) -> Result<()> {
        if has_place && !is_bound {
            return Err(Error::NoGlobalHeap(kernel));
        }
        Ok(())
    }
}
