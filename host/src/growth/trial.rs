//! Finds out whether a device can map memory while a kernel runs.
//!
//! Drivers do not promise it: some wait for the kernel, which then waits for them. So a kernel
//! that ends by itself is launched once, all over the device, and the outcome is believed.

use crate::device::{Device, Grid};
use crate::error::{Error, Result};
use kernels::growth::{Probe, TryMapping, TryMappingArguments};
use simt::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The kernel ends after this time, whatever happens.
const PATIENCE: Duration = Duration::from_millis(250);
/// Blocks on each multiprocessor of a GPU.
const BLOCKS: u32 = 8;

/// Whether memory that is mapped while a kernel runs can be used by that kernel.
pub(crate) fn maps_beside_kernels(device: &Device) -> Result<bool> {
    // Kernels that run already would keep this one waiting for longer than it is waited for.
    device.synchronize()?;
    let granule = device.granule()?;
    let range = device.reserve(granule, granule)?;
    let shared = device.allocate_host(size_of::<Probe>() as u64)?;
    // SAFETY: the memory is as large, and a probe is atomics.
    let probe: &Probe = unsafe { shared.get() };
    let arguments = TryMappingArguments {
        probe: shared.address(),
        word: range.address(),
        patience: u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX),
    };
    let map = || -> Result<()> {
        let start = Instant::now();
        // Relaxed: a word alone.
        while probe.running.load(Ordering::Relaxed) == 0 {
            if start.elapsed() > PATIENCE {
                return Ok(());
            }
            thread::yield_now();
        }
        range.map(0, device.create_memory(granule)?)?;
        // Release: the word has memory.
        probe.mapped.store(1, Ordering::Release);
        Ok(())
    };
    thread::scope(|scope| {
        let mapping = thread::Builder::new().spawn_scoped(scope, map);
        let mapping = mapping.map_err(Error::threads(1))?;
        // SAFETY: the probe and the addresses are reserved for this kernel, and it ends first.
        unsafe { device.launch::<TryMapping>(grid(device), &arguments)? };
        device.synchronize()?;
        // A panic of that thread is no more than a device that cannot.
        mapping.join().unwrap_or(Ok(()))
    })?;
    // Relaxed: the kernel has ended.
    Ok(probe.used.load(Ordering::Relaxed) == 1)
}

/// As many threads as the device runs at once.
fn grid(device: &Device) -> Grid {
    if device.is_gpu() {
        Grid {
            blocks: device.multiprocessors() * BLOCKS,
            block_dim: Grid::BLOCK_DIM,
        }
    } else {
        Grid {
            blocks: device.multiprocessors(),
            block_dim: 1,
        }
    }
}
