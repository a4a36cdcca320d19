//! The global heap of a GPU's modules: a variable of each module that has the line `global_heap!()`.

use super::{Cuda, Error, Result, failed};
use crate::device::global::Global;
use alloc_core::{Binding, Failed, Failures, SYMBOL};
use bytemuck::{Zeroable, bytes_of};
use cudarc::driver::result;
use cudarc::driver::sys::CUmodule;
use std::ffi::CString;
use std::sync::atomic::Ordering;

/// Address of a module's global heap, if it has one.
pub(super) fn place(module: CUmodule) -> Option<u64> {
    let symbol = CString::new(SYMBOL).ok()?;
    // SAFETY: the module is loaded in the current context.
    let (address, bytes) = unsafe { result::module::get_global(module, symbol) }.ok()?;
    (bytes >= size_of::<Binding>()).then_some(address)
}

/// Writes a module's global heap, if it has a place for one. No kernel of it may run.
pub(super) fn write(module: CUmodule, global: Option<&Global>) -> Result<()> {
    let binding = global.map_or_else(Binding::zeroed, |global| global.binding);
    let Some(address) = place(module) else {
        return Ok(());
    };
    // SAFETY: the variable is a binding.
    unsafe { result::memcpy_htod_sync(address, bytes_of(&binding)) }
        .map_err(failed("tell a module its global heap"))
}

impl Cuda {
    /// Tells the modules their global heap, those too that will be loaded.
    pub fn write_global(&self, global: Option<Global>) -> Result<()> {
        // Release: pairs with `noted_failures`. The caller's failures live until it is another heap.
        let failures = global.map_or(0, |global| global.failures);
        self.failures.store(failures, Ordering::Release);
        let mut state = self.state()?;
        for module in &state.modules {
            write(*module, global.as_ref())?;
        }
        state.global = global;
        Ok(())
    }

    /// What kernels had to have of the global heap and could not get.
    pub(super) fn noted_failures(&self) -> Option<Failed> {
        // Acquire: pairs with `write_global`.
        let failures = self.failures.load(Ordering::Acquire);
        // SAFETY: failures are there as long as their address is; a recovery forgets it before.
        (failures != 0)
            .then(|| unsafe { &*(failures as *const Failures) })
            .and_then(Failures::failed)
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
