//! Measures device allocators side by side, on the same device and in the same run: scatterheap, the
//! device's own malloc, plug-ins, and the *floor*, which is the same launch without an allocation.
//!
//! A [`Case`] is one line of a test, such as 2^20 threads that ask for 16 bytes each. An
//! [`Allocator`] does what a case asks; the runner times it by the device's own events, and what it
//! finds are [`Row`]s, as in the tables of the survey of GPU memory managers (Winter, Parger,
//! Mlakar and Steinberger, `PPoPP` 2021).

extern crate scatterheap_bench_kernels as bench_kernels;
extern crate scatterheap_heap as heap_core;
extern crate scatterheap_kernels as kernels;
extern crate scatterheap_simt as simt;

mod allocator;
pub mod allocators;
mod bench;
mod case;
mod cases;
mod contents;
mod error;
mod figures;
mod files;
mod first;
mod flaw;
pub mod module;
pub mod peer;
mod plan;
pub mod plot;
pub mod resources;
mod row;
mod runner;
mod target;
mod tests;

pub use allocator::{Allocator, Churn, Handle, Request, Resources};
pub use case::{Case, Test};
pub use error::{Error, Result};
pub use files::write_csv;
pub use first::{FIRST_HEAP, FirstHeap, make_first_heap};
pub use flaw::{Flaw, Flaws};
pub use plan::{Plan, Settings};
pub use row::{Event, Row};
pub use runner::run;
pub use target::{Target, target};
pub use tests::baseline_name;
