//! The device and the heap that a subcommand works with, and how they are described in JSON.

use super::Common;
use super::machine::Machine;
use super::output::note;
use anyhow::Result;
use scatterheap::heap::layout::Layout;
use scatterheap::{Device, Hardening, Heap, Selector, open};
use serde::Serialize;

/// Capacity where none is said, on the CPU.
const CPU_CAPACITY: u64 = 256 << 20;
/// Capacity where none is said, on a GPU: at most this, and at most half of what is free.
const GPU_CAPACITY: u64 = 16 << 30;

impl Common {
    /// Opens the device. Where the choice was left to this program, it says what it chose.
    pub fn open_device(&self) -> Result<Device> {
        if self.device != Selector::Auto {
            return Ok(open(&self.device)?);
        }
        let reason = match Device::gpu_count() {
            0 => "there is no GPU".to_owned(),
            _ => match open(&Selector::Cuda(0)) {
                Ok(device) => {
                    note(&format!("using {device}"));
                    return Ok(device);
                }
                Err(error) => error.to_string(),
            },
        };
        let device = Device::cpu();
        note(&format!("using {device}: {reason}"));
        Ok(device)
    }

    /// Bytes of the heap: as asked for, or as the device suggests.
    pub fn capacity(&self, device: &Device) -> Result<u64> {
        Ok(match self.heap {
            Some(bytes) => bytes.0,
            None if device.is_gpu() => GPU_CAPACITY.min(device.memory_info()?.free / 2),
            None => CPU_CAPACITY,
        })
    }
}

/// A device.
#[derive(Debug, Serialize)]
pub struct DeviceDescription {
    /// How it is selected.
    pub selector: String,
    /// What it is, for people.
    pub name: String,
    /// Whether it is a GPU.
    pub gpu: bool,
    /// Compute capability of a GPU, such as `9.0`.
    pub compute_capability: Option<String>,
    /// Streaming multiprocessors of a GPU, threads of the CPU.
    pub multiprocessors: u32,
    /// Bytes of its memory.
    pub memory_total: u64,
    /// Bytes of its memory that are free now.
    pub memory_free: u64,
}

impl DeviceDescription {
    pub fn new(device: &Device) -> Result<Self> {
        let memory = device.memory_info()?;
        let capability = device.compute_capability();
        Ok(Self {
            selector: device.label(),
            name: device.name(),
            gpu: device.is_gpu(),
            compute_capability: capability.map(|(major, minor)| format!("{major}.{minor}")),
            multiprocessors: device.multiprocessors(),
            memory_total: memory.total,
            memory_free: memory.free,
        })
    }
}

/// A heap's shape.
#[derive(Debug, Serialize)]
pub struct HeapDescription {
    /// Bytes that it can allocate so far.
    pub capacity: u64,
    /// Bytes that it can allocate once it has grown as far as it may.
    pub largest_capacity: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Number of pages.
    pub pages: u32,
    /// Bytes that the allocator keeps beside the pages.
    pub metadata_bytes: u64,
    /// Number of size classes.
    pub classes: u32,
    /// Largest request that a size class serves; larger ones get pages of their own.
    pub largest_slot: u32,
    /// Stripes of a class at most.
    pub stripes: u32,
    /// Hardened modes, with commas between.
    pub hardening: String,
}

impl HeapDescription {
    /// A heap of a shape that can allocate `capacity` bytes so far.
    pub fn new(layout: &Layout, capacity: u64, modes: Hardening) -> Self {
        Self {
            capacity,
            largest_capacity: layout.capacity,
            page_bytes: layout.page_bytes(),
            pages: layout.page_count,
            metadata_bytes: layout.metadata_bytes,
            classes: layout.class_count,
            largest_slot: layout.largest_slot,
            stripes: layout.stripes,
            hardening: modes.to_string(),
        }
    }
}

/// The document that a subcommand prints with `--json`. Same shape on every device.
#[derive(Debug, Serialize)]
pub struct Document<T> {
    command: &'static str,
    version: &'static str,
    machine: Machine,
    device: DeviceDescription,
    heap: HeapDescription,
    #[serde(flatten)]
    content: T,
}

impl<T: Serialize> Document<T> {
    /// What `command` found out with a heap.
    pub fn new(command: &'static str, heap: &Heap, content: T) -> Result<Self> {
        let device = DeviceDescription::new(heap.device())?;
        Ok(Self::on(command, device, heap, content))
    }

    /// The same with the device as it was described before.
    pub fn on(command: &'static str, device: DeviceDescription, heap: &Heap, content: T) -> Self {
        Self {
            command,
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::new(heap.device()),
            device,
            heap: HeapDescription::new(heap.layout(), heap.capacity(), heap.hardening()),
            content,
        }
    }
}

/// The same of a subcommand whose heaps are its own.
#[derive(Debug, Serialize)]
pub struct DeviceDocument<T> {
    command: &'static str,
    version: &'static str,
    commit: Option<&'static str>,
    device: DeviceDescription,
    #[serde(flatten)]
    content: T,
}

impl<T: Serialize> DeviceDocument<T> {
    /// What `command` found out on a device, as it was described before.
    pub fn on(command: &'static str, device: DeviceDescription, content: T) -> Self {
        Self {
            command,
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("SCATTERHEAP_COMMIT"),
            device,
            content,
        }
    }
}

/// A report, and whether it found nothing wrong.
#[derive(Debug, Serialize)]
pub struct Judged<'a, T> {
    /// Whether nothing was found wrong.
    pub passed: bool,
    /// The report.
    #[serde(flatten)]
    pub report: &'a T,
}
