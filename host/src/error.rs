//! What can go wrong, each in one line: what was asked, what was found, what to do.

use crate::size::Bytes;
use alloc_core::Failed;
use heap_core::layout::{MAX_CAPACITY, MIN_CAPACITY};
use std::path::PathBuf;

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a device or of a heap on it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no NVIDIA driver.
    #[error(
        "a GPU was asked for, but no NVIDIA driver (libcuda) was found: install the driver, or use the device `cpu`"
    )]
    NoDriver,
    /// This build has no GPU support.
    #[error(
        "a GPU was asked for, but this build has no GPU support: build with the feature `cuda`, or use the device `cpu`"
    )]
    NoGpuSupport,
    /// There is no device with this number.
    #[error("device cuda:{asked} was asked for, but there {}: choose one of those, or `cpu`", counted(*.found))]
    NoSuchDevice {
        /// Number asked for.
        asked: u32,
        /// Devices that there are.
        found: u32,
    },
    /// No embedded kernel runs on the device.
    #[error("the GPU has compute capability {}.{}, but kernels are built for {least}.x and above: use a newer GPU, or the device `cpu`", .found.0, .found.1)]
    TooOld {
        /// Compute capability of the device.
        found: (u32, u32),
        /// Lowest major capability that there are kernels for.
        least: u32,
    },
    /// A device was named in a way that means none.
    #[error(
        "`{0}` names no device: use `auto`, `cpu`, `cpu:THREADS` with 1 to 1024 threads, or `cuda:NUMBER`"
    )]
    BadSelector(String),
    /// A capacity too small for any heap.
    #[error(
        "a heap of {0} bytes was asked for, but the smallest has {min}, {MIN_CAPACITY} bytes: ask for more",
        min = Bytes(MIN_CAPACITY)
    )]
    CapacityTooSmall(u64),
    /// A capacity too large for any heap.
    #[error("a heap of {} was asked for, but the largest has {}: ask for less", Bytes(*.0), Bytes(MAX_CAPACITY))]
    CapacityTooLarge(u64),
    /// More than the device has free.
    #[error("a heap of {} needs {} with its metadata, but the device has {} free: ask for less, or free memory on the device", Bytes(*.capacity), Bytes(*.needed), Bytes(*.free))]
    OutOfDeviceMemory {
        /// Capacity asked for, in bytes.
        capacity: u64,
        /// Bytes needed for it.
        needed: u64,
        /// Bytes that the device has free.
        free: u64,
    },
    /// An allocation that is not a heap's.
    #[error("{} of device memory were asked for, but the device has {} free: use a smaller workload, or free memory on the device", Bytes(*.asked), Bytes(*.free))]
    OutOfMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes that the device has free.
        free: u64,
    },
    /// Memory of the host for what is read back from a device.
    #[error("{} of the host's memory were asked for, to read back what is on the device, but it has no more: free memory, or raise the process's limit", Bytes(*.asked))]
    OutOfHostMemory {
        /// Bytes asked for.
        asked: u64,
    },
    /// A region that has no room for a heap.
    #[error("a region of {} at {address:#x} was given, but a heap needs at least {} there: give a larger region", Bytes(*.bytes), Bytes(*.needed))]
    RegionTooSmall {
        /// Address of the region.
        address: u64,
        /// Its size in bytes.
        bytes: u64,
        /// Bytes that would do.
        needed: u64,
    },
    /// A heap that may become smaller than it is.
    #[error("a heap of {} was asked for that may become {}: give at least the capacity as the most", Bytes(*.capacity), Bytes(*.most))]
    MostBelowCapacity {
        /// Capacity asked for, in bytes.
        capacity: u64,
        /// The most that was asked for, in bytes.
        most: u64,
    },
    /// A heap that may become larger, and never grows.
    #[error("a heap of {} was asked for that may become {}, but with the growth `fixed`: leave out the most, or let it grow `between-launches` or `live`", Bytes(*.capacity), Bytes(*.most))]
    MostOfFixed {
        /// Capacity asked for, in bytes.
        capacity: u64,
        /// The most that was asked for, in bytes.
        most: u64,
    },
    /// A heap in memory that the caller brought cannot grow.
    #[error(
        "a heap in a given region was asked to grow, but only memory of its own can: leave out the region, or the growth"
    )]
    GrowthInRegion,
    /// Memory that comes while kernels run cannot be poisoned before.
    #[error(
        "a heap with poison was asked to grow while kernels run, but new memory is poisoned between launches: use `Growth::BetweenLaunches`, or leave out the poison"
    )]
    PoisonWhileGrowing,
    /// A heap was asked to grow or shrink, but has its capacity for ever.
    #[error("a heap of {} was asked to grow or shrink, but it is fixed: build it with a `max_capacity`", Bytes(*.0))]
    FixedCapacity(u64),
    /// A heap was asked to become larger than it may be.
    #[error("{} were asked for in a heap of {}, but it may have {} at most: ask for less, or build it with a larger `max_capacity`", Bytes(*.asked), Bytes(*.capacity), Bytes(*.most))]
    CannotGrow {
        /// Capacity asked for, in bytes.
        asked: u64,
        /// Bytes that it has.
        capacity: u64,
        /// Bytes that it may have.
        most: u64,
    },
    /// A heap whose blocks have no headers was asked for what is in them.
    #[error(
        "a leak report was asked for of a heap with the modes {0}, whose blocks do not know where they come from: build it with `Hardening::TAGS`, or `harden=tags`"
    )]
    NotFramed(String),
    /// The driver refused PTX.
    #[error("the driver refused the kernels' PTX ({message}); its log says: {log}")]
    PtxRejected {
        /// The driver's error.
        message: String,
        /// The log of its compiler.
        log: String,
    },
    /// Each limit of registers makes a module of its own, with variables of its own.
    #[error(
        "a module was loaded whose kernels have different limits of registers ({limits}) and share the variable `{variable}`, of which each limit would have its own: give all of them the same limit, or keep the value in memory that the host allocates"
    )]
    SharedVariable {
        /// Its name in the module.
        variable: String,
        /// The limits, with commas between.
        limits: String,
    },
    /// Machine code is for GPUs.
    #[error(
        "modules of PTX were to be linked for the device `cpu`, which runs no PTX: link them for a GPU"
    )]
    NothingToLinkFor,
    /// A module does not have a kernel.
    #[error(
        "kernel `{0}` was launched, but no loaded module has it: load the module that was built with it"
    )]
    NoSuchKernel(&'static str),
    /// A launch of no threads, or of more than a device takes.
    #[error(
        "a grid of {blocks} blocks of {block_dim} threads was asked for, but a grid has 1 to 2^31 - 1 blocks of 1 to 1024 threads, and fewer than 2^32 threads"
    )]
    BadGrid {
        /// Blocks asked for.
        blocks: u32,
        /// Threads in a block.
        block_dim: u32,
    },
    /// A kernel ended abnormally. Everything on the device is lost. On a GPU it may be anybody's: the driver does not tell which.
    #[error(
        "a kernel faulted ({message}; {}); what was on the device is lost: start a new process, or in Rust `rebuild` the heap, where the driver allows that",
        last_launched(*.kernel)
    )]
    KernelFault {
        /// The kernel that was launched here last, if any was.
        kernel: Option<&'static str>,
        /// The driver's error.
        message: String,
    },
    /// A GPU was lost because a kernel faulted on another one, as it seems.
    #[error(
        "{device} was lost when a kernel faulted, by the first call that was told on {other} ({}): a fault takes all GPUs from its process; start a new process",
        last_launched(*.kernel)
    )]
    LostWithAnother {
        /// The device.
        device: String,
        /// The kernel that was launched here last on the device whose calls were told of the fault first, if any was.
        kernel: Option<&'static str>,
        /// That device.
        other: String,
    },
    /// A kernel ended because a collection could not grow. Everything on the device is lost.
    #[error(
        "kernel `{kernel}` ran out of memory: {} of its threads had to have memory that the global heap did not have, thread {} of them {}; make the heap larger, or use `try_reserve`; what was on the device is lost: start a new process",
        .failed.count, .failed.thread, Bytes(.failed.bytes)
    )]
    KernelOutOfMemory {
        /// The kernel launched last.
        kernel: &'static str,
        /// What was asked for.
        failed: Failed,
    },
    /// A kernel of a module that wants a global heap was launched where there is none.
    #[error(
        "kernel `{0}` was launched, whose module allocates from the global heap, but none is: call `make_global` on a heap of the device, and keep what it gives"
    )]
    NoGlobalHeap(&'static str),
    /// A device has one global heap at most.
    #[error(
        "a heap was to be made the global heap of {0}, but another one is: drop what its `make_global` gave before, or pass the heap to kernels and use its `alloc`"
    )]
    GlobalHeapTaken(String),
    /// The driver does not give the device back to this process after a fault.
    #[error(
        "the device was lost when a kernel faulted, and the driver does not give it back to this process ({message}): start a new process"
    )]
    NotRecoverable {
        /// The driver's error.
        message: String,
    },
    /// A heap in memory that the caller brought was lost with it.
    #[error(
        "the heap was lost when a kernel faulted, and its memory was brought by the caller: build a new heap in a new region"
    )]
    RegionLost,
    /// A heap was used after its device faulted.
    #[error(
        "the heap was lost when a kernel faulted: start a new process, or in Rust `rebuild` it, where the driver allows that"
    )]
    HeapLost,
    /// A heap or memory was used with another device than its own.
    #[error("a heap on {heap} was used on {used}: create a heap on each device")]
    WrongDevice {
        /// Device of the heap.
        heap: String,
        /// Device that it was used on.
        used: String,
    },
    /// A stream or an event was used with another handle of a device than its own.
    #[error(
        "a stream of {stream} was used with another device, {used}: use one of the same device handle, or of a clone of it"
    )]
    WrongStream {
        /// Device of the stream.
        stream: String,
        /// Device that it was used with.
        used: String,
    },
    /// A block of a heap on a GPU was to be allocated or freed by a thread of the host.
    #[error(
        "a single block of a heap on {0} was asked for or freed, but its memory is not the host's: use malloc_each and free_each, or call device functions in kernels"
    )]
    NotTheHosts(String),
    /// A device whose kernels cannot access another one's memory.
    #[error(
        "{device} was to access the memory of {owner}, but the hardware does not let it: copy, or use GPUs that are connected"
    )]
    NoPeerAccess {
        /// The device whose kernels were to do so.
        device: String,
        /// The device that the memory is on.
        owner: String,
    },
    /// Settings of a workload that make no sense.
    #[error("{asked} were asked for: {advice}")]
    BadSettings {
        /// What was asked.
        asked: String,
        /// What to do.
        advice: &'static str,
    },
    /// A trace that cannot be replayed.
    #[error("the trace cannot be replayed: {0}")]
    BadTrace(String),
    /// A directory that readings of a heap cannot be in.
    #[error(
        "readings of heaps are published in {}, but that cannot be used ({reason}): set SCATTERHEAP_RUN_DIR to a directory of yours",
        .path.display()
    )]
    RunDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A copy that does not fit.
    #[error("{asked} bytes at offset {offset} were asked for, but the memory has {bytes} bytes")]
    OutOfBounds {
        /// First byte.
        offset: u64,
        /// Bytes asked for.
        asked: u64,
        /// Bytes of the memory.
        bytes: u64,
    },
    /// A call of the driver failed.
    #[error("the driver failed to {action}: {message}")]
    Driver {
        /// What was tried.
        action: &'static str,
        /// The driver's error.
        message: String,
    },
    /// A call of the system failed, where no driver has a part in it.
    #[error("the system failed to {action} ({message}): {advice}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's error.
        message: String,
        /// What to do.
        advice: &'static str,
    },
    /// The system started no more threads.
    #[error("the system failed to start {} ({message}): use fewer threads, or raise the limits of processes and memory", threads(*.asked))]
    Threads {
        /// Threads asked for.
        asked: usize,
        /// The system's error.
        message: String,
    },
    /// A heap's metadata make no sense.
    #[error("the heap's metadata cannot be read: {0}")]
    Inspect(#[from] heap_core::inspect::InspectError),
    /// A snapshot could not be saved or loaded.
    #[error(transparent)]
    Snapshot(#[from] crate::snapshot::SnapshotError),
}

impl Error {
    /// What the system said when so many threads were to start, as an error.
    pub fn threads<E: ToString>(asked: usize) -> impl Fn(E) -> Self {
        move |error| Self::Threads {
            asked,
            message: error.to_string(),
        }
    }
}

fn threads(asked: usize) -> String {
    match asked {
        1 => "a thread".into(),
        _ => format!("{asked} threads"),
    }
}

fn counted(devices: u32) -> String {
    match devices {
        0 => "are no GPUs".into(),
        1 => "is one GPU (cuda:0)".into(),
        count => format!("are {count} GPUs (cuda:0 to cuda:{})", count - 1),
    }
}

fn last_launched(kernel: Option<&str>) -> String {
    match kernel {
        Some(kernel) => format!("`{kernel}` was the last that scatterheap launched"),
        None => "scatterheap launched none".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_not_blamed_on_the_kernel_that_was_launched_last() {
        let fault = |kernel| {
            let message = "CUDA_ERROR_ILLEGAL_ADDRESS".into();
            Error::KernelFault { kernel, message }.to_string()
        };
        let others = fault(None);
        assert!(
            others.starts_with(
                "a kernel faulted (CUDA_ERROR_ILLEGAL_ADDRESS; scatterheap launched none)"
            ),
            "{others}"
        );
        let perhaps_ours = fault(Some("fill"));
        assert!(
            perhaps_ours.contains("`fill` was the last that scatterheap launched"),
            "{perhaps_ours}"
        );
        let lost = Error::LostWithAnother {
            device: "cuda:1".into(),
            kernel: None,
            other: "cuda:0".into(),
        };
        assert!(
            lost.to_string()
                .contains("on cuda:0 (scatterheap launched none)"),
            "{lost}"
        );
    }
}
