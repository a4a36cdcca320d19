//! A GPU, through the driver: the primary context of the device, its default stream, and the
//! modules of kernels.
//!
//! The driver is loaded at run time. A kernel that faults poisons the whole context: the device
//! is *lost* until it is recovered, which resets the context and loads the modules again, and
//! raises the generation, by which memory knows that it is gone. Drivers may refuse that: with
//! driver 580 on an H200 every new context of the process fails with the old fault, whatever was
//! reset, released or destroyed before, and so do the contexts of other GPUs; only a new process helps.

mod braces;
mod context;
mod global;
mod module;
mod pool;
mod stream;
mod virtual_memory;

pub(super) use context::{begin_to_keep, end_to_keep};

use self::module::Module;
use super::global::Global;
use super::{Grid, KernelSource, KernelUse, MemoryInfo};
use crate::error::{Error, Result};
use cudarc::driver::sys::{CUcontext, CUdevice, CUfunction, CUresult};
use cudarc::driver::{DriverError, result, sys};
use simt::kernel::Kernel;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of the log that the driver's compiler may fill.
const LOG_BYTES: usize = 16 << 10;

/// Bytes of a thread's stack at least, where nothing else is said.
const STACK_BYTES: usize = 4 << 10;

pub(super) struct Cuda {
    ordinal: u32,
    device: CUdevice,
    name: String,
    capability: (u32, u32),
    multiprocessors: u32,
    /// What a recovery replaces; read by those who wait for the device too, so without a lock.
    context: AtomicPtr<sys::CUctx_st>,
    state: Mutex<State>,
    /// The kernel launched here last, if any was, to be named if one faulted.
    last: Mutex<Option<&'static str>>,
    /// Where the host finds what kernels could not get of the global heap, if there is one. Nothing else is locked while
    /// this is.
    failures: Mutex<Option<u64>>,
    lost: AtomicBool,
    /// Why it is lost, where nobody could be told.
    untold: Mutex<Option<Error>>,
    generation: AtomicU64,
}

/// An event of the driver.
struct Event(sys::CUevent);

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `start`, and recorded nowhere any more. An error has nobody to go to.
        let _destroyed = unsafe { result::event::destroy(self.0) };
    }
}

/// Where a time begins and ends.
struct Stopwatch(Event, Event);

/// What a recovery makes anew. It is never locked while the device is waited for.
struct State {
    modules: Vec<Module>,
    functions: HashMap<&'static str, Function>,
    /// PTX of the modules, to load them again.
    sources: Vec<String>,
    /// Bytes of the heap of CUDA's own `malloc`, if they were set.
    malloc_heap: Option<usize>,
    /// The heap that kernels' collections allocate from.
    global: Option<Box<Global>>,
    /// Bytes of a thread's stack at least.
    stack: usize,
}

impl State {
    /// Gives a new context, which is current, what the one before had.
    fn restore(&mut self) -> Result<()> {
        if !self.sources.is_empty() {
            raise_stack(self.stack)?;
        }
        if let Some(bytes) = self.malloc_heap {
            set_limit(sys::CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE, bytes)?;
        }
        for source in &self.sources {
            self.modules.extend(module::load(source)?);
        }
        Ok(())
    }
}

/// A kernel in a module.
#[derive(Clone, Copy)]
struct Function {
    function: CUfunction,
    /// Whether its module wants a global heap.
    wants_global: bool,
}

// SAFETY: contexts, modules and functions may be used from any thread that has made the context
// current, which every call here does first.
unsafe impl Send for State {}

fn text(error: DriverError) -> String {
    let name = error.error_name().map(CStr::to_string_lossy);
    let words = error.error_string().map(CStr::to_string_lossy);
    match (name, words) {
        (Ok(name), Ok(words)) => format!("{name}: {words}"),
        _ => format!("{:?}", error.0),
    }
}

fn failed(action: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| Error::Driver {
        action,
        message: text(error),
    }
}

/// Loads the driver, if there is one.
fn initialise() -> Result<()> {
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::NoDriver);
    }
    result::init().map_err(|error| match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => Error::NoSuchDevice { asked: 0, found: 0 },
        _ => failed("initialise")(error),
    })
}

pub(super) fn count() -> Result<u32> {
    initialise()?;
    let count = result::device::get_count().map_err(failed("count the devices"))?;
    Ok(count.unsigned_abs())
}

pub(super) fn driver_version() -> Option<String> {
    initialise().ok()?;
    let mut version = 0;
    // SAFETY: writes the version to the variable.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .ok()?;
    Some(format!("{}.{}", version / 1000, version % 1000 / 10))
}

fn attribute(device: CUdevice, which: sys::CUdevice_attribute) -> Result<u32> {
    // SAFETY: the device was found by the driver.
    let value = unsafe { result::device::get_attribute(device, which) };
    value
        .map(i32::unsigned_abs)
        .map_err(failed("read a device's attributes"))
}

impl Cuda {
    pub fn open(ordinal: u32, sources: &[KernelSource]) -> Result<Self> {
        use sys::CUdevice_attribute as Attribute;
        let found = match count() {
            Err(Error::NoSuchDevice { .. }) => 0,
            other => other?,
        };
        if ordinal >= found {
            return Err(Error::NoSuchDevice {
                asked: ordinal,
                found,
            });
        }
        let device = result::device::get(ordinal.cast_signed()).map_err(failed("open a device"))?;
        let capability = (
            attribute(
                device,
                Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            )?,
            attribute(
                device,
                Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )?,
        );
        let source = best_source(sources, capability)?;
        let cuda = Self {
            ordinal,
            device,
            name: result::device::get_name(device).map_err(failed("name a device"))?,
            capability,
            multiprocessors: attribute(
                device,
                Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )?,
            context: AtomicPtr::new(retain(device).map_err(failed("make a context"))?),
            last: Mutex::new(None),
            state: Mutex::new(State {
                modules: Vec::new(),
                functions: HashMap::new(),
                sources: Vec::new(),
                malloc_heap: None,
                global: None,
                stack: STACK_BYTES,
            }),
            failures: Mutex::new(None),
            lost: AtomicBool::new(false),
            untold: Mutex::new(None),
            generation: AtomicU64::new(0),
        };
        if let Some(source) = source {
            cuda.load_module(source.ptx)?;
        }
        Ok(cuda)
    }

    pub fn label(&self) -> String {
        label(self.ordinal)
    }

    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Lets this GPU's kernels access the memory that `owner` allocates.
    pub fn enable_peer_access(&self, owner: &Self) -> Result<()> {
        let mut can = 0;
        // SAFETY: writes the answer to the variable.
        unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, self.device, owner.device) }
            .result()
            .map_err(failed("ask whether devices can access each other"))?;
        if can == 0 {
            return Err(Error::NoPeerAccess {
                device: self.label(),
                owner: owner.label(),
            });
        }
        self.enter()?;
        // Acquire: pairs with `recover`.
        let context = owner.context.load(Ordering::Acquire);
        // SAFETY: the context is retained until the device is dropped.
        match unsafe { sys::cuCtxEnablePeerAccess(context, 0) }.result() {
            Ok(()) | Err(DriverError(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)) => Ok(()),
            Err(error) => Err(self.judge("let devices access each other", error)),
        }
    }

    pub fn name(&self) -> String {
        self.name.clone()
    }

    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Makes the context current for the calling thread.
    fn enter(&self) -> Result<()> {
        if self.is_lost() {
            return Err(self.why_lost());
        }
        self.make_current()
    }

    /// The same to release something; false if that is gone with the device.
    fn enter_to_release(&self) -> bool {
        !self.is_lost() && self.make_current().is_ok()
    }

    fn make_current(&self) -> Result<()> {
        // Acquire: pairs with `recover`.
        let context = self.context.load(Ordering::Acquire);
        // SAFETY: the context is retained until the device is dropped.
        unsafe { context::make_current(context) }.map_err(failed("enter a context"))
    }

    /// What a call of a lost device is told: that it is lost, or also why, if that could not be told when it was.
    pub fn why_lost(&self) -> Error {
        let untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.as_ref().map_or(Error::HeapLost, again)
    }

    /// Keeps an error by which the device was lost, and that nobody can be told now, for later calls.
    pub fn keep(&self, error: Error) {
        if matches!(
            error,
            Error::KernelFault { .. }
                | Error::KernelOutOfMemory { .. }
                | Error::LostWithAnother { .. }
        ) {
            *self.untold.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// Makes the context current and locks the state.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        self.enter()?;
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Turns an error into one that says what became of the device.
    fn judge(&self, action: &'static str, error: DriverError) -> Error {
        use CUresult as Code;
        let fatal = matches!(
            error.0,
            Code::CUDA_ERROR_ILLEGAL_ADDRESS
                | Code::CUDA_ERROR_LAUNCH_FAILED
                | Code::CUDA_ERROR_LAUNCH_TIMEOUT
                | Code::CUDA_ERROR_ASSERT
                | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
                | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | Code::CUDA_ERROR_MISALIGNED_ADDRESS
                | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
                | Code::CUDA_ERROR_INVALID_PC
                | Code::CUDA_ERROR_ECC_UNCORRECTABLE
                | Code::CUDA_ERROR_CONTEXT_IS_DESTROYED
        );
        if !fatal {
            return failed(action)(error);
        }
        // Release: pairs with `is_lost`.
        self.lost.store(true, Ordering::Release);
        let kernel = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let ordinal = self.ordinal;
        // Only kernels that were launched here note any.
        if let Some(launched) = kernel
            && let Some(failed) = self.noted_failures()
        {
            *first_fault() = Some(Fault { ordinal, kernel });
            let kernel = launched;
            return Error::KernelOutOfMemory { kernel, failed };
        }
        let first = *first_fault().get_or_insert(Fault { ordinal, kernel });
        let kernel = first.kernel;
        if first.ordinal == ordinal {
            let message = text(error);
            return Error::KernelFault { kernel, message };
        }
        Error::LostWithAnother {
            device: self.label(),
            kernel,
            other: label(first.ordinal),
        }
    }

    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.enter()?;
        let (free, total) =
            result::mem_get_info().map_err(|error| self.judge("ask for the memory", error))?;
        Ok(MemoryInfo {
            free: free as u64,
            total: total as u64,
        })
    }

    /// The error of a request that the driver has no memory for.
    fn out_of_memory(&self, asked: u64) -> Error {
        let free = self.memory_info().map_or_else(
            |error| {
                self.keep(error);
                0
            },
            |memory| memory.free,
        );
        Error::OutOfMemory { asked, free }
    }

    pub fn allocate(&self, bytes: u64) -> Result<u64> {
        self.enter()?;
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the memory is released by `release`.
        unsafe { result::malloc_sync(length) }.map_err(|error| match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => self.out_of_memory(bytes),
            _ => self.judge("allocate memory", error),
        })
    }

    pub unsafe fn release(&self, address: u64, _bytes: u64) {
        if self.enter_to_release() {
            // SAFETY: as the caller promises.
            if let Err(error) = unsafe { result::free_sync(address) } {
                self.keep(self.judge("free memory", error));
            }
        }
    }

    pub fn load_module(&self, ptx: &str) -> Result<()> {
        let mut state = self.state()?;
        // Not before there is a kernel: stacks take memory of the device, also from others who use it.
        raise_stack(state.stack)?;
        let modules = module::load(ptx)?;
        for module in &modules {
            if let Err(error) = global::write(module, state.global.as_deref()) {
                module::unload(&modules);
                return Err(self.judge(global::TELL, error));
            }
        }
        state.modules.extend(modules);
        state.sources.push(ptx.to_owned());
        Ok(())
    }

    pub fn link(&self, modules: &[&str], registers: u32) -> Result<Vec<u8>> {
        self.enter()?;
        module::link(modules, registers)
    }

    pub unsafe fn launch<K: Kernel>(&self, grid: Grid, arguments: &K::Arguments) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.launch_on::<K>(0, grid, arguments) }
    }

    /// Launches on a stream, 0 for the default stream.
    pub unsafe fn launch_on<K: Kernel>(
        &self,
        stream: u64,
        grid: Grid,
        arguments: &K::Arguments,
    ) -> Result<()> {
        let mut state = self.state()?;
        // SAFETY: as the caller promises.
        unsafe { self.launch_locked::<K>(&mut state, stream, grid, arguments) }
    }

    fn find_function(&self, state: &mut State, name: &'static str) -> Result<Function> {
        if let Some(function) = state.functions.get(name) {
            return Ok(*function);
        }
        for module in &state.modules {
            let function = module.function(name);
            let function = function.map_err(|error| self.judge("find a kernel", error))?;
            if let Some(function) = function {
                let wants_global = module.wants_global;
                let found = Function {
                    function,
                    wants_global,
                };
                state.functions.insert(name, found);
                return Ok(found);
            }
        }
        Err(Error::NoSuchKernel(name))
    }

    unsafe fn launch_locked<K: Kernel>(
        &self,
        state: &mut State,
        stream: u64,
        grid: Grid,
        arguments: &K::Arguments,
    ) -> Result<()> {
        let Function {
            function,
            wants_global,
        } = self.find_function(state, K::NAME)?;
        Self::check_global(wants_global, state.global.is_some(), K::NAME)?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(K::NAME);
        let mut parameters = [std::ptr::from_ref(arguments).cast_mut().cast::<c_void>()];
        // SAFETY: the kernel trait promises that the function takes these arguments, by value.
        let launched = unsafe {
            result::launch_kernel(
                function,
                (grid.blocks, 1, 1),
                (grid.block_dim, 1, 1),
                0,
                stream as sys::CUstream,
                &mut parameters,
            )
        };
        launched.map_err(|error| self.judge("launch a kernel", error))
    }

    pub unsafe fn time<K: Kernel>(&self, grid: Grid, arguments: &K::Arguments) -> Result<f64> {
        // SAFETY: as the caller promises.
        self.time_calls(|| unsafe { self.launch::<K>(grid, arguments) })
    }

    pub fn time_calls<E: From<Error>>(
        &self,
        calls: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<f64, E> {
        let stopwatch = self.start()?;
        // The state is not locked here: the calls lock it.
        let called = calls();
        let elapsed = self.stop(&stopwatch);
        called?;
        Ok(elapsed?)
    }

    /// Makes two events, and records the first.
    fn start(&self) -> Result<Stopwatch> {
        self.enter()?;
        let judge = |error| self.judge("begin to time", error);
        let create = || {
            result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
                .map(Event)
                .map_err(judge)
        };
        let stopwatch = Stopwatch(create()?, create()?);
        // SAFETY: the event was just made in the current context.
        unsafe { result::event::record(stopwatch.0.0, std::ptr::null_mut()) }.map_err(judge)?;
        Ok(stopwatch)
    }

    /// Records the second event and waits for it; the seconds since the first.
    fn stop(&self, stopwatch: &Stopwatch) -> Result<f64> {
        self.enter()?;
        let Stopwatch(Event(start), Event(end)) = stopwatch;
        // SAFETY: the events are of the current context.
        let milliseconds = unsafe {
            result::event::record(*end, std::ptr::null_mut())
                .and_then(|()| result::event::synchronize(*end))
                .and_then(|()| result::event::elapsed(*start, *end))
        };
        let milliseconds = milliseconds.map_err(|error| self.judge("time calls", error))?;
        Ok(f64::from(milliseconds) / 1000.0)
    }

    pub fn kernel_use(&self, name: &'static str) -> Result<KernelUse> {
        use sys::CUfunction_attribute as Attribute;
        let mut state = self.state()?;
        let function = self.find_function(&mut state, name)?.function;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: writes the attribute of a loaded function to the variable.
            unsafe { sys::cuFuncGetAttribute(&raw mut value, which, function) }
                .result()
                .map(|()| value.unsigned_abs())
                .map_err(failed("read a kernel's attributes"))
        };
        Ok(KernelUse {
            registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        })
    }

    pub fn raise_stack(&self, bytes: u64) -> Result<()> {
        let mut state = self.state()?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        raise_stack(bytes)?;
        state.stack = state.stack.max(bytes);
        Ok(())
    }

    pub fn set_malloc_heap(&self, bytes: u64) -> Result<()> {
        let mut state = self.state()?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        set_limit(sys::CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE, bytes)?;
        state.malloc_heap = Some(bytes);
        Ok(())
    }

    pub fn synchronize(&self) -> Result<()> {
        self.enter()?;
        result::ctx::synchronize().map_err(|error| self.judge("wait for a kernel", error))
    }

    pub fn is_lost(&self) -> bool {
        // Acquire: pairs with `judge`.
        self.lost.load(Ordering::Acquire)
    }

    pub fn generation(&self) -> u64 {
        // Acquire: pairs with `recover`.
        self.generation.load(Ordering::Acquire)
    }

    pub fn recover(&self) -> Result<()> {
        if !self.is_lost() {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_lost() {
            // Another thread recovered it meanwhile, and may have memory there by now.
            return Ok(());
        }
        // What was noted of the global heap lies in memory that goes too.
        self.forget_failures();
        state.global = None;
        *self.untold.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // SAFETY: nothing of the old context is used again: its modules are forgotten here, its
        // memory by the generation.
        let reset = unsafe { sys::cuDevicePrimaryCtxReset_v2(self.device) }.result();
        state.modules.clear();
        state.functions.clear();
        let not_recoverable = |error| Error::NotRecoverable {
            message: text(error),
        };
        reset.map_err(not_recoverable)?;
        let context = retain(self.device).map_err(not_recoverable)?;
        if let Err(error) = state.restore() {
            // The next attempt retains it again.
            // SAFETY: just retained.
            let _released = unsafe { result::primary_ctx::release(self.device) };
            return Err(error);
        }
        // Release: pairs with `enter`.
        self.context.store(context, Ordering::Release);
        // Release: who sees the new generation sees the new state (and takes the lock anyway).
        self.generation.fetch_add(1, Ordering::Release);
        *first_fault() = None;
        self.lost.store(false, Ordering::Release);
        Ok(())
    }

    pub unsafe fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: as the caller promises.
        unsafe { result::memcpy_htod_sync(address, bytes) }
            .map_err(|error| self.judge("copy to the device", error))
    }

    pub unsafe fn copy_from(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: as the caller promises.
        unsafe { result::memcpy_dtoh_sync(bytes, address) }
            .map_err(|error| self.judge("copy from the device", error))
    }

    pub unsafe fn clear(&self, address: u64, bytes: u64) -> Result<()> {
        self.enter()?;
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: as the caller promises.
        unsafe { result::memset_d8_sync(address, 0, length) }
            .map_err(|error| self.judge("clear memory", error))
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.enter_to_release() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            // No launch is left: memory and heaps keep the device alive.
            module::unload(&state.modules);
        }
        // SAFETY: retained by `open` or `recover`.
        let _released = unsafe { result::primary_ctx::release(self.device) };
    }
}

fn label(ordinal: u32) -> String {
    format!("cuda:{ordinal}")
}

/// A fault: the GPU, and the kernel that was launched there last, if any was.
#[derive(Clone, Copy)]
struct Fault {
    ordinal: u32,
    kernel: Option<&'static str>,
}

/// The fault of the process that was told first since a GPU was recovered: the driver tells it of all of them. Which is asked first is not known to be the one that faulted,
/// but where threads noted what they could not get.
fn first_fault() -> MutexGuard<'static, Option<Fault>> {
    static FIRST: Mutex<Option<Fault>> = Mutex::new(None);
    FIRST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error by which a device was lost, once more.
fn again(error: &Error) -> Error {
    match error {
        Error::KernelFault { kernel, message } => Error::KernelFault {
            kernel: *kernel,
            message: message.clone(),
        },
        Error::KernelOutOfMemory { kernel, failed } => Error::KernelOutOfMemory {
            kernel,
            failed: *failed,
        },
        Error::LostWithAnother {
            device,
            kernel,
            other,
        } => Error::LostWithAnother {
            device: device.clone(),
            kernel: *kernel,
            other: other.clone(),
        },
        _ => Error::HeapLost,
    }
}

/// Sets a limit of the current context.
fn set_limit(limit: sys::CUlimit, bytes: usize) -> Result<()> {
    // SAFETY: only sets a number of the current context.
    unsafe { sys::cuCtxSetLimit(limit, bytes) }
        .result()
        .map_err(failed("set a limit of kernels"))
}

/// Gives each thread a stack of so many bytes if it has less: of kernels that recurse or call through pointers
/// the driver's compiler cannot see how much they need.
fn raise_stack(least: usize) -> Result<()> {
    let limit = sys::CUlimit::CU_LIMIT_STACK_SIZE;
    let mut bytes = 0;
    // SAFETY: writes the limit of the current context to the variable.
    unsafe { sys::cuCtxGetLimit(&raw mut bytes, limit) }
        .result()
        .map_err(failed("read a limit of kernels"))?;
    if bytes < least {
        set_limit(limit, least)?;
    }
    Ok(())
}

/// Retains the primary context of a device and makes it current. Who has the device releases it.
fn retain(device: CUdevice) -> std::result::Result<CUcontext, DriverError> {
    // SAFETY: released below, or as said.
    let context = unsafe { result::primary_ctx::retain(device) }?;
    // SAFETY: just retained.
    if let Err(error) = unsafe { context::make_current(context) } {
        // SAFETY: retained above, and nobody has it.
        let _released = unsafe { result::primary_ctx::release(device) };
        return Err(error);
    }
    Ok(context)
}

/// The source for the highest capability that the device has. No sources at all are fine: then
/// modules are loaded later.
fn best_source(sources: &[KernelSource], capability: (u32, u32)) -> Result<Option<&KernelSource>> {
    let best = sources
        .iter()
        .filter(|source| source.capability <= capability)
        .max_by_key(|source| source.capability);
    match (best, sources.iter().map(|source| source.capability.0).min()) {
        (None, Some(least)) => Err(Error::TooOld {
            found: capability,
            least,
        }),
        _ => Ok(best),
    }
}
