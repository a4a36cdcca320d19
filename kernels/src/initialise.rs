//! Making an empty heap, or making a used one empty.

use bytemuck::{Pod, Zeroable};
use heap::{Heap, Share};
use simt::{kernel, thread};

/// Arguments of [`Initialise`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct InitialiseArguments {
    /// The heap, as its head in the metadata says.
    pub heap: Heap,
}

kernel! {
    /// Writes the metadata of an empty heap; any grid will do.
    pub struct Initialise = "scatterheap_kernel_initialise";
    fn body(arguments: &InitialiseArguments) {
        let share = Share { index: thread::index_1d(), count: thread::grid_threads() };
        // SAFETY: the host wrote the head for memory that nobody uses.
        unsafe { arguments.heap.initialise(share) };
    }
}
