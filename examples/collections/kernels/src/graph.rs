//! A graph that changes: every vertex has a sorted `Vec` of its neighbours, which kernels replace.
//!
//! A batch of changes is sorted by vertex, and each vertex's are one thread's: so nobody else touches its vector.

use crate::places::{element, elements, own_index, place};
use alloc::vec::Vec;
use bytemuck::{Pod, Zeroable};
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering};
use simt::kernel;

/// The level of a vertex that was not reached.
pub const UNREACHED: u32 = u32::MAX;

/// Bytes of the place that a vertex's neighbours need.
pub const PLACE_BYTES: u64 = size_of::<Neighbours>() as u64;

/// Neighbours in ascending order.
type Neighbours = Vec<u32>;

/// A graph.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Vertices {
    /// Address of the neighbours of each vertex, see [`PLACE_BYTES`].
    pub neighbours: u64,
    /// Number of vertices.
    pub count: u64,
}

impl Vertices {
    /// The neighbours of a vertex.
    ///
    /// # Safety
    ///
    /// The vertex must be there, and nobody may change it meanwhile.
    unsafe fn of<'a>(&self, vertex: u32) -> &'a [u32] {
        // SAFETY: as the caller promises.
        unsafe { element::<Neighbours>(self.neighbours, vertex as usize) }
    }
}

kernel! {
    /// Every thread makes a vertex without neighbours.
    pub struct Begin = "example_graph_begin";
    fn body(vertices: &Vertices) {
        if let Some(vertex) = own_index(vertices.count) {
            // SAFETY: the host gave a place for each vertex.
            unsafe { place::<Neighbours>(vertices.neighbours, vertex).write(Vec::new()) };
        }
    }
}

kernel! {
    /// Every thread drops its vertex's neighbours.
    pub struct End = "example_graph_end";
    fn body(vertices: &Vertices) {
        if let Some(vertex) = own_index(vertices.count) {
            // SAFETY: `Begin` made them, and nobody uses them again.
            unsafe { place::<Neighbours>(vertices.neighbours, vertex).drop_in_place() };
        }
    }
}

/// Neighbours that are to come or to go, for some vertices.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ChangeArguments {
    /// The graph.
    pub vertices: Vertices,
    /// Address of the vertices that change, 4 bytes each, none twice.
    pub changed: u64,
    /// Number of them.
    pub count: u64,
    /// Address of where each one's changes begin, and a last end; 4 bytes each.
    pub begins: u64,
    /// Address of the neighbours, 4 bytes each, in ascending order for each vertex.
    pub changes: u64,
}

impl ChangeArguments {
    /// The vertex that the calling thread changes, where its neighbours are, and its changes.
    ///
    /// # Safety
    ///
    /// The batch must be as said.
    unsafe fn own<'a>(&self) -> Option<(&'a mut Neighbours, &'a [u32])> {
        let index = own_index(self.count)?;
        // SAFETY: as the caller promises; no other thread has this vertex.
        unsafe {
            let vertex: u32 = *element(self.changed, index);
            let [begin, end] =
                [0, 1].map(|next| *element::<u32>(self.begins, index + next) as usize);
            let neighbours = &mut *place(self.vertices.neighbours, vertex as usize);
            Some((neighbours, elements(self.changes, begin, end - begin)))
        }
    }
}

kernel! {
    /// Every thread adds neighbours to a vertex; those that it has already stay.
    pub struct Insert = "example_graph_insert";
    fn body(arguments: &ChangeArguments) {
        // SAFETY: the host gave the batch.
        let Some((neighbours, new)) = (unsafe { arguments.own() }) else { return };
        let mut merged = Vec::with_capacity(neighbours.len() + new.len());
        let mut old = neighbours.iter().copied().peekable();
        for vertex in new {
            while let Some(before) = old.next_if(|other| other < vertex) {
                merged.push(before);
            }
            old.next_if_eq(vertex);
            merged.push(*vertex);
        }
        merged.extend(old);
        *neighbours = merged;
    }
}

kernel! {
    /// Every thread takes neighbours away from a vertex, those that it has.
    pub struct Delete = "example_graph_delete";
    fn body(arguments: &ChangeArguments) {
        // SAFETY: the host gave the batch.
        let Some((neighbours, gone)) = (unsafe { arguments.own() }) else { return };
        let mut gone = gone.iter().copied().peekable();
        neighbours.retain(|vertex| {
            while gone.next_if(|other| other < vertex).is_some() {}
            gone.next_if_eq(vertex).is_none()
        });
        if neighbours.len() < neighbours.capacity() / 2 {
            neighbours.shrink_to_fit();
        }
    }
}

/// Arguments of [`Spread`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SpreadArguments {
    /// The graph.
    pub vertices: Vertices,
    /// Address of the level of each vertex, 4 bytes each; [`UNREACHED`] at first.
    pub levels: u64,
    /// The level whose neighbours are reached.
    pub level: u64,
    /// Address of a number of 8 bytes, to which it is added how many were reached.
    pub reached: u64,
}

kernel! {
    /// A step of a search in breadth: every thread whose vertex has the level reaches its neighbours.
    pub struct Spread = "example_graph_spread";
    fn body(arguments: &SpreadArguments) {
        let Some(vertex) = own_index(arguments.vertices.count) else { return };
        let (level, mut reached) = (arguments.level as u32, 0);
        // SAFETY: the host gave a level for each vertex, and nobody changes the graph.
        unsafe {
            let of = |vertex: usize| element::<DeviceAtomicU32>(arguments.levels, vertex);
            // Relaxed, all: the level was written by an earlier launch, and of those who reach a vertex one is
            // the first, whoever it is.
            if of(vertex).load(Ordering::Relaxed) != level {
                return;
            }
            for neighbour in arguments.vertices.of(vertex as u32) {
                let place = of(*neighbour as usize);
                let first = place.compare_exchange(UNREACHED, level + 1, Ordering::Relaxed, Ordering::Relaxed);
                reached += u64::from(first.is_ok());
            }
            if reached > 0 {
                let total: &DeviceAtomicU64 = element(arguments.reached, 0);
                total.fetch_add(reached, Ordering::Relaxed);
            }
        }
    }
}

/// Arguments of [`CountTriangles`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct TriangleArguments {
    /// The graph.
    pub vertices: Vertices,
    /// Address of a number of 8 bytes, to which the triangles are added.
    pub triangles: u64,
}

impl TriangleArguments {
    /// Where a vertex stands among all: those with few neighbours first.
    ///
    /// # Safety
    ///
    /// The vertex must be there.
    unsafe fn rank(&self, vertex: u32) -> (usize, u32) {
        // SAFETY: as the caller promises.
        (unsafe { self.vertices.of(vertex) }.len(), vertex)
    }
}

kernel! {
    /// Every thread counts the triangles in which its vertex stands first. So that nobody has much to do: those after
    /// it are few, even if its neighbours are many.
    pub struct CountTriangles = "example_graph_triangles";
    fn body(arguments: &TriangleArguments) {
        let Some(vertex) = own_index(arguments.vertices.count) else { return };
        let mut triangles = 0;
        // SAFETY: nobody changes the graph.
        unsafe {
            let own = arguments.rank(vertex as u32);
            let neighbours = arguments.vertices.of(own.1).iter();
            let mut after: Vec<(usize, u32)> = neighbours.map(|other| arguments.rank(*other)).collect();
            after.retain(|other| *other > own);
            for second in &after {
                let of_second = arguments.vertices.of(second.1);
                let thirds = after.iter().filter(|third| *third > second);
                triangles += thirds.filter(|third| of_second.binary_search(&third.1).is_ok()).count();
            }
            if triangles > 0 {
                let total: &DeviceAtomicU64 = element(arguments.triangles, 0);
                // Relaxed: read by the host after the launch.
                total.fetch_add(triangles as u64, Ordering::Relaxed);
            }
        }
    }
}
