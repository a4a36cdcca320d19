//! A graph that changes: the dependencies between the packages of Debian 12 come and go in batches, by kernels that
//! replace the vectors of neighbours. After each batch kernels search the graph and count its triangles, and
//! petgraph does the same.
//!
//! `cargo run -p scatterheap-collections --example 10-changing-graph` runs on the CPU, with `-- --device cuda:0` on a GPU.

use anyhow::{Result, ensure};
use petgraph::algo::dijkstra;
use petgraph::graphmap::UnGraphMap;
use scatterheap::Heap;
use scatterheap::size::Bytes;
use scatterheap_collections::graph::{Change, ChangingGraph, Pair};
use scatterheap_collections::kernels::random::Random;
use scatterheap_collections::open_for_example;
use scatterheap_collections::packages::Graph;
use scatterheap_collections::table::{milliseconds, table};

fn main() -> Result<()> {
    let (device, _) = open_for_example()?;
    let packages = Graph::debian();
    let pairs = shuffled(packages.pairs());
    let heap = Heap::builder(&device).capacity(128 << 20).build()?;
    let mut graph = ChangingGraph::new(&heap, packages.vertices)?;
    let mut reference = UnGraphMap::<u32, ()>::new();
    for vertex in 0..packages.vertices {
        reference.add_node(vertex);
    }
    println!(
        "{} packages of Debian 12 on {device}, and {} pairs of them that depend on each other\n",
        packages.vertices,
        pairs.len()
    );

    let start = most_connected(&pairs, packages.vertices);
    let [quarter, half, third] = [4, 2, 3].map(|part| pairs.len() / part);
    let batches = [
        (Change::Insert, &pairs[..quarter]),
        (Change::Insert, &pairs[quarter..half]),
        (Change::Delete, &pairs[..third]),
        (Change::Insert, &pairs[half..]),
        (Change::Insert, &pairs[..third]),
        (Change::Delete, &pairs[quarter..]),
    ];
    let mut rows = Vec::new();
    for (change, pairs) in batches {
        let seconds = graph.change(change, pairs)?;
        apply(&mut reference, change, pairs);
        let (distances, searched) = graph.distances(start)?;
        let (triangles, counted) = graph.triangles()?;
        ensure!(
            distances == distances_of(&reference, start),
            "other distances"
        );
        ensure!(triangles == triangles_of(&reference), "other triangles");
        let reached = distances.iter().flatten().count();
        rows.push([
            format!("{change:?} {}", pairs.len()),
            milliseconds(seconds),
            reference.edge_count().to_string(),
            reached.to_string(),
            milliseconds(searched),
            triangles.to_string(),
            milliseconds(counted),
            Bytes(heap.snapshot()?.occupancy().used_bytes).to_string(),
        ]);
    }
    let columns = [
        "batch",
        "took",
        "edges",
        "reached",
        "took",
        "triangles",
        "took",
        "heap",
    ];
    println!("{}", table(columns, rows));
    graph.end()?;
    ensure!(heap.snapshot()?.is_empty(), "blocks are left");
    println!("\npetgraph finds the same distances and triangles, and the heap is empty again");
    Ok(())
}

/// In an order that looks random (Fisher and Yates).
fn shuffled(mut pairs: Vec<Pair>) -> Vec<Pair> {
    let mut random = Random::new(1);
    for last in (1..pairs.len()).rev() {
        pairs.swap(last, random.below(last + 1));
    }
    pairs
}

/// The vertex with the most neighbours.
fn most_connected(pairs: &[Pair], vertices: u32) -> u32 {
    let mut neighbours = vec![0_u32; vertices as usize];
    for (one, other) in pairs {
        neighbours[*one as usize] += 1;
        neighbours[*other as usize] += 1;
    }
    let most = (0..vertices).max_by_key(|vertex| neighbours[*vertex as usize]);
    most.unwrap_or(0)
}

fn apply(graph: &mut UnGraphMap<u32, ()>, change: Change, pairs: &[Pair]) {
    for (one, other) in pairs {
        if change == Change::Insert {
            graph.add_edge(*one, *other, ());
        } else {
            graph.remove_edge(*one, *other);
        }
    }
}

fn distances_of(graph: &UnGraphMap<u32, ()>, start: u32) -> Vec<Option<u32>> {
    let distances = dijkstra(graph, start, None, |_| 1_u32);
    let vertices = 0..u32::try_from(graph.node_count()).unwrap_or(u32::MAX);
    vertices
        .map(|vertex| distances.get(&vertex).copied())
        .collect()
}

fn triangles_of(graph: &UnGraphMap<u32, ()>) -> u64 {
    let vertices = 0..u32::try_from(graph.node_count()).unwrap_or(u32::MAX);
    let degrees: Vec<usize> = vertices
        .map(|vertex| graph.neighbors(vertex).count())
        .collect();
    let thirds = graph.all_edges().map(|(one, other, ())| {
        let of_one = degrees[one as usize] < degrees[other as usize];
        let (fewer, more) = if of_one { (one, other) } else { (other, one) };
        let neighbours = graph.neighbors(fewer);
        neighbours
            .filter(|third| graph.contains_edge(*third, more))
            .count() as u64
    });
    // Each triangle is found from each of its edges.
    thirds.sum::<u64>() / 3
}
