//! A graph in a device's memory that changes in batches, and is searched and counted between them.

use crate::kernels::graph::{
    Begin, ChangeArguments, CountTriangles, Delete, End, Insert, PLACE_BYTES, Spread,
    SpreadArguments, TriangleArguments, UNREACHED, Vertices,
};
use crate::{filled, grid, zeroed};
use scatterheap::{Device, GlobalHeap, Heap, Memory, Result};

/// A pair of vertices with an edge between them.
pub type Pair = (u32, u32);

/// An undirected graph whose vertices have their neighbours in a heap.
#[derive(Debug)]
pub struct ChangingGraph<'a> {
    global: GlobalHeap<'a>,
    vertices: u32,
    neighbours: Memory,
    ended: bool,
}

/// What a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Edges come; those that are there stay.
    Insert,
    /// Edges go; those that are not there stay away.
    Delete,
}

/// Changes of the neighbours of vertices, as kernels take them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Batch {
    changed: Vec<u32>,
    begins: Vec<u32>,
    changes: Vec<u32>,
}

impl Batch {
    /// Each pair is a change of both vertices.
    fn new(pairs: &[Pair]) -> Self {
        let both = pairs
            .iter()
            .flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
        let mut both: Vec<Pair> = both.collect();
        both.sort_unstable();
        both.dedup();
        let mut batch = Self::default();
        for (vertex, neighbour) in both {
            if batch.changed.last() != Some(&vertex) {
                batch.changed.push(vertex);
                batch.begins.push(index(batch.changes.len()));
            }
            batch.changes.push(neighbour);
        }
        batch.begins.push(index(batch.changes.len()));
        batch
    }
}

fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl<'a> ChangingGraph<'a> {
    /// A graph without edges, in a heap that becomes the global one.
    ///
    /// # Errors
    ///
    /// If another heap is global, there is no memory, or the device fails.
    pub fn new(heap: &'a Heap, vertices: u32) -> Result<Self> {
        let neighbours = heap.device().allocate(u64::from(vertices) * PLACE_BYTES)?;
        let graph = Self {
            global: heap.make_global()?,
            vertices,
            neighbours,
            ended: false,
        };
        // SAFETY: there is a place for each vertex.
        unsafe {
            graph
                .global
                .launch::<Begin>(grid(vertices as usize), &graph.handle())?;
        }
        Ok(graph)
    }

    fn device(&self) -> &Device {
        self.global.heap().device()
    }

    fn handle(&self) -> Vertices {
        Vertices {
            neighbours: self.neighbours.address(),
            count: u64::from(self.vertices),
        }
    }

    /// Changes edges. All vertices must be there. Gives the seconds that the kernel took.
    ///
    /// # Errors
    ///
    /// If there is no memory, or the device fails.
    pub fn change(&mut self, change: Change, pairs: &[Pair]) -> Result<f64> {
        let pairs_in_bounds = |pair: &&Pair| pair.0.max(pair.1) < self.vertices;
        let pairs: Vec<Pair> = pairs.iter().filter(pairs_in_bounds).copied().collect();
        let (batch, device) = (Batch::new(&pairs), self.device());
        let (vertices, begins, changes) = (
            filled(device, &batch.changed)?,
            filled(device, &batch.begins)?,
            filled(device, &batch.changes)?,
        );
        let arguments = ChangeArguments {
            vertices: self.handle(),
            changed: vertices.address(),
            count: batch.changed.len() as u64,
            begins: begins.address(),
            changes: changes.address(),
        };
        let threads = grid(batch.changed.len());
        // SAFETY: the batch lives until the launch has ended, has each vertex once, and only such that are there.
        unsafe {
            match change {
                Change::Insert => device.time::<Insert>(threads, &arguments),
                Change::Delete => device.time::<Delete>(threads, &arguments),
            }
        }
    }

    /// How many edges lie between `start` and each vertex; nothing for those that are not reached. Also gives the seconds that the
    /// kernels took.
    ///
    /// # Errors
    ///
    /// If there is no memory, or the device fails.
    pub fn distances(&self, start: u32) -> Result<(Vec<Option<u32>>, f64)> {
        let (device, vertices) = (self.device(), self.vertices as usize);
        let levels = filled(device, &vec![UNREACHED; vertices])?;
        levels.write(u64::from(start) * 4, &[0_u32])?;
        let total = zeroed::<u64>(device, 1)?;
        let mut seconds = 0.0;
        let mut before = u64::MAX;
        for level in 0.. {
            let arguments = SpreadArguments {
                vertices: self.handle(),
                levels: levels.address(),
                level,
                reached: total.address(),
            };
            // SAFETY: there is a level for each vertex, and they live until the launch has ended.
            seconds += unsafe { device.time::<Spread>(grid(vertices), &arguments)? };
            let reached = total.read(0, 1)?[0];
            if reached == before || (level == 0 && reached == 0) {
                break;
            }
            before = reached;
        }
        let levels: Vec<u32> = levels.read(0, vertices)?;
        let distances = levels.into_iter();
        let distances = distances.map(|level| (level != UNREACHED).then_some(level));
        Ok((distances.collect(), seconds))
    }

    /// How many triples of vertices have all three edges, and the seconds that the kernel took.
    ///
    /// # Errors
    ///
    /// If there is no memory, or the device fails.
    pub fn triangles(&self) -> Result<(u64, f64)> {
        let total = zeroed::<u64>(self.device(), 1)?;
        let arguments = TriangleArguments {
            vertices: self.handle(),
            triangles: total.address(),
        };
        let threads = grid(self.vertices as usize);
        // SAFETY: the number lives until the launch has ended.
        let seconds = unsafe { self.device().time::<CountTriangles>(threads, &arguments)? };
        Ok((total.read(0, 1)?[0], seconds))
    }

    /// Gives all memory back to the heap.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn end(mut self) -> Result<()> {
        self.ended = true;
        self.drop_neighbours()
    }

    fn drop_neighbours(&self) -> Result<()> {
        // SAFETY: each vertex has its neighbours, and nobody uses them again.
        unsafe {
            self.global
                .launch::<End>(grid(self.vertices as usize), &self.handle())?;
        }
        self.device().synchronize()
    }
}

impl Drop for ChangingGraph<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // An error has nobody to go to.
            let _dropped = self.drop_neighbours();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_each_vertex_once() {
        let expected = Batch {
            changed: vec![1, 2, 7],
            begins: vec![0, 2, 3, 4],
            changes: vec![2, 7, 1, 1],
        };
        assert_eq!(Batch::new(&[(7, 1), (1, 2), (2, 1)]), expected);
        assert_eq!(Batch::new(&[]).begins, [0]);
    }
}
