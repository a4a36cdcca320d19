//! Lists of unknown lengths, one of each thread: as `Vec<Vec<u32>>`, and by two passes with a prefix sum.

use crate::kernels::walks::{
    CHUNK, CountWalks, Edges, MakeLists, PLACE_BYTES, SumChunks, SumSums, TakeLists, WalkArguments,
    WriteWalks,
};
use crate::packages::Graph;
use crate::{filled, grid, zeroed};
use scatterheap::{Heap, Occupancy, Result};

/// What came of both ways.
#[derive(Clone, Debug)]
pub struct Walked {
    /// Ends of all walks of two edges, by the vertices that they begin at, as the vectors had them.
    pub by_lists: Vec<u32>,
    /// The same, as the two passes wrote them.
    pub by_passes: Vec<u32>,
    /// Seconds that the one kernel took that makes the vectors.
    pub lists_seconds: f64,
    /// Seconds that the four kernels took: counting, summing up, and writing.
    pub passes_seconds: f64,
    /// Seconds that it took to copy the vectors and drop them.
    pub taking_seconds: f64,
    /// The heap with all vectors in it.
    pub occupancy: Occupancy,
}

/// Lists the ends of all walks of two edges, in both ways.
///
/// # Errors
///
/// If another heap is global, there is no memory, or the device fails.
pub fn walk(heap: &Heap, graph: &Graph) -> Result<Walked> {
    let device = heap.device();
    let _global = heap.make_global()?;
    let (begins, targets) = (
        filled(device, &graph.begins())?,
        filled(device, &graph.targets())?,
    );
    let vertices = graph.vertices as usize;
    let chunks = vertices.div_ceil(usize::try_from(CHUNK).unwrap_or(1));
    let lists = device.allocate(u64::from(graph.vertices) * PLACE_BYTES)?;
    let (counts, sums) = (
        zeroed::<u64>(device, vertices)?,
        zeroed::<u64>(device, chunks + 1)?,
    );
    let mut arguments = WalkArguments {
        edges: Edges {
            begins: begins.address(),
            targets: targets.address(),
            vertices: u64::from(graph.vertices),
        },
        lists: lists.address(),
        counts: counts.address(),
        sums: sums.address(),
        ends: 0,
    };
    let each = grid(vertices);
    // SAFETY: all of it lives until the launches have ended.
    unsafe {
        let lists_seconds = device.time::<MakeLists>(each, &arguments)?;
        let occupancy = heap.snapshot()?.occupancy();
        let mut passes_seconds = device.time::<CountWalks>(each, &arguments)?
            + device.time::<SumChunks>(grid(chunks), &arguments)?
            + device.time::<SumSums>(grid(1), &arguments)?;
        // Only now the host knows how much room is needed.
        let total: Vec<u64> = sums.read(chunks as u64 * 8, 1)?;
        let total = usize::try_from(total[0]).unwrap_or(usize::MAX);
        let ends = zeroed::<u32>(device, total)?;
        arguments.ends = ends.address();
        passes_seconds += device.time::<WriteWalks>(each, &arguments)?;
        let by_passes = ends.read(0, total)?;
        ends.clear()?;
        let taking_seconds = device.time::<TakeLists>(each, &arguments)?;
        Ok(Walked {
            by_lists: ends.read(0, total)?,
            by_passes,
            lists_seconds,
            passes_seconds,
            taking_seconds,
            occupancy,
        })
    }
}

/// The same on the host.
#[must_use]
pub fn reference(graph: &Graph) -> Vec<u32> {
    let (begins, targets) = (graph.begins(), graph.targets());
    let of = |vertex: u32| {
        let [begin, end] = [0, 1].map(|next| begins[vertex as usize + next] as usize);
        &targets[begin..end]
    };
    let walks = graph.edges.iter().flat_map(|(_, middle)| of(*middle));
    walks.copied().collect()
}
