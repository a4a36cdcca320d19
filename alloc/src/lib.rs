//! `Vec`, `Box`, `String` and everything else of Rust's `alloc` in kernels.
//!
//! One line in a kernel crate makes a heap of the host the global allocator of its kernels:
//!
//! ```ignore
//! #![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, alloc_error_handler))]
//!
//! extern crate alloc;
//!
//! scatterheap_alloc::global_heap!();
//! ```
//!
//! Kernels whose collections all name a heap of their own write [`no_global_heap!`] instead.
//!
//! The host says which heap: `Heap::make_global`. The same source runs on both kinds of device:
//!
//! | | GPU | CPU |
//! |---|---|---|
//! | in a kernel | the device's global heap | the device's global heap; the process's allocator if there is none |
//! | elsewhere | – | the process's allocator |
//! | no memory left, `try_reserve` | an error | an error |
//! | no memory left, otherwise | counted, trap; the host's error says how much was asked for | Rust ends the process: `memory allocation of N bytes failed` |
//!
//! Invariants:
//!
//! - A block is freed through the heap that it came from. Blocks of kernels are for kernels: the host's code cannot
//!   drop them, on the CPU neither.
//! - What the host's process allocates while it runs no kernel never comes from a heap.
//! - The heap lives as long as kernels use it. A handle is plain data, so nothing enforces that but the host, whose
//!   `GlobalHeap` borrows the heap and unbinds it when it is dropped. Who forgets one (`mem::forget`) and drops the heap must launch no such
//!   kernel any more: it would read and write where the heap was ([`Heap`](heap::Heap)).

#![cfg_attr(target_arch = "nvptx64", no_std)]

extern crate scatterheap_heap as heap;
extern crate scatterheap_simt as simt;

mod binding;
mod failures;
#[cfg(not(target_arch = "nvptx64"))]
pub mod native;
mod none;
#[cfg(target_arch = "nvptx64")]
mod slot;

pub use binding::{Binding, SYMBOL};
pub use failures::{Failed, Failures};
#[cfg(not(target_arch = "nvptx64"))]
pub use native::KernelAllocator;
pub use none::NoHeap;
#[cfg(target_arch = "nvptx64")]
pub use slot::Slot;

/// Makes the heap that the host names the global allocator of the crate's kernels.
///
/// On the CPU it makes a [`KernelAllocator`] the process's global allocator. If the program has a global allocator
/// of its own, or several crates with kernels, write `global_heap!(gpu)`: then kernels on the CPU use
/// what the process has. The program can still declare a `KernelAllocator` itself.
#[macro_export]
macro_rules! global_heap {
    () => {
        $crate::global_heap!(gpu);

        #[cfg(not(target_arch = "nvptx64"))]
        const _: () = {
            #[global_allocator]
            static KERNEL_ALLOCATOR: $crate::KernelAllocator = $crate::KernelAllocator;
        };
    };
    (gpu) => {
        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            // The name is `SYMBOL`, by which the host finds it.
            #[unsafe(export_name = "scatterheap_global_heap")]
            #[global_allocator]
            static GLOBAL_HEAP: $crate::Slot = $crate::Slot::UNBOUND;

            #[alloc_error_handler]
            fn out_of_memory(request: ::core::alloc::Layout) -> ! {
                GLOBAL_HEAP.out_of_memory(request)
            }
        };
    };
}

/// Says that the crate's kernels have no global heap: their collections all name the heap that they are in (`Heap::alloc`).
///
/// Rust's `alloc`, of which these collections are made, wants a global allocator all the same. This one has no memory: a
/// collection without a heap gets none, which ends the launch, or is an error of `try_reserve`. The host is asked for no global heap. On the CPU it
/// does nothing: there a collection without a heap is the process's.
#[macro_export]
macro_rules! no_global_heap {
    () => {
        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            #[global_allocator]
            static NO_HEAP: $crate::NoHeap = $crate::NoHeap;
        };
    };
}
