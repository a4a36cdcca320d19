//! Outputs of different lengths, one of each thread: the ends of all walks of two edges from a vertex.
//!
//! With collections a thread pushes into a `Vec`. Without, there are two passes: one counts, a
//! prefix sum makes places of the counts, and the other does the same work again and writes.

use crate::places::{element, elements, own_index, place};
use alloc::vec::Vec;
use bytemuck::{Pod, Zeroable};
use simt::kernel;

/// Counts that a thread sums up.
pub const CHUNK: u64 = 256;

/// A graph whose edges are sorted by the vertex that they begin at.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Edges {
    /// Address of where each vertex's edges begin in the targets, and a last end; 4 bytes each.
    pub begins: u64,
    /// Address of the vertices that they end at, 4 bytes each.
    pub targets: u64,
    /// Number of vertices.
    pub vertices: u64,
}

impl Edges {
    /// The vertices that the edges of a vertex end at.
    ///
    /// # Safety
    ///
    /// The graph must have the vertex, and be as said.
    unsafe fn targets<'a>(&self, vertex: u32) -> &'a [u32] {
        // SAFETY: as the caller promises.
        unsafe {
            let [begin, end] =
                [0, 1].map(|next| *element::<u32>(self.begins, vertex as usize + next));
            elements(self.targets, begin as usize, (end - begin) as usize)
        }
    }
}

/// Arguments of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct WalkArguments {
    /// The graph.
    pub edges: Edges,
    /// Address of a vector for each vertex, see [`PLACE_BYTES`].
    pub lists: u64,
    /// Address of a number of 8 bytes for each vertex: how many ends there are, then where they go.
    pub counts: u64,
    /// Address of a number of 8 bytes for each [`CHUNK`] of vertices, and one more for all.
    pub sums: u64,
    /// Address of room for all ends, 4 bytes each.
    pub ends: u64,
}

/// Bytes of the place that a vertex's vector needs.
pub const PLACE_BYTES: u64 = size_of::<Vec<u32>>() as u64;

kernel! {
    /// Every thread makes the vector of its vertex.
    pub struct MakeLists = "example_make_lists";
    fn body(arguments: &WalkArguments) {
        let Some(vertex) = own_index(arguments.edges.vertices) else { return };
        let mut ends: Vec<u32> = Vec::new();
        // SAFETY: the host gave the graph, and a place for each vertex's vector.
        unsafe {
            for middle in arguments.edges.targets(vertex as u32) {
                // Not `extend_from_slice`, which on a GPU copies byte by byte.
                ends.extend(arguments.edges.targets(*middle).iter().copied());
            }
            place::<Vec<u32>>(arguments.lists, vertex).write(ends);
        }
    }
}

kernel! {
    /// Every thread takes the vector of its vertex to the place that the two passes found for it, and drops it.
    pub struct TakeLists = "example_take_lists";
    fn body(arguments: &WalkArguments) {
        let Some(vertex) = own_index(arguments.edges.vertices) else { return };
        // SAFETY: `MakeLists` left a vector; the counts are places by now.
        unsafe {
            let list: Vec<u32> = place::<Vec<u32>>(arguments.lists, vertex).read();
            let first = arguments.first(vertex);
            for (index, end) in list.into_iter().enumerate() {
                place::<u32>(arguments.ends, first + index).write(end);
            }
        }
    }
}

kernel! {
    /// The first pass: every thread counts the walks from its vertex.
    pub struct CountWalks = "example_count_walks";
    fn body(arguments: &WalkArguments) {
        let Some(vertex) = own_index(arguments.edges.vertices) else { return };
        // SAFETY: the host gave the graph, and a count for each vertex.
        unsafe {
            let middles = arguments.edges.targets(vertex as u32);
            let walks = middles.iter().map(|middle| arguments.edges.targets(*middle).len());
            place::<u64>(arguments.counts, vertex).write(walks.sum::<usize>() as u64);
        }
    }
}

/// Makes `count` numbers the sums of those before them, and gives the sum of all.
///
/// # Safety
///
/// They must be there, and be the calling thread's.
unsafe fn sum_up(numbers: *mut u64, count: usize) -> u64 {
    let mut sum = 0;
    for index in 0..count {
        // SAFETY: as the caller promises.
        unsafe { sum += numbers.add(index).replace(sum) };
    }
    sum
}

kernel! {
    /// Every thread sums up the counts of its chunk.
    pub struct SumChunks = "example_sum_chunks";
    fn body(arguments: &WalkArguments) {
        let vertices = arguments.edges.vertices;
        let Some(chunk) = own_index(vertices.div_ceil(CHUNK)) else { return };
        let begin = chunk as u64 * CHUNK;
        let count = CHUNK.min(vertices - begin) as usize;
        // SAFETY: the chunk is this thread's, and has a sum.
        unsafe {
            let sum = sum_up(place(arguments.counts, begin as usize), count);
            place::<u64>(arguments.sums, chunk).write(sum);
        }
    }
}

kernel! {
    /// One thread sums up the chunks.
    pub struct SumSums = "example_sum_sums";
    fn body(arguments: &WalkArguments) {
        if own_index(1).is_some() {
            let chunks = arguments.edges.vertices.div_ceil(CHUNK) as usize;
            // SAFETY: there is one more than there are chunks, and no other thread.
            unsafe {
                let sum = sum_up(place(arguments.sums, 0), chunks);
                place::<u64>(arguments.sums, chunks).write(sum);
            }
        }
    }
}

impl WalkArguments {
    /// Where the ends of a vertex begin.
    ///
    /// # Safety
    ///
    /// The counts must be summed up.
    unsafe fn first(&self, vertex: usize) -> usize {
        // SAFETY: as the caller promises.
        unsafe {
            let of_chunk: u64 = *element(self.sums, vertex / CHUNK as usize);
            (of_chunk + *element::<u64>(self.counts, vertex)) as usize
        }
    }
}

kernel! {
    /// The second pass: every thread writes the ends of the walks from its vertex.
    pub struct WriteWalks = "example_write_walks";
    fn body(arguments: &WalkArguments) {
        let Some(vertex) = own_index(arguments.edges.vertices) else { return };
        // SAFETY: the host gave the graph, and room for all ends.
        unsafe {
            let mut at = arguments.first(vertex);
            for middle in arguments.edges.targets(vertex as u32) {
                for end in arguments.edges.targets(*middle) {
                    place::<u32>(arguments.ends, at).write(*end);
                    at += 1;
                }
            }
        }
    }
}
