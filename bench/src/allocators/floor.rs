//! The floor: the same launches, but each thread only stores 8 bytes. What it gives are no blocks.

use super::grid_of_warps;
use crate::allocator::{Allocator, Churn, Request};
use crate::case::Test;
use crate::error::Result;
use bench_kernels::blocks;
use scatterheap_host::{Device, Grid};

/// Allocates nothing.
#[derive(Debug)]
pub struct Floor {
    device: Device,
}

impl Floor {
    /// The floor of a device that has the benchmark's kernels.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
        }
    }

    /// Whether a test has a floor.
    #[must_use]
    pub fn takes_test(test: Test) -> bool {
        matches!(
            test,
            Test::Uniform
                | Test::Mixed
                | Test::Sizes
                | Test::UniformAged
                | Test::MixedAged
                | Test::SizesAged
                | Test::MixedChurned
                | Test::UniformNew
                | Test::MixedNew
                | Test::Scale
                | Test::MixedScale
                | Test::Warp
                | Test::Large
        )
    }

    unsafe fn store(&self, request: &Request) -> Result<()> {
        let grid = Grid::of(request.n);
        let arguments = request.for_kernels();
        // SAFETY: as the caller promises.
        unsafe {
            match request.sizes {
                0 => self.device.launch::<blocks::StoreFloor>(grid, &arguments)?,
                _ => self
                    .device
                    .launch::<blocks::StoreFloorMixed>(grid, &arguments)?,
            }
        }
        Ok(())
    }

    unsafe fn store_of_warps(&self, request: &Request) -> Result<()> {
        let (grid, arguments) = (grid_of_warps(request.n), request.for_kernels());
        // SAFETY: as the caller promises.
        unsafe {
            self.device
                .launch::<blocks::StoreFloorOfWarps>(grid, &arguments)?;
        }
        Ok(())
    }
}

// SAFETY: it is a floor, without a handle, and launches kernels on the default stream only.
unsafe impl Allocator for Floor {
    fn name(&self) -> &'static str {
        "floor"
    }

    fn device(&self) -> Option<&Device> {
        Some(&self.device)
    }

    fn can(&self, test: Test) -> bool {
        Self::takes_test(test)
    }

    fn is_floor(&self) -> bool {
        true
    }

    fn create(&mut self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn destroy(&mut self) {}

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    unsafe fn allocate(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.store(request) }
    }

    unsafe fn free(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises; sizes are not needed to free.
        unsafe {
            self.store(&Request {
                sizes: 0,
                ..*request
            })
        }
    }

    unsafe fn allocate_of_warps(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.store_of_warps(request) }
    }

    unsafe fn free_of_warps(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.store_of_warps(request) }
    }

    unsafe fn churn(&mut self, _churn: &Churn) -> Result<()> {
        Ok(())
    }
}
