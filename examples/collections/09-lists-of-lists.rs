//! Lists of unknown lengths, one of each thread: dependencies of dependencies, for each package of Debian. Once as
//! `Vec<Vec<u32>>`, and once by two passes with a prefix sum, which is how it is done without an allocator.
//!
//! `cargo run -p scatterheap-collections --example 09-lists-of-lists` runs on the CPU, with `-- --device cuda:0` on a GPU.

use anyhow::Result;
use scatterheap::Heap;
use scatterheap::size::Bytes;
use scatterheap_collections::packages::Graph;
use scatterheap_collections::table::{milliseconds, table};
use scatterheap_collections::{open_for_example, walks};

fn main() -> Result<()> {
    let (device, _) = open_for_example()?;
    let graph = Graph::debian();
    let heap = Heap::builder(&device).capacity(256 << 20).build()?;
    // Once before, so that no time is that of a first launch.
    walks::walk(&heap, &graph)?;
    let walked = walks::walk(&heap, &graph)?;

    println!(
        "{} packages of Debian 12 and {} dependencies on {device}: {} dependencies of dependencies\n",
        graph.vertices,
        graph.edges.len(),
        walked.by_lists.len()
    );
    let exact = Bytes(walked.by_passes.len() as u64 * 4);
    let rows = [
        [
            "Vec<Vec<u32>>".into(),
            "1".into(),
            milliseconds(walked.lists_seconds),
            Bytes(walked.occupancy.used_bytes).to_string(),
        ],
        [
            "two passes, prefix sum".into(),
            "4".into(),
            milliseconds(walked.passes_seconds),
            exact.to_string(),
        ],
    ];
    let columns = ["way", "kernels", "time", "memory of the lists"];
    println!("{}", table(columns, rows));
    println!(
        "\ncopying the vectors to the places that the passes found, and dropping them, took {}",
        milliseconds(walked.taking_seconds)
    );

    let reference = walks::reference(&graph);
    assert!(walked.by_lists == reference && walked.by_passes == reference);
    assert!(heap.snapshot()?.is_empty());
    println!("both ways list what the host lists, and the heap is empty again");
    Ok(())
}
