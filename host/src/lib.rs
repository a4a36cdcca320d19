//! Drives a device: opens a GPU or the CPU, creates a heap on it, launches kernels, and reads
//! back what the heap holds.
//!
//! The same code runs on both: a [`Device`] launches a kernel by its type, on a GPU through the
//! driver (loaded at run time, so programs start on machines without one), on the CPU on a pool
//! of threads.
//!
//! What kernels get of a heap is a handle ([`Heap::handle`]), plain data that does not borrow the heap. **Keep the heap until the
//! last kernel that uses a handle of it has ended**: nothing enforces that. Launches are `unsafe` and their callers promise it; a
//! handle can also be used by the host where the device is the CPU, by methods that are safe, and there too it must be of a living
//! heap. What happens otherwise is said at [`heap_core::Heap`].

extern crate scatterheap_alloc as alloc_core;
extern crate scatterheap_heap as heap_core;
extern crate scatterheap_kernels as kernels;
extern crate scatterheap_simt as simt;

pub mod device;
pub mod error;
pub mod exhaustion;
pub mod growth;
mod hardening;
pub mod heap;
pub mod heat_map;
pub mod latency;
pub mod litmus;
pub mod memory;
pub mod monitor;
pub mod replay;
pub mod resource;
pub mod size;
pub mod snapshot;
pub mod soak;
pub mod stress;
mod tally;
mod thread_slots;
pub mod timeline;
pub mod virtual_memory;

pub use device::{Device, DeviceUsage, Event, Grid, KeptContext, KernelSource, Selector, Stream};
pub use error::{Error, Result};
pub use growth::Growth;
pub use heap::{GlobalHeap, Heap, HeapBuilder};
pub use heap_core::hardened::Hardening;
pub use heap_core::inspect::{self, LeakReport, MisuseReport, Occupancy};
pub use heap_core::misuse::Misuse;
pub use memory::Memory;
pub use monitor::Monitor;
pub use snapshot::{Snapshot, SnapshotError};
pub use thread_slots::ThreadSlots;
