//! Counters on the device of what kernels found wrong.

use crate::bench::Arrays;
use crate::contents::Faults;
use crate::error::{Error, Result};
use bench_kernels::faults::{COUNTERS, CountNulls, Fault, NullsArguments};
use scatterheap_host::{Device, Grid, Memory};

/// The counters of [`Fault`], all 0 at first.
pub(super) struct Counters(Memory);

impl Counters {
    pub fn new(device: &Device) -> Result<Self> {
        let memory = device.allocate(COUNTERS as u64 * 4)?;
        memory.clear()?;
        Ok(Self(memory))
    }

    /// As kernels take them.
    pub fn address(&self) -> u64 {
        self.0.address()
    }

    /// Enqueues a launch that counts which of the first `n` requests got NULL. To be called before the blocks are
    /// freed: a plug-in may forget their addresses then.
    pub fn count_nulls(&self, device: &Device, arrays: &Arrays, n: u32) -> Result<()> {
        let arguments = NullsArguments {
            blocks: arrays.blocks.address(),
            count: n.into(),
            faults: self.address(),
        };
        // SAFETY: the array has `n` addresses, and there are counters.
        unsafe { device.launch::<CountNulls>(Grid::of(n), &arguments)? };
        Ok(())
    }

    /// What was counted by all launches before.
    pub fn read(&self) -> Result<Faults> {
        let counts = self.0.read::<u32>(0, COUNTERS)?;
        Ok(Faults {
            nulls: counts[Fault::Null as usize].into(),
            corrupt: counts[Fault::Corrupt as usize].into(),
            misaligned: 0,
        })
    }
}

/// For a test whose kernels call the allocator themselves, of one that they were not compiled for.
pub(super) fn not_compiled_for(allocator: &str) -> Error {
    Error::Unfit(format!(
        "the kernels of this test are not compiled for `{allocator}`, which is a plug-in"
    ))
}
