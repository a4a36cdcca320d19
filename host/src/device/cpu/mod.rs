//! The CPU as a device: its threads take blocks of the grid one after another and run each
//! block's threads in order. Each OS thread stands for a multiprocessor, a warp has one lane.

#![allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "a GPU needs itself for the same calls, and its driver can fail"
)]

mod stream;
mod virtual_memory;
mod zeroes;

use super::global::Global;
use super::{Grid, MemoryInfo};
use crate::error::{Error, Result};
use alloc_core::native;
use heap_core::Heap as Handle;
use parking_lot::{RwLock, RwLockReadGuard};
use rayon::{BroadcastContext, ThreadPool, ThreadPoolBuilder};
use simt::emulation::{Position, set_position};
use simt::kernel::Kernel;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

pub(super) struct Cpu {
    threads: u32,
    /// Started by the first launch.
    pool: OnceLock<ThreadPool>,
    memory: virtual_memory::Memory,
    /// Launches that have begun.
    launches: AtomicU32,
    /// The heap that kernels' collections allocate from. Launches hold it until they have ended, so it is bound and unbound between them.
    global: RwLock<Option<Handle>>,
}

/// A thread for each core, and at least two, so that there is something to interleave.
pub(super) fn default_threads() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores).unwrap_or(1).max(2)
}

impl Cpu {
    pub fn new(threads: u32) -> Self {
        Self {
            threads,
            pool: OnceLock::new(),
            memory: virtual_memory::Memory::default(),
            launches: AtomicU32::new(0),
            global: RwLock::new(None),
        }
    }

    pub fn label(&self) -> String {
        if self.threads == default_threads() {
            "cpu".into()
        } else {
            format!("cpu:{}", self.threads)
        }
    }

    pub fn name(&self) -> String {
        format!("CPU, {} threads", self.threads)
    }

    pub fn multiprocessors(&self) -> u32 {
        self.threads
    }

    pub fn memory_info(&self) -> Result<MemoryInfo> {
        let mut system = sysinfo::System::new();
        system.refresh_memory();
        Ok(MemoryInfo {
            free: system.available_memory(),
            total: system.total_memory(),
        })
    }

    pub fn allocate(&self, bytes: u64) -> Result<u64> {
        let free = self.memory_info()?.free;
        let memory = (bytes <= free).then(|| zeroes::allocate(bytes)).flatten();
        memory.ok_or(Error::OutOfMemory { asked: bytes, free })
    }

    pub unsafe fn release(&self, address: u64, bytes: u64) {
        // SAFETY: as the caller promises.
        unsafe { zeroes::release(address, bytes) };
    }

    fn pool(&self) -> Result<&ThreadPool> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(self.threads as usize)
            .thread_name(|index| format!("scatterheap-{index}"))
            .build()
            .map_err(Error::threads(self.threads as usize))?;
        Ok(self.pool.get_or_init(|| pool))
    }

    /// Has all threads run a function, and waits for them.
    fn wait_for(&self, run: &(impl Fn(BroadcastContext<'_>) + Sync)) -> Result<()> {
        let pool = self.pool()?;
        if pool.current_thread_index().is_some() || rayon::current_thread_index().is_none() {
            pool.broadcast(run);
            return Ok(());
        }
        // A thread of somebody else's pool takes up other work of that pool while it waits, such as another call of the same heap in the middle of this
        // one. So it is a plain thread that waits for ours.
        thread::scope(|scope| {
            let waiting = thread::Builder::new().spawn_scoped(scope, || pool.broadcast(run));
            let _threads_are_done = waiting.map_err(Error::threads(1))?.join();
            Ok(())
        })
    }

    /// The heap of kernels' collections, for a launch.
    fn hold_global(&self) -> RwLockReadGuard<'_, Option<Handle>> {
        let is_ours = |pool: &ThreadPool| pool.current_thread_index().is_some();
        if self.pool.get().is_some_and(is_ours) {
            // A kernel launches another: it must not wait behind who waits for it.
            return self.global.read_recursive();
        }
        self.global.read()
    }

    pub unsafe fn launch<K: Kernel>(&self, grid: Grid, arguments: &K::Arguments) -> Result<()> {
        // Relaxed: the counter only deals blocks out.
        let next = AtomicU32::new(0);
        let failed = AtomicBool::new(false);
        // Relaxed: the number only tells launches apart.
        let grid_id = self.launches.fetch_add(1, Ordering::Relaxed);
        let global = self.hold_global();
        let run = |context: BroadcastContext<'_>| {
            let sm_id = u32::try_from(context.index()).unwrap_or(0);
            loop {
                let block_index = next.fetch_add(1, Ordering::Relaxed);
                if block_index >= grid.blocks || failed.load(Ordering::Relaxed) {
                    break;
                }
                let block = || {
                    for thread_index in 0..grid.block_dim {
                        set_position(Position {
                            thread_index,
                            block_dim: grid.block_dim,
                            block_index,
                            grid_dim: grid.blocks,
                            grid_id,
                            sm_id,
                        });
                        // SAFETY: as the caller promises.
                        unsafe { K::body(arguments) };
                    }
                };
                let in_heap = || match &*global {
                    // SAFETY: what is bound is unbound before the heap goes, and not before this launch has ended; blocks of kernels are for kernels, as the caller promises.
                    Some(heap) => unsafe { native::in_kernel(heap, block) },
                    None => block(),
                };
                if catch_unwind(AssertUnwindSafe(in_heap)).is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
            }
        };
        self.wait_for(&run)?;
        if failed.into_inner() {
            return Err(Error::KernelFault {
                kernel: Some(K::NAME),
                message: "its body panicked".into(),
            });
        }
        Ok(())
    }

    pub fn why_lost(&self) -> Error {
        Error::HeapLost
    }

    /// Nothing is lost here.
    pub fn keep(&self, _error: Error) {}

    pub fn load_module(&self, _ptx: &str) -> Result<()> {
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "the same signature as that of GPUs")]
    pub fn link(&self, _modules: &[&str], _registers: u32) -> Result<Vec<u8>> {
        Err(Error::NothingToLinkFor)
    }

    pub unsafe fn time<K: Kernel>(&self, grid: Grid, arguments: &K::Arguments) -> Result<f64> {
        self.pool()?;
        let start = Instant::now();
        // SAFETY: as the caller promises.
        unsafe { self.launch::<K>(grid, arguments)? };
        Ok(start.elapsed().as_secs_f64())
    }

    pub fn time_calls<E: From<Error>>(
        &self,
        calls: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<f64, E> {
        self.pool()?;
        let start = Instant::now();
        calls()?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Tells later launches the heap that kernels' collections allocate from.
    pub fn write_global(&self, global: Option<Global>) -> Result<()> {
        let handle = global.map(|global| global.binding.heap);
        *self.global.write() = handle;
        Ok(())
    }

    /// Nothing is to be done before launches are waited for: later ones wait until the heap is unbound.
    pub fn withdraw_global(&self) {}

    /// The system decides how large stacks are, and they are much larger.
    pub fn raise_stack(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// The system's malloc has no heap of its own.
    pub fn set_malloc_heap(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    pub fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    pub fn holds(&self, _address: u64) -> bool {
        true
    }

    pub fn is_lost(&self) -> bool {
        false
    }

    pub fn recover(&self) -> Result<()> {
        Ok(())
    }

    pub fn generation(&self) -> u64 {
        0
    }

    pub unsafe fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { std::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }

    pub unsafe fn copy_from(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { std::ptr::copy(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    pub unsafe fn clear(&self, address: u64, bytes: u64) -> Result<()> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: as the caller promises.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0, length) };
        Ok(())
    }
}
