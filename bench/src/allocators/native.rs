//! The device's own allocator: CUDA's `malloc` in kernels (`cuda`), or the system's on the CPU (`system`).
//!
//! CUDA's is ten thousand times slower than the floor, and its heap of 1 GiB is made once, when the kernels are
//! loaded. So it takes only the cases with few threads, of which there are extra ones on a GPU; the column `n` tells
//! them apart. What it had is freed by `free`; it has no heap to be emptied or made.

use super::{grid_of_warps, resources};
use crate::allocator::{Allocator, Churn, Handle, Request, Resources};
use crate::case::{Case, Test};
use crate::cases::{NATIVE_CHURNERS, NATIVE_SIZES, NATIVE_THREADS};
use crate::error::Result;
use crate::module::NATIVE_HEAP_BYTES;
use bench_kernels::blocks::{self, BlocksArguments};
use bench_kernels::churn::{self, ChurnArguments};
use scatterheap_host::{Device, Grid};
use simt::kernel::Kernel;

/// Least size with which CUDA's heap is filled until NULL: with smaller blocks that takes too long.
const LEAST_TO_FILL: u64 = 4096;
/// Bytes at most of blocks whose address range is measured, for the same reason.
const MOST_TO_SPREAD: u64 = 16 << 20;

/// The device's own.
#[derive(Debug)]
pub struct Native {
    device: Device,
}

impl Native {
    /// The allocator of a device that has the benchmark's kernels.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
        }
    }

    /// Its name on a device.
    #[must_use]
    pub fn name_on(device: &Device) -> &'static str {
        if device.is_gpu() { "cuda" } else { "system" }
    }

    unsafe fn launch<K>(&self, grid: Grid, request: &Request) -> Result<()>
    where
        K: Kernel<Arguments = BlocksArguments<bench_kernels::Native>>,
    {
        let arguments = BlocksArguments {
            allocator: bench_kernels::Native::default(),
            request: request.for_kernels(),
        };
        // SAFETY: as the caller promises.
        unsafe { self.device.launch::<K>(grid, &arguments)? };
        Ok(())
    }
}

// SAFETY: its kernels store what `malloc` gives them, which is aligned to 16 bytes in CUDA and on hosts with 64-bit addresses,
// and are launched on the default stream; its handle is a word that nothing reads.
unsafe impl Allocator for Native {
    fn name(&self) -> &str {
        Self::name_on(&self.device)
    }

    fn device(&self) -> Option<&Device> {
        Some(&self.device)
    }

    fn can(&self, test: Test) -> bool {
        match test {
            Test::UniformAged
            | Test::MixedAged
            | Test::SizesAged
            | Test::MixedChurned
            | Test::UniformNew
            | Test::MixedNew
            | Test::Oommix
            | Test::Init => false,
            // The system's memory has no size of its own, and its blocks lie among others.
            Test::Oom | Test::Frag | Test::Resources => self.device.is_gpu(),
            _ => true,
        }
    }

    fn takes(&self, case: &Case) -> bool {
        if !self.device.is_gpu() || !self.can(case.test) {
            return self.can(case.test);
        }
        let bytes = case.most * u64::from(case.n);
        match case.test {
            // Thirteen sizes would take it minutes.
            Test::Sizes => false,
            Test::Uniform => case.n <= NATIVE_THREADS && NATIVE_SIZES.contains(&case.most),
            Test::Mixed | Test::Scale | Test::MixedScale | Test::Workgen | Test::Access => {
                case.n <= NATIVE_THREADS
            }
            Test::Churn | Test::Latency | Test::AllocHeavy => case.n <= NATIVE_CHURNERS,
            Test::Large => bytes <= NATIVE_HEAP_BYTES / 2,
            Test::Oom => case.most >= LEAST_TO_FILL,
            Test::Frag => bytes <= MOST_TO_SPREAD,
            _ => true,
        }
    }

    fn heap_bytes(&self, asked: u64) -> u64 {
        if self.device.is_gpu() {
            NATIVE_HEAP_BYTES
        } else {
            asked
        }
    }

    fn handle(&self) -> Option<Handle> {
        Some(Handle::Native(bench_kernels::Native::default()))
    }

    fn resources(&self) -> Result<Option<Resources>> {
        resources::<blocks::NativeAllocateUniform, blocks::NativeFree>(&self.device)
    }

    fn create(&mut self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn destroy(&mut self) {}

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    unsafe fn allocate(&mut self, request: &Request) -> Result<()> {
        let grid = Grid::of(request.n);
        // SAFETY: as the caller promises.
        unsafe {
            match request.sizes {
                0 => self.launch::<blocks::NativeAllocateUniform>(grid, request),
                _ => self.launch::<blocks::NativeAllocateMixed>(grid, request),
            }
        }
    }

    unsafe fn free(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.launch::<blocks::NativeFree>(Grid::of(request.n), request) }
    }

    unsafe fn allocate_of_warps(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.launch::<blocks::NativeAllocateOfWarps>(grid_of_warps(request.n), request) }
    }

    unsafe fn free_of_warps(&mut self, request: &Request) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.launch::<blocks::NativeFreeOfWarps>(grid_of_warps(request.n), request) }
    }

    unsafe fn churn(&mut self, churn: &Churn) -> Result<()> {
        let arguments = ChurnArguments {
            allocator: bench_kernels::Native::default(),
            rounds: churn.for_kernels(),
        };
        // SAFETY: as the caller promises.
        unsafe {
            self.device
                .launch::<churn::NativeChurn>(Grid::of(churn.n), &arguments)?;
        }
        Ok(())
    }
}
