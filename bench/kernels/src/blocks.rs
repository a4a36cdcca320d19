//! Kernels that are timed: each thread, or lane 0 of each warp, allocates or frees one block, and does
//! nothing else but store or load its address of 8 bytes. The *floor* is the same launch without an
//! allocation.

use crate::allocator::{DeviceAllocator, Native};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::{kernel, thread, warp};

/// Arguments of the kernels of this module.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlocksArguments<A> {
    /// The allocator.
    pub allocator: A,
    /// What is asked for.
    pub request: Request,
}

/// Who asks for how much.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Request {
    /// Address of `count` addresses of blocks.
    pub blocks: u64,
    /// Address of `count` sizes of 4 bytes, for the kernels of mixed sizes.
    pub sizes: u64,
    /// Bytes that all ask for, for the others.
    pub bytes: u64,
    /// Threads that work, or warps of which lane 0 works.
    pub count: u64,
}

// SAFETY: all zeroes are an allocator's and a request's.
unsafe impl<A: DeviceAllocator> Zeroable for BlocksArguments<A> {}
// SAFETY: both parts are plain old data, aligned to 8 bytes and a multiple of 8 long, the allocator as its trait wants it, so there is
// no padding between them nor behind them.
unsafe impl<A: DeviceAllocator> Pod for BlocksArguments<A> {}

impl Request {
    /// Index of the calling thread, if it works.
    #[inline(always)]
    fn thread(&self) -> Option<usize> {
        let index = u64::from(thread::index_1d());
        (index < self.count).then_some(index as usize)
    }

    /// Index of the calling lane's warp, if it is the first lane and the warp works.
    #[inline(always)]
    fn warp(&self) -> Option<usize> {
        let index = u64::from(thread::index_1d() / warp::LANES);
        let first = thread::thread_index().is_multiple_of(warp::LANES);
        (first && index < self.count).then_some(index as usize)
    }

    /// Where the address of block `index` lies.
    #[inline(always)]
    fn place(&self, index: usize) -> *mut u64 {
        (self.blocks as *mut u64).wrapping_add(index)
    }

    /// What block `index` is to have of mixed sizes.
    ///
    /// # Safety
    ///
    /// There must be an array of sizes, longer than `index`.
    #[inline(always)]
    unsafe fn size(&self, index: usize) -> u64 {
        // SAFETY: as the caller promises.
        u64::from(unsafe { (self.sizes as *const u32).add(index).read() })
    }
}

kernel! {
    /// The floor: every thread stores 8 bytes.
    pub struct StoreFloor = "scatterheap_bench_floor";
    fn body(request: &Request) {
        if let Some(index) = request.thread() {
            // SAFETY: the host gave an array with a place for each thread.
            unsafe { request.place(index).write(index as u64 * 16) };
        }
    }
}

kernel! {
    /// The floor of mixed sizes: every thread reads a size and stores 8 bytes.
    pub struct StoreFloorMixed = "scatterheap_bench_floor_mixed";
    fn body(request: &Request) {
        if let Some(index) = request.thread() {
            // SAFETY: the host gave arrays with a size and a place for each thread.
            unsafe { request.place(index).write(request.size(index)) };
        }
    }
}

kernel! {
    /// The floor of one lane a warp.
    pub struct StoreFloorOfWarps = "scatterheap_bench_floor_warp";
    fn body(request: &Request) {
        if let Some(index) = request.warp() {
            // SAFETY: the host gave an array with a place for each warp.
            unsafe { request.place(index).write(index as u64 * 16) };
        }
    }
}

/// Makes the timed kernels of an allocator.
macro_rules! timed_kernels {
    ($allocator:ty: $uniform:ident = $uniform_name:literal, $mixed:ident = $mixed_name:literal,
     $free:ident = $free_name:literal, $uniform_of_warps:ident = $uniform_of_warps_name:literal,
     $free_of_warps:ident = $free_of_warps_name:literal) => {
        kernel! {
            /// Every thread allocates a block of the same size.
            pub struct $uniform = $uniform_name;
            fn body(arguments: &BlocksArguments<$allocator>) {
                let request = &arguments.request;
                if let Some(index) = request.thread() {
                    let block = arguments.allocator.malloc(request.bytes);
                    // SAFETY: the host gave a place for each thread.
                    unsafe { request.place(index).write(block as u64) };
                }
            }
        }

        kernel! {
            /// Every thread allocates a block of its own size.
            pub struct $mixed = $mixed_name;
            fn body(arguments: &BlocksArguments<$allocator>) {
                let request = &arguments.request;
                if let Some(index) = request.thread() {
                    // SAFETY: the host gave a size and a place for each thread.
                    unsafe {
                        let block = arguments.allocator.malloc(request.size(index));
                        request.place(index).write(block as u64);
                    }
                }
            }
        }

        kernel! {
            /// Every thread frees its block.
            pub struct $free = $free_name;
            fn body(arguments: &BlocksArguments<$allocator>) {
                let request = &arguments.request;
                if let Some(index) = request.thread() {
                    // SAFETY: the host gave a block of the allocator or NULL for each thread.
                    unsafe { arguments.allocator.free(request.place(index).read() as *mut u8) };
                }
            }
        }

        kernel! {
            /// Lane 0 of every warp allocates a block of the same size.
            pub struct $uniform_of_warps = $uniform_of_warps_name;
            fn body(arguments: &BlocksArguments<$allocator>) {
                let request = &arguments.request;
                if let Some(index) = request.warp() {
                    let block = arguments.allocator.malloc(request.bytes);
                    // SAFETY: the host gave a place for each warp.
                    unsafe { request.place(index).write(block as u64) };
                }
            }
        }

        kernel! {
            /// Lane 0 of every warp frees its block.
            pub struct $free_of_warps = $free_of_warps_name;
            fn body(arguments: &BlocksArguments<$allocator>) {
                let request = &arguments.request;
                if let Some(index) = request.warp() {
                    // SAFETY: the host gave a block of the allocator or NULL for each warp.
                    unsafe { arguments.allocator.free(request.place(index).read() as *mut u8) };
                }
            }
        }
    };
}

timed_kernels! {
    Heap:
    AllocateUniform = "scatterheap_bench_heap_allocate_uniform",
    AllocateMixed = "scatterheap_bench_heap_allocate_mixed",
    Free = "scatterheap_bench_heap_free",
    AllocateOfWarps = "scatterheap_bench_heap_allocate_warp",
    FreeOfWarps = "scatterheap_bench_heap_free_warp"
}

timed_kernels! {
    Native:
    NativeAllocateUniform = "scatterheap_bench_native_allocate_uniform",
    NativeAllocateMixed = "scatterheap_bench_native_allocate_mixed",
    NativeFree = "scatterheap_bench_native_free",
    NativeAllocateOfWarps = "scatterheap_bench_native_allocate_warp",
    NativeFreeOfWarps = "scatterheap_bench_native_free_warp"
}
