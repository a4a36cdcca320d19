//! A device: a GPU or the CPU.

/// Calls the same method on whichever device it is.
macro_rules! either {
    ($device:expr, $inner:ident => $call:expr) => {
        match &$device.0.kind {
            Kind::Cpu($inner) => $call,
            #[cfg(feature = "cuda")]
            Kind::Cuda($inner) => $call,
        }
    };
}

mod context;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod global;
mod peers;
pub(crate) mod pool;
mod selector;
mod stream;
mod traffic;

pub use context::KeptContext;
pub(crate) use global::Global;
#[cfg(feature = "cuda")]
use pool::PoolNumber;
pub use selector::Selector;
pub use stream::{Event, Stream};
pub use traffic::{DeviceUsage, driver_calls_of_thread};

use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::virtual_memory::{HostMemory, PhysicalMemory, Reservation};
use simt::kernel::Kernel;
use std::fmt;
use std::sync::Arc;

/// PTX of a kernel crate, and the least compute capability that it is for.
#[derive(Clone, Copy, Debug)]
pub struct KernelSource {
    /// Major and minor compute capability.
    pub capability: (u32, u32),
    /// The module.
    pub ptx: &'static str,
}

/// How many threads a launch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Number of blocks.
    pub blocks: u32,
    /// Threads in a block, at most 1024.
    pub block_dim: u32,
}

impl Grid {
    /// Threads in a block where nothing else is said.
    pub const BLOCK_DIM: u32 = 256;

    /// The smallest grid of usual blocks with at least `threads` threads.
    #[must_use]
    pub fn of(threads: u32) -> Self {
        Self {
            blocks: threads.div_ceil(Self::BLOCK_DIM).max(1),
            block_dim: Self::BLOCK_DIM,
        }
    }

    fn check(self) -> Result<()> {
        let threads = self.blocks.checked_mul(self.block_dim);
        let block_fits = (1..=1024).contains(&self.block_dim);
        if block_fits && self.blocks.cast_signed() > 0 && threads.is_some() {
            return Ok(());
        }
        Err(Error::BadGrid {
            blocks: self.blocks,
            block_dim: self.block_dim,
        })
    }
}

/// Bytes of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Free now.
    pub free: u64,
    /// In all.
    pub total: u64,
}

/// What a kernel uses of a multiprocessor of a GPU, as the driver compiled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelUse {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: its stack, that of what it calls, and registers that were spilled.
    pub local_bytes: u32,
}

/// A device. Clones are the same device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    kind: Kind,
    traffic: traffic::Traffic,
    peers: peers::Peers,
    global: global::Current,
}

enum Kind {
    Cpu(cpu::Cpu),
    #[cfg(feature = "cuda")]
    Cuda(cuda::Cuda),
}

impl Device {
    fn of(kind: Kind) -> Self {
        Self(Arc::new(Inner {
            kind,
            traffic: traffic::Traffic::default(),
            peers: peers::Peers::default(),
            global: global::Current::default(),
        }))
    }

    /// The CPU, with a thread for each core and at least two.
    #[must_use]
    pub fn cpu() -> Self {
        Self::cpu_with_threads(cpu::default_threads())
    }

    /// The CPU, with `threads` threads, which stand for the multiprocessors of a GPU.
    #[must_use]
    pub fn cpu_with_threads(threads: u32) -> Self {
        Self::of(Kind::Cpu(cpu::Cpu::new(threads.max(1))))
    }

    /// The GPU with this number, with the best fitting of `sources` loaded. They are trusted as the program itself is: heaps launch their
    /// own kernels by name, and a module that has a kernel of that name is run.
    ///
    /// # Errors
    ///
    /// If there is no driver or no such device, or it refuses the PTX.
    #[cfg(feature = "cuda")]
    pub fn cuda(ordinal: u32, sources: &[KernelSource]) -> Result<Self> {
        let cuda = cuda::Cuda::open(ordinal, sources)?;
        Ok(Self::of(Kind::Cuda(cuda)))
    }

    /// The device that a selector means. `Auto` is the first GPU if there is one that can be
    /// used, else the CPU. The sources are trusted as the program itself is: heaps launch their own kernels by name, and a module that has a
    /// kernel of that name is run.
    ///
    /// # Errors
    ///
    /// If a GPU is asked for, and there is no driver or no such device, it refuses the PTX, or the
    /// feature `cuda` is not there.
    pub fn open(selector: &Selector, sources: &[KernelSource]) -> Result<Self> {
        match selector {
            Selector::Cpu { threads: None } => Ok(Self::cpu()),
            Selector::Cpu {
                threads: Some(threads),
            } => Ok(Self::cpu_with_threads(*threads)),
            #[cfg(feature = "cuda")]
            Selector::Cuda(ordinal) => Self::cuda(*ordinal, sources),
            #[cfg(feature = "cuda")]
            Selector::Auto => Ok(Self::cuda(0, sources).unwrap_or_else(|_| Self::cpu())),
            #[cfg(not(feature = "cuda"))]
            Selector::Cuda(_) => {
                let _ = sources;
                Err(Error::NoGpuSupport)
            }
            #[cfg(not(feature = "cuda"))]
            Selector::Auto => Ok(Self::cpu()),
        }
    }

    /// Number of GPUs; 0 without a driver.
    #[must_use]
    pub fn gpu_count() -> u32 {
        #[cfg(feature = "cuda")]
        return cuda::count().unwrap_or(0);
        #[cfg(not(feature = "cuda"))]
        0
    }

    /// Version of the driver, such as `13.0`, if there is one.
    #[must_use]
    pub fn driver_version() -> Option<String> {
        #[cfg(feature = "cuda")]
        return cuda::driver_version();
        #[cfg(not(feature = "cuda"))]
        None
    }

    /// How a selector names it: `cpu` or `cuda:0`.
    #[must_use]
    pub fn label(&self) -> String {
        either!(self, device => device.label())
    }

    /// What it is, for people.
    #[must_use]
    pub fn name(&self) -> String {
        either!(self, device => device.name())
    }

    /// Whether it is a GPU.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        !matches!(&self.0.kind, Kind::Cpu(_))
    }

    /// Major and minor compute capability of a GPU.
    #[must_use]
    pub fn compute_capability(&self) -> Option<(u32, u32)> {
        match &self.0.kind {
            Kind::Cpu(_) => None,
            #[cfg(feature = "cuda")]
            Kind::Cuda(cuda) => Some(cuda.capability()),
        }
    }

    /// Streaming multiprocessors of a GPU, threads of the CPU device.
    #[must_use]
    pub fn multiprocessors(&self) -> u32 {
        either!(self, device => device.multiprocessors())
    }

    /// Memory free and in all.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        either!(self, device => device.memory_info())
    }

    /// What was asked of it for memory, through this handle and its clones.
    #[must_use]
    pub fn usage(&self) -> DeviceUsage {
        self.0.traffic.usage()
    }

    /// Makes the most memory that was taken at once what is taken now.
    pub fn reset_peak(&self) {
        self.0.traffic.reset_peak();
    }

    /// Whether two handles are of the same device.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Allocates memory of the device, at a multiple of 2 MiB if it is that large. Its content
    /// is undefined.
    ///
    /// # Errors
    ///
    /// If there is not enough.
    pub fn allocate(&self, bytes: u64) -> Result<Memory> {
        self.0.traffic.called(1);
        let address = either!(self, device => device.allocate(bytes.max(1)))?;
        self.0.traffic.took(bytes);
        Ok(Memory::new(self.clone(), address, bytes, true))
    }

    /// Physical memory is made and mapped in multiples of this many bytes, a power of two.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn granule(&self) -> Result<u64> {
        either!(self, device => device.granule())
    }

    /// Bytes, rounded up to granules.
    fn in_granules(&self, bytes: u64) -> Result<u64> {
        let rounded = bytes.max(1).checked_next_multiple_of(self.granule()?);
        match rounded {
            Some(rounded) => Ok(rounded),
            // No address is that large.
            None => Err(Error::OutOfMemory {
                asked: bytes,
                free: self.memory_info()?.free,
            }),
        }
    }

    /// Reserves `bytes` addresses, a multiple of the granule, from a multiple of `alignment` on (a
    /// power of two).
    ///
    /// # Errors
    ///
    /// If there are not as many, or the driver fails.
    pub fn reserve(&self, bytes: u64, alignment: u64) -> Result<Reservation> {
        let bytes = self.in_granules(bytes)?;
        let alignment = alignment.max(self.granule()?);
        let address = either!(self, device => device.reserve(bytes, alignment))?;
        Ok(Reservation::new(self.clone(), address, bytes))
    }

    /// Allocates `bytes` of physical memory, rounded up to granules. Its content is undefined.
    ///
    /// # Errors
    ///
    /// If there is not enough.
    pub fn create_memory(&self, bytes: u64) -> Result<PhysicalMemory> {
        let bytes = self.in_granules(bytes)?;
        self.0.traffic.called(1);
        let handle = either!(self, device => device.create_memory(bytes))?;
        self.0.traffic.took(bytes);
        Ok(PhysicalMemory::new(self.clone(), handle, bytes))
    }

    /// Allocates `bytes` of the host's memory that the device can reach.
    ///
    /// # Errors
    ///
    /// If there is not enough, or the driver fails.
    pub fn allocate_host(&self, bytes: u64) -> Result<HostMemory> {
        let bytes = bytes.max(1);
        let addresses = either!(self, device => device.allocate_host(bytes))?;
        let length = usize::try_from(bytes).unwrap_or(0);
        // SAFETY: just allocated, with that many bytes.
        unsafe { (addresses.0 as *mut u8).write_bytes(0, length) };
        Ok(HostMemory::new(self.clone(), addresses, bytes))
    }

    /// Memory that the caller brings and releases after the last use.
    ///
    /// # Safety
    ///
    /// `bytes` bytes from `address` on must be readable and writable, by this process's copies
    /// and by kernels of the device, until the memory is dropped.
    #[must_use]
    pub unsafe fn adopt(&self, address: u64, bytes: u64) -> Memory {
        Memory::new(self.clone(), address, bytes, false)
    }

    /// Loads another module of kernels; later modules are searched last. Kernels with different limits of registers (`.maxnreg`; 64 where
    /// one does not say) become modules of their own, each with variables of its own. The module is trusted as the program itself is: heaps launch their own kernels by
    /// name, and a module that has a kernel of that name is run.
    ///
    /// # Errors
    ///
    /// If the driver refuses it, or kernels with different limits share a variable that begins with zeroes. On the CPU there is nothing to load.
    pub fn load_module(&self, ptx: &str) -> Result<()> {
        either!(self, device => device.load_module(ptx))
    }

    /// Compiles modules of PTX and links them, so that they may call each other's functions. Gives machine code for this
    /// GPU (a "cubin"), which any program can load that uses it. A kernel that is linked has as many registers as the
    /// function with the most, so all are compiled under a limit of `registers`; 64 lets 1024 threads run on a
    /// multiprocessor at once.
    ///
    /// # Errors
    ///
    /// If the driver refuses them, or this is the CPU.
    pub fn link(&self, modules: &[&str], registers: u32) -> Result<Vec<u8>> {
        either!(self, device => device.link(modules, registers))
    }

    /// Launches a kernel; it may still run when this returns (a CPU has run it by then).
    ///
    /// # Errors
    ///
    /// If the grid is impossible, the kernel is in no module, or the device fails.
    ///
    /// # Safety
    ///
    /// The addresses in `arguments` must be valid as the kernel says, and handles be of heaps that live until it has ended. If it uses Rust's collections: blocks of kernels are freed only by
    /// kernels, the heap that is [global](crate::Heap::make_global) is not reset while it runs, and no [`GlobalHeap`](crate::GlobalHeap) of a heap that is gone was forgotten (`mem::forget`), for it is global still.
    pub unsafe fn launch<K: Kernel>(&self, grid: Grid, arguments: &K::Arguments) -> Result<()> {
        grid.check()?;
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.launch::<K>(grid, arguments) })
    }

    /// Launches a kernel on a stream: after what was enqueued there, and beside other streams.
    ///
    /// # Errors
    ///
    /// As for [`launch`](Self::launch), and if the stream is of another device.
    ///
    /// # Safety
    ///
    /// As for [`launch`](Self::launch).
    pub unsafe fn launch_on<K: Kernel>(
        &self,
        stream: &Stream,
        grid: Grid,
        arguments: &K::Arguments,
    ) -> Result<()> {
        grid.check()?;
        if !self.is_same(stream.device()) {
            return Err(Error::WrongStream {
                stream: stream.device().label(),
                used: self.label(),
            });
        }
        match &self.0.kind {
            // SAFETY: as the caller promises.
            Kind::Cpu(cpu) => unsafe { cpu.launch::<K>(grid, arguments) },
            #[cfg(feature = "cuda")]
            // SAFETY: as the caller promises.
            Kind::Cuda(cuda) => unsafe { cuda.launch_on::<K>(stream.handle(), grid, arguments) },
        }
    }

    /// Waits for all launches. On the CPU a launch has ended when its call returns, and one that another host thread is
    /// making now is not waited for.
    ///
    /// # Errors
    ///
    /// If one of them faulted: then everything on the device is lost.
    pub fn synchronize(&self) -> Result<()> {
        either!(self, device => device.synchronize())
    }

    /// Launches a kernel, waits for it and gives its time in seconds by the device's own clock.
    ///
    /// # Errors
    ///
    /// As for [`launch`](Self::launch) and [`synchronize`](Self::synchronize).
    ///
    /// # Safety
    ///
    /// As for [`launch`](Self::launch).
    pub unsafe fn time<K: Kernel>(&self, grid: Grid, arguments: &K::Arguments) -> Result<f64> {
        grid.check()?;
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.time::<K>(grid, arguments) })
    }

    /// Waits for what was enqueued before, makes calls that enqueue work on the device's default stream, waits for that
    /// work and gives its time in seconds by the device's own clock.
    ///
    /// # Errors
    ///
    /// The error of the calls, or if the device fails or a kernel faults.
    pub fn time_calls<E: From<Error>>(
        &self,
        calls: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<f64, E> {
        self.synchronize()?;
        either!(self, device => device.time_calls(calls))
    }

    /// What a kernel uses. A CPU has no such limits, and says nothing.
    ///
    /// # Errors
    ///
    /// If no loaded module has the kernel, or the driver fails.
    pub fn kernel_use<K: Kernel>(&self) -> Result<Option<KernelUse>> {
        match &self.0.kind {
            Kind::Cpu(_) => Ok(None),
            #[cfg(feature = "cuda")]
            Kind::Cuda(cuda) => cuda.kernel_use(K::NAME).map(Some),
        }
    }

    /// Sets the bytes that kernels can have of CUDA's own `malloc`. Only before the first module that calls it is loaded.
    /// On the CPU there is nothing to set.
    ///
    /// # Errors
    ///
    /// If the driver refuses it: such a module was loaded before.
    pub fn set_malloc_heap(&self, bytes: u64) -> Result<()> {
        either!(self, device => device.set_malloc_heap(bytes))
    }

    /// Gives each thread of kernels a stack of `bytes` bytes at least; it has 4 KiB at least if nothing is said. Kernels that
    /// recurse, sort or format text may need more. A GPU takes that memory for all threads that it can run at
    /// once: an H200 has 270,336. On the CPU there is nothing to set.
    ///
    /// # Errors
    ///
    /// If the driver refuses it: there is not so much memory, or a thread cannot have so much.
    pub fn raise_stack(&self, bytes: u64) -> Result<()> {
        either!(self, device => device.raise_stack(bytes))
    }

    /// Whether a kernel faulted, so that nothing on the device is usable.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        either!(self, device => device.is_lost())
    }

    /// What a call is told that needs what was lost.
    pub(crate) fn why_lost(&self) -> Error {
        either!(self, device => device.why_lost())
    }

    /// Waits for all launches where nobody can be told of errors. If one of them faulted later calls say so.
    pub(crate) fn settle(&self) {
        self.tell_later(self.synchronize());
    }

    /// Keeps an error by which the device was lost for later calls, as nobody can be told of it now.
    pub(crate) fn tell_later(&self, waited: Result<()>) {
        if let Err(error) = waited {
            either!(self, device => device.keep(error));
        }
    }

    /// Makes a lost device usable again. Everything that was on it is gone.
    ///
    /// # Errors
    ///
    /// If the driver cannot.
    pub fn recover(&self) -> Result<()> {
        self.recover_without_global()
    }

    /// Raised by each recovery.
    pub(crate) fn generation(&self) -> u64 {
        either!(self, device => device.generation())
    }

    /// Takes note of calls of the driver that have to do with memory and its order.
    fn called(&self, times: u64) {
        self.0.traffic.called(times);
    }

    pub(crate) unsafe fn release_memory(&self, handle: u64, bytes: u64) {
        self.0.traffic.called(1);
        self.0.traffic.gave(bytes);
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.release_memory(handle, bytes) });
    }

    /// Maps memory, which cannot be accessed yet.
    pub(crate) unsafe fn map(&self, address: u64, bytes: u64, handle: u64) -> Result<()> {
        self.0.traffic.called(1);
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.map(address, bytes, handle) })
    }

    /// Lets kernels of this device and of its peers access what is mapped.
    pub(crate) unsafe fn allow_access(&self, address: u64, bytes: u64) -> Result<()> {
        self.0.traffic.called(1);
        let peers = self.0.peers.all();
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.allow_access(address, bytes, &peers) })
    }

    pub(crate) unsafe fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
        self.0.traffic.called(1);
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.unmap(address, bytes) })
    }

    pub(crate) unsafe fn cancel_reservation(&self, address: u64, bytes: u64) {
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.cancel_reservation(address, bytes) });
    }

    pub(crate) unsafe fn release_host(&self, pointer: u64, bytes: u64) {
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.release_host(pointer, bytes) });
    }

    pub(crate) unsafe fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.copy_to(address, bytes) })
    }

    pub(crate) unsafe fn copy_from(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.copy_from(address, bytes) })
    }

    pub(crate) unsafe fn clear(&self, address: u64, bytes: u64) -> Result<()> {
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.clear(address, bytes) })
    }

    pub(crate) unsafe fn release(&self, address: u64, bytes: u64) {
        self.0.traffic.called(1);
        self.0.traffic.gave(bytes);
        // SAFETY: as the caller promises.
        either!(self, device => unsafe { device.release(address, bytes) });
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Device({})", self.label())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.label(), self.name())
    }
}
