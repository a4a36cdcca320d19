//! Devices that may access each other's memory.

use super::{Device, Kind};
#[cfg(feature = "cuda")]
use crate::error::Error;
use crate::error::Result;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The numbers of other GPUs whose kernels may access what is mapped on a device.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<Vec<u32>>);

impl Peers {
    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "cuda")]
    fn add(&self, ordinal: u32) {
        let mut peers = self.lock();
        if !peers.contains(&ordinal) {
            peers.push(ordinal);
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<u32> {
        self.lock().clone()
    }
}

impl Device {
    /// Lets kernels of this device access the memory of another one: what that has allocated or allocates
    /// ([`allocate`](Self::allocate)), and what is mapped on it from now on. On the CPU all devices can do so
    /// from the beginning.
    ///
    /// # Errors
    ///
    /// If the hardware cannot, or one of them is a GPU and the other is not.
    pub fn enable_peer_access(&self, other: &Self) -> Result<()> {
        match (&self.0.kind, &other.0.kind) {
            (Kind::Cpu(_), Kind::Cpu(_)) => Ok(()),
            #[cfg(feature = "cuda")]
            (Kind::Cuda(cuda), Kind::Cuda(owner)) => {
                cuda.enable_peer_access(owner)?;
                other.0.peers.add(cuda.ordinal());
                Ok(())
            }
            #[cfg(feature = "cuda")]
            _ => Err(Error::NoPeerAccess {
                device: self.label(),
                owner: other.label(),
            }),
        }
    }
}
