//! The kernels of the test, for each allocator that they are compiled for.

use bench_kernels::graph::{
    Clear, Delete, GraphArguments, Insert, NativeClear, NativeDelete, NativeInsert,
};
use bench_kernels::{DeviceAllocator, Native};
use heap_core::Heap;
use simt::kernel::Kernel;

/// Kernels that call one allocator.
pub(super) trait GraphKernels {
    type Allocator: DeviceAllocator;
    type Insert: Kernel<Arguments = GraphArguments<Self::Allocator>>;
    type Delete: Kernel<Arguments = GraphArguments<Self::Allocator>>;
    type Clear: Kernel<Arguments = GraphArguments<Self::Allocator>>;
}

/// Those of scatterheap.
pub(super) struct OfHeap;

impl GraphKernels for OfHeap {
    type Allocator = Heap;
    type Insert = Insert;
    type Delete = Delete;
    type Clear = Clear;
}

/// Those of the device's own allocator.
pub(super) struct OfNative;

impl GraphKernels for OfNative {
    type Allocator = Native;
    type Insert = NativeInsert;
    type Delete = NativeDelete;
    type Clear = NativeClear;
}
