//! An octree over a cloud of points, which all threads build at once, each by inserting its point; then every thread looks
//! for the neighbours of its point. Branches and leaves are blocks of the heap.
//!
//! `cargo run -p scatterheap-collections --example 12-octree` runs on the CPU, with `-- --device cuda:0` on a GPU. A number on the
//! command line is that of the points.

use anyhow::{Context, Result, ensure};
use scatterheap::Heap;
use scatterheap::size::Bytes;
use scatterheap_collections::table::{milliseconds, table};
use scatterheap_collections::{octree, open_for_example};

/// The radius of a neighbourhood; space is 2^20 wide.
const RADIUS: u64 = 4000;
/// Points whose neighbours are also looked for by comparing them with all others.
const COMPARED: usize = 500;

fn main() -> Result<()> {
    let (device, arguments) = open_for_example()?;
    let count = arguments
        .first()
        .map_or(Ok(100_000), |number| number.parse());
    let count: usize = count.context("the number of points is no number")?;
    let points = octree::cloud(count, 1);
    // Replaced leaves stay until the tree is complete, and every thread that searches has a list of cubes.
    let capacity = (256 << 20).max(count as u64 * 6000);
    let heap = Heap::builder(&device).capacity(capacity).build()?;
    let searched = octree::search(&heap, &points, RADIUS)?;

    let [building, searching, felling] = searched.seconds.map(milliseconds);
    println!(
        "{count} points on {device}: built in {building}, searched in {searching}, freed in {felling}"
    );
    println!(
        "the tree had {} blocks of {}\n",
        searched.occupancy.used_blocks,
        Bytes(searched.occupancy.used_bytes)
    );
    let levels = searched.levels.iter().enumerate();
    let levels = levels.filter(|(_, level)| level.branches + level.leaves > 0);
    let rows = levels.map(|(depth, level)| {
        [
            depth.to_string(),
            level.branches.to_string(),
            level.leaves.to_string(),
            level.points.to_string(),
        ]
    });
    println!("{}", table(["level", "branches", "leaves", "points"], rows));
    let neighbours: u64 = searched
        .found
        .iter()
        .map(|found| u64::from(found.within))
        .sum();
    println!("\n{neighbours} pairs lie within {RADIUS} of each other, counted from both sides");

    for index in (0..count).step_by((count / COMPARED).max(1)) {
        let expected = octree::reference(&points, index, RADIUS);
        ensure!(
            searched.found[index] == expected,
            "point {index} has other neighbours"
        );
    }
    ensure!(heap.snapshot()?.is_empty(), "blocks are left");
    println!(
        "points compared with all others have the same neighbours, and the heap is empty again"
    );
    Ok(())
}
