//! The allocators that come along: scatterheap, the device's own, and the floor.

mod floor;
mod native;
mod scatterheap;

pub use floor::Floor;
pub use native::Native;
pub use scatterheap::{Scatterheap, name_of_hardened};

use crate::allocator::Resources;
use crate::error::Result;
use scatterheap_host::{Device, Grid};
use simt::kernel::Kernel;
use simt::warp::LANES;

/// The grid in which lane 0 of `warps` warps works.
fn grid_of_warps(warps: u32) -> Grid {
    Grid::of(warps.saturating_mul(LANES))
}

/// What two kernels use.
fn resources<Allocate: Kernel, Free: Kernel>(device: &Device) -> Result<Option<Resources>> {
    let allocate = device.kernel_use::<Allocate>()?;
    let free = device.kernel_use::<Free>()?;
    Ok(allocate.zip(free).map(|(allocate, free)| Resources {
        registers: allocate.registers,
        stack_bytes: allocate.local_bytes,
        free_registers: free.registers,
        free_stack_bytes: free.local_bytes,
    }))
}
