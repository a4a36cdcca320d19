//! The CUDA context that a thread of somebody else's program has made current.
//!
//! Calls of a device make its primary context current for the calling thread and leave it so. In a program that uses
//! CUDA itself, such as `PyTorch`, that would change which GPU the thread works with. Who is called by such a program
//! keeps the context meanwhile.

#[cfg(feature = "cuda")]
use super::cuda;
use super::{Device, Kind};
use std::marker::PhantomData;

/// When this is dropped, the context that was current for the calling thread is so again. See
/// [`Device::keep_context`].
#[derive(Debug)]
#[must_use = "the context is kept until this is dropped"]
pub struct KeptContext {
    #[cfg(feature = "cuda")]
    _kept: Option<cuda::KeptContext>,
    /// It is of the calling thread.
    _thread: PhantomData<*const ()>,
}

impl Device {
    /// Whether an address of a program with several devices is in the memory of this one. Of the CPU all are.
    #[must_use]
    pub fn holds(&self, address: u64) -> bool {
        match &*self.0 {
            Kind::Cpu(_) => true,
            #[cfg(feature = "cuda")]
            Kind::Cuda(cuda) => cuda.holds(address),
        }
    }

    /// Remembers which CUDA context is current for the calling thread, if this is a GPU.
    pub fn keep_context(&self) -> KeptContext {
        KeptContext {
            #[cfg(feature = "cuda")]
            _kept: match &*self.0 {
                Kind::Cpu(_) => None,
                Kind::Cuda(_) => cuda::KeptContext::of_this_thread(),
            },
            _thread: PhantomData,
        }
    }
}
