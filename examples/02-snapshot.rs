//! What a snapshot tells of a heap: live blocks, occupancy, fragmentation, broken invariants.
//!
//! `cargo run --example 02-snapshot` runs on the CPU, `… -- --device cuda:0` on a GPU.

mod device;

use anyhow::Result;
use scatterheap::size::Bytes;
use scatterheap::stress::{Settings, fill};
use scatterheap::{Heap, Snapshot};

fn main() -> Result<()> {
    let device = device::from_command_line()?;
    let builder = Heap::builder(&device).capacity(256 << 20);
    // Counting what was asked for costs time, and tells how much rounding wastes.
    let heap = builder.count_bytes(true).build()?;

    // Two groups of threads allocate from the same heap at different times.
    let small = fill(&heap, &settings(20_000, 1, 1000))?;
    let large = fill(&heap, &settings(50, 1 << 20, 2 << 20))?;
    describe("both groups hold their blocks", &heap.snapshot()?);
    first_blocks(&heap.snapshot()?);

    large.release()?;
    let snapshot = heap.snapshot()?;
    describe("the large blocks are freed", &snapshot);
    assert_eq!(snapshot.live().count(), 20_000);

    small.release()?;
    let snapshot = heap.snapshot()?;
    describe("everything is freed", &snapshot);
    assert!(snapshot.is_empty());
    assert_eq!(snapshot.occupancy().largest_request, heap.capacity());
    Ok(())
}

fn settings(threads: u32, least: u64, most: u64) -> Settings {
    Settings {
        threads,
        rounds: 1,
        least,
        most,
        seed: 1,
        moments: 0,
    }
}

fn describe(when: &str, snapshot: &Snapshot) {
    let occupancy = snapshot.occupancy();
    let pages = occupancy.pages;
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    println!("{when}:");
    println!("  blocks                  {}", occupancy.used_blocks);
    println!("  bytes                   {}", Bytes(occupancy.used_bytes));
    println!(
        "  pages                   {} free, {} in slabs, {} in runs",
        pages.free, pages.in_slabs, pages.in_runs
    );
    println!(
        "  largest request now     {}",
        Bytes(occupancy.largest_request)
    );
    if let Some(share) = occupancy.internal_fragmentation {
        println!("  internal fragmentation  {}", percent(share));
    }
    println!(
        "  external fragmentation  {}",
        percent(occupancy.external_fragmentation)
    );
    // Every invariant of the allocator is checked; this says which do not hold.
    let violations = snapshot.violations();
    println!("  violations              {}\n", violations.len());
    assert!(violations.is_empty(), "{violations:?}");
}

fn first_blocks(snapshot: &Snapshot) {
    println!("some of the live blocks:");
    for block in snapshot.live().step_by(4000) {
        let class = match block.class {
            Some(class) => format!("class {class}"),
            None => "a run of pages".into(),
        };
        println!(
            "  {:#x}  {:>8}  {class}",
            block.address,
            Bytes(block.bytes).to_string()
        );
    }
    println!();
}
