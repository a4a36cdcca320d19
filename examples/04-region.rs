//! A heap in memory that the caller brings, such as pinned, managed or symmetric memory.
//!
//! `cargo run --example 04-region` runs on the CPU, `… -- --device cuda:0` on a GPU.

mod device;

use anyhow::Result;
use scatterheap::Heap;
use scatterheap::size::Bytes;
use scatterheap::stress::{self, Settings, Workload};

fn main() -> Result<()> {
    let device = device::from_command_line()?;
    // Any memory that the device's kernels can read and write will do. This is plain memory of the
    // device, the middle of a larger piece.
    let memory = device.allocate(100 << 20)?;
    let (address, bytes) = (memory.address() + (10 << 20), 80 << 20);

    // SAFETY: the memory outlives the heap, and nobody else uses this part of it.
    let heap = unsafe { Heap::builder(&device).in_region(address, bytes) }.build()?;
    println!("a region of {} at {address:#x} on {device}", Bytes(bytes));
    println!(
        "  has room for a heap of {} at {:#x}",
        Bytes(heap.capacity()),
        heap.base()
    );
    println!(
        "  and its metadata of {}",
        Bytes(heap.layout().metadata_bytes)
    );
    assert!(heap.base() >= address && heap.base() + heap.capacity() <= address + bytes);

    let workload = Workload::Churn;
    let settings = Settings {
        threads: 4096,
        ..Settings::for_workload(workload, &heap)
    };
    let report = stress::run(&heap, workload, &settings, &mut |_, _| ())?;
    println!(
        "{} calls of malloc and free: all blocks intact",
        report.operations
    );
    assert!(report.passed() && report.operations > 0);

    // The memory is the caller's: dropping the heap leaves it alone.
    drop(heap);
    memory.clear()?;
    Ok(())
}
