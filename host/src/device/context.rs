//! The CUDA context that a thread of somebody else's program has made current.
//!
//! Calls of a device make its primary context current for the calling thread and leave it so. In a program that uses
//! CUDA itself, such as `PyTorch`, that would change which GPU the thread works with. Who is called by such a program
//! keeps the context meanwhile.

#[cfg(feature = "cuda")]
use super::cuda;
use super::{Device, Kind};
use std::marker::PhantomData;

/// As long as there is one, calls of devices remember which CUDA context was current for this thread before they
/// changed it; when the last one is dropped, it is current again. Costs no call of the driver where none of the calls in
/// between does.
#[derive(Debug)]
#[must_use = "the context is kept until this is dropped"]
pub struct KeptContext {
    /// It is of the calling thread.
    _thread: PhantomData<*const ()>,
}

impl KeptContext {
    /// Keeps the context of the calling thread.
    #[inline]
    pub fn of_this_thread() -> Self {
        #[cfg(feature = "cuda")]
        cuda::begin_to_keep();
        Self {
            _thread: PhantomData,
        }
    }
}

impl Drop for KeptContext {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "cuda")]
        cuda::end_to_keep();
    }
}

impl Device {
    /// Whether an address of a program with several devices is in the memory of this one. Of the CPU all are.
    #[must_use]
    pub fn holds(&self, address: u64) -> bool {
        either!(self, device => device.holds(address))
    }
}
