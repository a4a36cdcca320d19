//! Which context is current for a thread, and making it current again.

use super::Cuda;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUcontext, CUpointer_attribute};
use std::ptr;

/// Makes the context that was current, or none, current again when it is dropped.
#[derive(Debug)]
pub(in crate::device) struct KeptContext(CUcontext);

fn current() -> Option<CUcontext> {
    let context = result::ctx::get_current().ok()?;
    Some(context.unwrap_or(ptr::null_mut()))
}

impl Cuda {
    /// Whether an address is in this GPU's memory.
    pub fn holds(&self, address: u64) -> bool {
        let which = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        let mut ordinal: i32 = -1;
        // SAFETY: writes the number of the address's device, an `int`, to the variable. The address is not followed.
        let found =
            unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), which, address) };
        found.result().is_ok() && u32::try_from(ordinal) == Ok(self.ordinal)
    }
}

impl KeptContext {
    /// What is current now; nothing if the driver does not say.
    pub fn of_this_thread() -> Option<Self> {
        current().map(Self)
    }
}

impl Drop for KeptContext {
    fn drop(&mut self) {
        // Asked first, which is cheap: calls that need no driver leave it alone.
        if current() != Some(self.0) {
            // SAFETY: it was current before, so whoever made it so keeps it alive. An error has nobody to go to.
            let _restored = unsafe { result::ctx::set_current(self.0) };
        }
    }
}
