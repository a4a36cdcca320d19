//! A graph that changes: each vertex has a block with the numbers of its neighbours, which doubles
//! when it is full and halves when a quarter of it is left.
//!
//! Edges come in batches, sorted by the vertex that they begin at. A thread does all of a vertex's
//! edges of a batch, so nothing of a vertex is shared, and no thread waits for another.

use crate::allocator::{DeviceAllocator, Native};
use crate::faults::{Fault, report};
use bytemuck::{Pod, Zeroable};
use heap::Heap;
use simt::{kernel, thread};

/// Places for neighbours in the smallest block: 16 bytes.
const LEAST_CAPACITY: u32 = 4;

/// A vertex and its neighbours.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Vertex {
    /// Address of the numbers of its neighbours, 4 bytes each; 0 if there is no block.
    pub neighbours: u64,
    /// How many there are.
    pub degree: u32,
    /// How many the block has room for.
    pub capacity: u32,
}

/// Edges that are inserted or deleted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Batch {
    /// Address of the vertices.
    pub vertices: u64,
    /// Number of vertices.
    pub count: u64,
    /// Address of `count` + 1 numbers of 4 bytes: where each vertex's edges begin in `targets`.
    pub begins: u64,
    /// Address of the numbers of the vertices that the edges end at, 4 bytes each.
    pub targets: u64,
    /// Address of the counters of [`Fault`]; an edge that is to be deleted and is not there counts
    /// as corrupt.
    pub faults: u64,
}

/// Arguments of the kernels that allocate.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GraphArguments<A> {
    /// The allocator.
    pub allocator: A,
    /// The edges.
    pub batch: Batch,
}

// SAFETY: all zeroes are an allocator's and a batch's.
unsafe impl<A: DeviceAllocator> Zeroable for GraphArguments<A> {}
// SAFETY: both parts are plain old data, aligned to 8 bytes and a multiple of 8 long, the allocator as its trait wants it, so there is
// no padding between them nor behind them.
unsafe impl<A: DeviceAllocator> Pod for GraphArguments<A> {}

/// A vertex in the calling thread's hands, and its edges of the batch.
struct Work {
    place: *mut Vertex,
    vertex: Vertex,
    edges: core::ops::Range<u32>,
}

impl Batch {
    /// The calling thread's vertex, if it has edges in the batch.
    ///
    /// # Safety
    ///
    /// The arrays must be as the batch says.
    #[inline(always)]
    unsafe fn work(&self) -> Option<Work> {
        let index = u64::from(thread::index_1d());
        if index >= self.count {
            return None;
        }
        let begins = (self.begins as *const u32).wrapping_add(index as usize);
        let place = (self.vertices as *mut Vertex).wrapping_add(index as usize);
        // SAFETY: there is a vertex and a beginning for each index, and a last end.
        let edges = unsafe { begins.read()..begins.add(1).read() };
        if edges.is_empty() {
            return None;
        }
        // SAFETY: the vertex is this thread's.
        let vertex = unsafe { place.read() };
        Some(Work {
            place,
            vertex,
            edges,
        })
    }

    /// Where an edge ends.
    ///
    /// # Safety
    ///
    /// It must be an edge of the batch.
    #[inline(always)]
    unsafe fn target(&self, edge: u32) -> u32 {
        // SAFETY: as the caller promises.
        unsafe { (self.targets as *const u32).add(edge as usize).read() }
    }
}

impl Vertex {
    fn places(&self) -> *mut u32 {
        self.neighbours as *mut u32
    }

    /// Moves the neighbours into a block with room for `capacity` of them; `false` and unchanged if
    /// there is none.
    ///
    /// # Safety
    ///
    /// The block must be the allocator's and nobody else's, and there must be room for all
    /// neighbours.
    #[inline(always)]
    unsafe fn resize<A: DeviceAllocator>(&mut self, allocator: &A, capacity: u32) -> bool {
        let block = allocator.malloc(u64::from(capacity) * 4).cast::<u32>();
        if block.is_null() {
            return false;
        }
        // SAFETY: both blocks have room for the neighbours, and the old one is not used again.
        unsafe {
            for index in 0..self.degree as usize {
                block.add(index).write(self.places().add(index).read());
            }
            allocator.free(self.places().cast());
        }
        self.neighbours = block as u64;
        self.capacity = capacity;
        true
    }

    /// Removes a neighbour; `false` if there is no such.
    ///
    /// # Safety
    ///
    /// The vertex must have its block.
    #[inline(always)]
    unsafe fn remove(&mut self, target: u32) -> bool {
        for index in 0..self.degree as usize {
            // SAFETY: the block holds `degree` neighbours.
            unsafe {
                if self.places().add(index).read() == target {
                    self.degree -= 1;
                    let last = self.places().add(self.degree as usize).read();
                    self.places().add(index).write(last);
                    return true;
                }
            }
        }
        false
    }

    /// Gives a block back that is empty, and halves one that is mostly unused. Without memory for
    /// the smaller block the larger one stays.
    ///
    /// # Safety
    ///
    /// The block must be the allocator's and nobody else's.
    #[inline(always)]
    unsafe fn shrink<A: DeviceAllocator>(&mut self, allocator: &A) {
        let mut capacity = self.capacity;
        while capacity > LEAST_CAPACITY && self.degree <= capacity / 4 {
            capacity /= 2;
        }
        // SAFETY: as the caller promises; a quarter of the neighbours fits into a half.
        unsafe {
            if self.degree == 0 {
                allocator.free(self.places().cast());
                *self = Self {
                    neighbours: 0,
                    degree: 0,
                    capacity: 0,
                };
            } else if capacity < self.capacity {
                let _moved = self.resize(allocator, capacity);
            }
        }
    }
}

/// Inserts the calling thread's edges.
///
/// # Safety
///
/// The batch's arrays must be as it says, and the blocks of the vertices must be the allocator's.
#[inline(always)]
unsafe fn insert<A: DeviceAllocator>(allocator: &A, batch: &Batch) {
    // SAFETY: as the caller promises.
    let Some(Work {
        place,
        mut vertex,
        edges,
    }) = (unsafe { batch.work() })
    else {
        return;
    };
    let mut nulls = 0;
    for edge in edges {
        // SAFETY: the vertex is this thread's, and its block has room for `capacity` neighbours.
        unsafe {
            if vertex.degree == vertex.capacity
                && !vertex.resize(allocator, (vertex.capacity * 2).max(LEAST_CAPACITY))
            {
                nulls += 1;
                continue;
            }
            vertex
                .places()
                .add(vertex.degree as usize)
                .write(batch.target(edge));
        }
        vertex.degree += 1;
    }
    // SAFETY: the vertex is this thread's, and there are counters.
    unsafe {
        place.write(vertex);
        report(batch.faults, Fault::Null, nulls);
    }
}

/// Deletes the calling thread's edges.
///
/// # Safety
///
/// As for [`insert`].
#[inline(always)]
unsafe fn delete<A: DeviceAllocator>(allocator: &A, batch: &Batch) {
    // SAFETY: as the caller promises.
    let Some(Work {
        place,
        mut vertex,
        edges,
    }) = (unsafe { batch.work() })
    else {
        return;
    };
    let mut missing = 0;
    for edge in edges {
        // SAFETY: the vertex and its block are this thread's, and the edge is the batch's.
        missing += u32::from(!unsafe { vertex.remove(batch.target(edge)) });
    }
    // SAFETY: the vertex and its block are this thread's, and there are counters.
    unsafe {
        vertex.shrink(allocator);
        place.write(vertex);
        report(batch.faults, Fault::Corrupt, missing);
    }
}

/// Deletes all edges of the calling thread's vertex.
///
/// # Safety
///
/// As for [`insert`].
#[inline(always)]
unsafe fn clear<A: DeviceAllocator>(allocator: &A, batch: &Batch) {
    let index = u64::from(thread::index_1d());
    if index < batch.count {
        // SAFETY: the vertex and its block are this thread's.
        unsafe {
            let place = (batch.vertices as *mut Vertex).add(index as usize);
            allocator.free(place.read().places().cast());
            place.write(Vertex {
                neighbours: 0,
                degree: 0,
                capacity: 0,
            });
        }
    }
}

/// Makes the kernels of an allocator.
macro_rules! graph_kernels {
    ($allocator:ty: $insert:ident = $insert_name:literal, $delete:ident = $delete_name:literal,
     $clear:ident = $clear_name:literal) => {
        kernel! {
            /// Every thread inserts the edges of the batch that begin at its vertex.
            pub struct $insert = $insert_name;
            fn body(arguments: &GraphArguments<$allocator>) {
                // SAFETY: as the host promised.
                unsafe { insert(&arguments.allocator, &arguments.batch) };
            }
        }

        kernel! {
            /// Every thread deletes the edges of the batch that begin at its vertex.
            pub struct $delete = $delete_name;
            fn body(arguments: &GraphArguments<$allocator>) {
                // SAFETY: as the host promised.
                unsafe { delete(&arguments.allocator, &arguments.batch) };
            }
        }

        kernel! {
            /// Every thread deletes all edges of its vertex. Only the vertices of the batch are
            /// used.
            pub struct $clear = $clear_name;
            fn body(arguments: &GraphArguments<$allocator>) {
                // SAFETY: as the host promised.
                unsafe { clear(&arguments.allocator, &arguments.batch) };
            }
        }
    };
}

graph_kernels! {
    Heap:
    Insert = "scatterheap_bench_heap_graph_insert",
    Delete = "scatterheap_bench_heap_graph_delete",
    Clear = "scatterheap_bench_heap_graph_clear"
}

graph_kernels! {
    Native:
    NativeInsert = "scatterheap_bench_native_graph_insert",
    NativeDelete = "scatterheap_bench_native_graph_delete",
    NativeClear = "scatterheap_bench_native_graph_clear"
}

/// Arguments of [`Gather`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct GatherArguments {
    /// Address of the vertices.
    pub vertices: u64,
    /// Number of vertices.
    pub count: u64,
    /// Address of `count` + 1 numbers of 4 bytes: where each vertex's neighbours go in `targets`.
    pub begins: u64,
    /// Address of room for the neighbours, 4 bytes each.
    pub targets: u64,
}

kernel! {
    /// Every thread copies the neighbours of its vertex out, as far as there is room.
    pub struct Gather = "scatterheap_bench_graph_gather";
    fn body(arguments: &GatherArguments) {
        let index = thread::index_1d() as usize;
        if index as u64 >= arguments.count {
            return;
        }
        // SAFETY: there is a vertex and a beginning for each index, and a last end; a block holds
        // `degree` neighbours.
        unsafe {
            let vertex = (arguments.vertices as *const Vertex).add(index).read();
            let begins = (arguments.begins as *const u32).add(index);
            let (begin, end) = (begins.read(), begins.add(1).read());
            let targets = (arguments.targets as *mut u32).add(begin as usize);
            for neighbour in 0..vertex.degree.min(end - begin) as usize {
                targets.add(neighbour).write(vertex.places().add(neighbour).read());
            }
        }
    }
}
