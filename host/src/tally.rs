//! Counting on the device what a workload did and found wrong, and reading it back.

use crate::device::Device;
use crate::error::Result;
use crate::memory::Memory;
use kernels::tally::{COUNTS, Count, Tally};

/// A tally on a device.
pub(crate) struct DeviceTally(Memory);

/// What a tally counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted([u64; COUNTS]);

impl DeviceTally {
    pub fn new(device: &Device) -> Result<Self> {
        let memory = device.allocate(size_of::<Tally>() as u64)?;
        memory.clear()?;
        Ok(Self(memory))
    }

    pub fn address(&self) -> u64 {
        self.0.address()
    }

    /// Address of the count of operations.
    pub fn operations(&self) -> u64 {
        self.address() + (Count::Operations as usize * size_of::<u64>()) as u64
    }

    pub fn read(&self) -> Result<Counted> {
        let counts = self.0.read::<u64>(0, COUNTS)?;
        let mut counted = Counted::default();
        counted.0.copy_from_slice(&counts);
        Ok(counted)
    }
}

impl Counted {
    pub fn of(&self, count: Count) -> u64 {
        self.0[count as usize]
    }
}
