//! `malloc` for code that runs on a GPU: threads of a kernel allocate and free from a heap in
//! device memory, without the host.
//!
//! A kernel is written once, and runs on a GPU or on the threads of the CPU. This one makes a
//! list in every thread:
//!
//! ```
//! use scatterheap::simt::{kernel, thread};
//! use scatterheap::{Grid, Heap, Selector};
//!
//! #[repr(C)]
//! #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
//! pub struct Arguments {
//!     /// By value: its fields are then read from constant memory.
//!     heap: scatterheap::heap::Heap,
//! }
//!
//! kernel! {
//!     /// Every thread allocates as many numbers as it likes.
//!     pub struct MakeLists = "make_lists";
//!     fn body(arguments: &Arguments) {
//!         let count = thread::index_1d() % 100 + 1;
//!         let list = arguments.heap.malloc(u64::from(count) * 4).cast::<u32>();
//!         if list.is_null() {
//!             return; // Exhausted; the heap has counted it.
//!         }
//!         for index in 0..count {
//!             // SAFETY: the block has room for `count` numbers.
//!             unsafe { list.add(index as usize).write(index) };
//!         }
//!         // SAFETY: nobody uses the list any more.
//!         unsafe { arguments.heap.free(list.cast()) };
//!     }
//! }
//!
//! # fn main() -> scatterheap::Result<()> {
//! let device = scatterheap::open(&Selector::Cpu { threads: None })?;
//! let heap = Heap::builder(&device).capacity(64 << 20).build()?;
//! let arguments = Arguments { heap: heap.handle()? };
//! // SAFETY: the heap is one on this device.
//! unsafe { heap.launch::<MakeLists>(Grid::of(10_000), &arguments)? };
//! assert_eq!(heap.snapshot()?.occupancy().used_blocks, 0);
//! # Ok(())
//! # }
//! ```
//!
//! For a GPU, put the kernels into a crate of their own, which a build script compiles to PTX with
//! `scatterheap-ptx-builder`, and load that with [`Device::load_module`]; all else stays the same.
//!
//! | part | what it is |
//! |---|---|
//! | [`Device`], [`Heap`], [`Snapshot`], [`stress`], [`replay`] | the host's side |
//! | [`heap`] | the allocator, as kernels call it |
//! | [`simt`] | threads, warps and atomics, for kernels |
//! | [`kernels`] | the kernels that come along |
//! | [`embedded`] | their PTX |

pub use scatterheap_heap as heap;
pub use scatterheap_host::*;
pub use scatterheap_kernels as kernels;
pub use scatterheap_simt as simt;

pub mod embedded;

pub use embedded::open;
