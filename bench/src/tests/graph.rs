//! `graph`: the dependency graph of a distribution's packages is built, edge by edge, and partly
//! taken down again. Each vertex has a block with its neighbours, which grows by doubling and
//! shrinks by halving. The edges come in batches, shuffled; a launch for each. The figures are for
//! all batches together.

mod adjacency;
mod kernels;

use super::blocks::MICROSECONDS;
use super::counters::{Counters, not_compiled_for};
use crate::allocator::Handle;
use crate::bench::{Bench, Ground};
use crate::contents::Faults;
use crate::error::{Error, Result};
use adjacency::{Adjacency, Edge};
use bench_kernels::graph::{Batch, Gather, GatherArguments, GraphArguments, Vertex};
use kernels::{GraphKernels, OfHeap, OfNative};
use rand::seq::SliceRandom;
use scatterheap_host::{Device, Grid, Memory};
use simt::kernel::Kernel;

/// The graph; `bench/data/README.md` says where it is from.
const PACKAGES: &[u8] = include_bytes!("../../data/debian-12.edges");
/// Its vertices: threads of each launch.
pub(crate) const VERTICES: u32 = 63_666;
/// Launches that insert all edges.
const INSERTIONS: usize = 8;
/// Launches that delete half of them.
const DELETIONS: usize = 4;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let graph = Adjacency::decode(PACKAGES);
    let graph = graph.ok_or_else(|| Error::Unfit("the graph of packages is damaged".into()))?;
    match bench.allocator.handle() {
        Some(Handle::Heap(heap)) => measure::<OfHeap>(bench, heap, &graph),
        Some(Handle::Native(native)) => measure::<OfNative>(bench, native, &graph),
        None => Err(not_compiled_for(bench.allocator.name())),
    }
}

fn measure<K: GraphKernels>(
    bench: &mut Bench<'_>,
    allocator: K::Allocator,
    graph: &Adjacency,
) -> Result<()> {
    let Bench {
        ground, figures, ..
    } = bench;
    let test = GraphTest::<K>::new(ground, allocator, graph)?;
    test.verify()?.refuse_corrupt(figures, test.edges)?;
    let (mut inserting, mut deleting) = (Vec::new(), Vec::new());
    let launches = ground.sample(figures, |counts| {
        let inserted = ground.device.time_calls(|| test.insert())?;
        let deleted = ground.device.time_calls(|| test.delete())?;
        test.clear()?;
        if counts {
            inserting.push(inserted * MICROSECONDS);
            deleting.push(deleted * MICROSECONDS);
        }
        Ok(())
    })?;
    // Once more, in the heap that was used; the counters are of all launches.
    test.verify()?
        .report_of_all(figures, (launches + 2) * test.edges)?;
    figures.spread("insert_us", &inserting);
    figures.spread("delete_us", &deleting);
    Ok(())
}

/// The graph on the device, without edges at first, and the batches of its edges.
struct GraphTest<K: GraphKernels> {
    device: Device,
    allocator: K::Allocator,
    vertices: Memory,
    count: u32,
    edges: u64,
    insertions: Vec<Lists>,
    deletions: Vec<Lists>,
    /// All edges, and those that are left in the end.
    whole: Lists,
    rest: Lists,
    counters: Counters,
}

impl<K: GraphKernels> GraphTest<K> {
    fn new(ground: &Ground<'_>, allocator: K::Allocator, graph: &Adjacency) -> Result<Self> {
        let device = ground.device;
        let count = graph.vertices();
        let mut edges = graph.edges();
        let mut random = ground.random();
        edges.shuffle(&mut random);
        let lists = |edges: &[Edge]| Lists::new(device, Adjacency::new(count, edges.to_vec()));
        let batches = |edges: &[Edge], number: usize| -> Result<Vec<Lists>> {
            edges
                .chunks(edges.len().div_ceil(number).max(1))
                .map(lists)
                .collect()
        };
        let insertions = batches(&edges, INSERTIONS)?;
        // Those that are deleted come in another order than they were inserted in.
        edges.shuffle(&mut random);
        let (deleted, rest) = edges.split_at(edges.len() / 2);
        let vertices = device.allocate(u64::from(count) * size_of::<Vertex>() as u64)?;
        vertices.clear()?;
        Ok(Self {
            device: device.clone(),
            allocator,
            vertices,
            count,
            edges: edges.len() as u64,
            insertions,
            deletions: batches(deleted, DELETIONS)?,
            whole: lists(&edges)?,
            rest: lists(rest)?,
            counters: Counters::new(device)?,
        })
    }

    /// Enqueues all insertions.
    fn insert(&self) -> Result<()> {
        self.insertions
            .iter()
            .try_for_each(|batch| self.launch::<K::Insert>(batch))
    }

    /// Enqueues all deletions.
    fn delete(&self) -> Result<()> {
        self.deletions
            .iter()
            .try_for_each(|batch| self.launch::<K::Delete>(batch))
    }

    /// Enqueues the deletion of what is left.
    fn clear(&self) -> Result<()> {
        self.launch::<K::Clear>(&self.rest)
    }

    fn launch<L>(&self, lists: &Lists) -> Result<()>
    where
        L: Kernel<Arguments = GraphArguments<K::Allocator>>,
    {
        let batch = Batch {
            vertices: self.vertices.address(),
            count: self.count.into(),
            begins: lists.begins.address(),
            targets: lists.targets.address(),
            faults: self.counters.address(),
        };
        let arguments = GraphArguments {
            allocator: self.allocator,
            batch,
        };
        // SAFETY: the arrays are as long as the batch says; all blocks of the vertices are the
        // allocator's.
        unsafe { self.device.launch::<L>(Grid::of(self.count), &arguments)? };
        Ok(())
    }

    /// Builds the graph and takes it down once; a vertex whose neighbours are not those of the
    /// reference is corrupt.
    fn verify(&self) -> Result<Faults> {
        self.insert()?;
        let mut wrong = self.differences(&self.whole)?;
        self.delete()?;
        wrong += self.differences(&self.rest)?;
        self.clear()?;
        let mut faults = self.counters.read()?;
        faults.corrupt += wrong;
        Ok(faults)
    }

    /// Number of vertices whose neighbours are others than expected.
    fn differences(&self, expected: &Lists) -> Result<u64> {
        let targets = self.device.allocate(expected.targets.bytes())?;
        targets.clear()?;
        let arguments = GatherArguments {
            vertices: self.vertices.address(),
            count: self.count.into(),
            begins: expected.begins.address(),
            targets: targets.address(),
        };
        // SAFETY: there is room for the neighbours that are expected, and no more are copied.
        unsafe {
            self.device
                .launch::<Gather>(Grid::of(self.count), &arguments)?;
        };
        let vertices = self.vertices.read::<Vertex>(0, self.count as usize)?;
        let reference = &expected.adjacency;
        let mut found = targets.read::<u32>(0, reference.targets().len())?;
        let wrong = vertices.iter().enumerate().filter(|(vertex, record)| {
            let range = reference.range(*vertex);
            let neighbours = &mut found[range.clone()];
            neighbours.sort_unstable();
            record.degree as usize != range.len() || *neighbours != reference.targets()[range]
        });
        Ok(wrong.count() as u64)
    }
}

/// Edges, here and on the device.
struct Lists {
    adjacency: Adjacency,
    begins: Memory,
    targets: Memory,
}

impl Lists {
    fn new(device: &Device, adjacency: Adjacency) -> Result<Self> {
        let begins = device.allocate(size_of_val(adjacency.begins()) as u64)?;
        begins.write(0, adjacency.begins())?;
        let targets = device.allocate(size_of_val(adjacency.targets()) as u64)?;
        targets.write(0, adjacency.targets())?;
        Ok(Self {
            adjacency,
            begins,
            targets,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, Test};
    use crate::tests::try_out::try_out;

    #[test]
    fn the_graph_is_what_its_note_says() {
        let graph = Adjacency::decode(PACKAGES).expect("the graph is not damaged");
        assert_eq!(graph.vertices(), VERTICES);
        assert_eq!(graph.targets().len(), 277_179);
        let degrees = (0..graph.vertices() as usize).map(|vertex| graph.range(vertex).len());
        assert_eq!(degrees.max(), Some(648));
    }

    #[test]
    fn what_is_inserted_and_deleted_is_what_is_there() {
        let case = Case {
            test: Test::Graph,
            least: 0,
            most: 0,
            n: VERTICES,
        };
        for found in try_out(case) {
            found.expect_metrics(&["null", "corrupt", "requests", "insert_us", "delete_us"]);
            found.expect_zero(&["null", "corrupt"]);
        }
    }
}
