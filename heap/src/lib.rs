//! The allocator: `malloc` and `free` for any number of threads, from one heap in device memory.
//!
//! One source runs on the GPU and on the CPU, in the words of [`simt`]. It knows no host, no CUDA
//! and does no I/O.
//!
//! # Words
//!
//! A **page** is the unit of the heap's memory; a **slab** is one or more pages given to a **size
//! class**; a **slot** is one allocation in a slab; a **stripe** is the share of a class that some of
//! a grid's blocks draw from, one after the other by turns, so that warps scatter instead of colliding.
//! (Steinberger et al., `ScatterAlloc`, 2012, is where the scattering comes from.)
//!
//! # Invariants
//!
//! 1. A slot's bit in the bitmap is set exactly while the slot is handed out. A page is free, or
//!    part of one slab, or part of one run.
//! 2. Blocks do not overlap, lie inside the heap, are aligned and at least as large as asked.
//! 3. When everything is freed, every page is free or in a slab that a request for pages reclaims,
//!    and one request for the whole heap succeeds.
//! 4. When no thread is in the allocator, a slab's use equals its slots handed out plus the units
//!    of the stripe that has it.
//! 5. User memory is neither read nor written, but for `calloc`'s zeroes and `realloc`'s copy, and in
//!    the [hardened] modes.
//!
//! They hold for handles of living heaps. A [`Heap`] is plain data, and nothing enforces that: see there.
//!
//! Which atomic carries which promise is written in `docs/memory-order.md`.
//!
//! # Where to read
//!
//! [`malloc`](Heap::malloc) draws from a [stripe], by way of a [ticket], and claims bits of a
//! slab. What the first draw does not serve goes on in `beyond` and `claim`. A stripe that runs out is refilled (`refill`), from the listed slabs of its class or from
//! free pages (`pages`, `page_set`), while others wait (`burst`); if that fails, `scavenge` looks everywhere else.
//! [`free`](Heap::free) clears bits and lowers the slab's use, which moves the slab through its
//! life (`slab`). What it refuses is told apart in [`misuse`].

#![cfg_attr(target_arch = "nvptx64", no_std)]

extern crate scatterheap_simt as simt;

// What tests share names the crate as those outside it do.
#[cfg(test)]
extern crate self as scatterheap_heap;

#[cfg(feature = "allocator-api2")]
pub mod allocator;
pub mod array;
mod beyond;
mod burst;
mod called;
mod claim;
pub mod class;
mod cold;
mod contents;
pub mod counters;
mod damage;
pub mod doubts;
pub mod entry;
mod free;
#[cfg(any(loom, all(test, not(shuttle))))]
pub mod group;
pub mod growth;
pub mod hardened;
mod heap;
mod hints;
mod initialise;
#[cfg(all(feature = "inspect", not(any(loom, shuttle, target_arch = "nvptx64"))))]
pub mod inspect;
pub mod layout;
mod layouts;
mod listed;
mod malloc;
pub mod misuse;
mod nap;
mod obtain;
mod packed;
pub mod page_set;
mod pages;
mod places;
mod punch;
mod refill;
mod request;
mod rewind;
mod run;
mod scavenge;
#[cfg(all(test, not(any(loom, shuttle))))]
mod simulated;
pub mod slab;
pub mod stripe;
pub mod ticket;
mod vain;

pub use damage::ATTEMPTS_LOG2;
pub use heap::{COUNT_BYTES, Core, Globals, Heap, MAGIC, Mark, Shared};
pub use initialise::Share;
