//! Every thread of a kernel allocates a block; the host sees how full the heap is.
//!
//! `cargo run --example 01-allocate` runs on the CPU, `… -- --device cuda:0` on a GPU.

mod device;

use anyhow::Result;
use scatterheap::kernels::blocks::{Allocate, Block, BlocksArguments, Release};
use scatterheap::kernels::sizes::Sizes;
use scatterheap::kernels::tally::Tally;
use scatterheap::size::Bytes;
use scatterheap::{Grid, Heap};

const THREADS: u32 = 10_000;

fn main() -> Result<()> {
    let device = device::from_command_line()?;
    let heap = Heap::builder(&device).capacity(64 << 20).build()?;
    println!("a heap of {} on {device}", Bytes(heap.capacity()));

    // The kernel comes with scatterheap. It wants room for what each thread gets, and a tally.
    let blocks = device.allocate(u64::from(THREADS) * size_of::<Block>() as u64)?;
    let tally = device.allocate(size_of::<Tally>() as u64)?;
    tally.clear()?;
    let arguments = BlocksArguments {
        heap: heap.handle()?,
        blocks: blocks.address(),
        count: u64::from(THREADS),
        tally: tally.address(),
        first_owner: 0,
        sizes: Sizes {
            least: 16,
            most: 100,
            seed: 1,
        },
        stride: 1,
    };
    // SAFETY: the array has a place for each thread, and outlives the launch, as the tally does.
    unsafe { heap.launch::<Allocate>(Grid::of(THREADS), &arguments)? };

    let occupancy = heap.snapshot()?.occupancy();
    println!("{THREADS} threads asked for 16 to 100 bytes each, and now the heap has\n");
    println!(
        "{:>12}{:>8}{:>14}{:>12}",
        "size class", "slabs", "blocks", "of"
    );
    for class in &occupancy.classes {
        let size = Bytes(class.slot_bytes).to_string();
        println!(
            "{size:>12}{:>8}{:>14}{:>12}",
            class.slabs, class.used, class.slots
        );
    }
    let (blocks, bytes) = (occupancy.used_blocks, Bytes(occupancy.used_bytes));
    println!("\n{blocks} blocks of {bytes} in all");
    assert_eq!(blocks, u64::from(THREADS));

    // SAFETY: as above; nobody uses the blocks any more.
    unsafe { heap.launch::<Release>(Grid::of(THREADS), &arguments)? };
    let snapshot = heap.snapshot()?;
    assert!(snapshot.is_empty() && snapshot.violations().is_empty());
    println!("then every thread freed its block, and the heap is empty");
    Ok(())
}
