//! A hardened heap finds the program's mistakes: an overrun, a second free, and forgotten blocks.
//!
//! `cargo run --example 05-hardened`; the kernel is in this file, so it runs on the CPU.

#![allow(clippy::cast_ptr_alignment, reason = "blocks are aligned to 16 bytes")]

use anyhow::Result;
use bytemuck::{Pod, Zeroable};
use scatterheap::simt::{kernel, thread};
use scatterheap::{Device, Grid, Hardening, Heap, Misuse};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Arguments {
    heap: scatterheap::heap::Heap,
}

kernel! {
    /// Every thread makes a list. Thread 7 writes one number too many, thread 11 frees its list
    /// twice, and some threads forget theirs.
    struct Careless = "example_careless";
    fn body(arguments: &Arguments) {
        let thread = thread::index_1d();
        let count = 10 + thread as usize % 5;
        let list = arguments.heap.malloc_tagged(count as u64 * 8, 1000 + thread % 3);
        if list.is_null() {
            return;
        }
        let numbers = list.cast::<u64>();
        // SAFETY: none, which is what this example is about; all stays in the heap's memory.
        unsafe {
            for index in 0..count + usize::from(thread == 7) {
                numbers.add(index).write(index as u64);
            }
            if thread % 50 == 49 {
                return;
            }
            arguments.heap.free(list);
            if thread == 11 {
                arguments.heap.free(list);
            }
        }
    }
}

fn main() -> Result<()> {
    let device = Device::cpu();
    let modes = Hardening::RED_ZONES | Hardening::QUARANTINE | Hardening::TAGS;
    let heap = Heap::builder(&device)
        .capacity(64 << 20)
        .harden(modes)
        .build()?;
    let arguments = Arguments {
        heap: heap.handle()?,
    };
    // SAFETY: the heap is this device's, and outlives the launch.
    unsafe { heap.launch::<Careless>(Grid::of(256), &arguments)? };

    let report = heap.misuse_report()?;
    println!("misuse:\n{report}\n");
    assert_eq!(report.count(Misuse::Overrun), 1);
    assert_eq!(report.count(Misuse::DoubleFree), 1);

    let leaks = heap.leak_report()?;
    println!("blocks that nobody freed:\n{leaks}");
    assert_eq!(leaks.sites.iter().map(|site| site.blocks).sum::<u64>(), 5);
    Ok(())
}
