//! What the host writes into each module whose kernels have a global heap.

use bytemuck::{Pod, Zeroable};
use heap::Heap;

/// Name of the variable of a module that a [`Binding`] is written to.
pub const SYMBOL: &str = "scatterheap_global_heap";

/// The heap of a module. All zeroes is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Binding {
    /// The heap's handle.
    pub heap: Heap,
    /// Address of the [`Failures`](crate::Failures); 0 if there is no heap.
    pub failures: u64,
}
