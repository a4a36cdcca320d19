//! Kernels that serve requests of the host: a thread for each block.

use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::{kernel, thread};

/// A request, and the block that answers it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Request {
    /// Address of the block; 0 if there is none.
    pub address: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

/// Arguments of the kernels of this module.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct EachArguments {
    /// The heap.
    pub heap: Heap,
    /// Address of an array of `count` [`Request`]s.
    pub requests: u64,
    /// Number of requests; the grid has as many threads or more.
    pub count: u64,
}

impl EachArguments {
    /// The calling thread's request, if it has one.
    ///
    /// # Safety
    ///
    /// The array must be as the arguments say, and nobody else use it.
    #[inline]
    unsafe fn request<'a>(&self) -> Option<&'a mut Request> {
        let index = u64::from(thread::index_1d());
        // SAFETY: as the caller promises; each index is one thread's alone.
        (index < self.count)
            .then(|| unsafe { &mut *(self.requests as *mut Request).add(index as usize) })
    }
}

kernel! {
    /// Every thread allocates the block that its request asks for.
    pub struct MallocEach = "scatterheap_kernel_malloc_each";
    fn body(arguments: &EachArguments) {
        // SAFETY: the host gave a heap, and an array with a request for each thread.
        if let Some(request) = unsafe { arguments.request() } {
            request.address = arguments.heap.malloc(request.bytes) as u64;
        }
    }
}

kernel! {
    /// Every thread frees the block of its request.
    pub struct FreeEach = "scatterheap_kernel_free_each";
    fn body(arguments: &EachArguments) {
        // SAFETY: as in `MallocEach`; who calls the host's function gives the blocks up.
        unsafe {
            if let Some(request) = arguments.request() {
                arguments.heap.free(request.address as *mut u8);
            }
        }
    }
}
