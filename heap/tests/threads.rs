//! Many OS threads on one heap: contents are verified, everything comes back.

#![cfg(not(any(loom, shuttle)))]

mod host_heap;

use host_heap::HostHeap;
use scatterheap_heap::Heap;

/// Fills a block with a pattern of its owner.
fn fill(block: *mut u8, bytes: u64, owner: u64) {
    for index in 0..usize::try_from(bytes).expect("fits") {
        // SAFETY: the block has that many bytes.
        unsafe {
            block
                .add(index)
                .write((owner ^ index as u64).to_le_bytes()[0]);
        };
    }
}

fn check(block: *mut u8, bytes: u64, owner: u64) {
    for index in 0..usize::try_from(bytes).expect("fits") {
        // SAFETY: the block has that many bytes.
        let found = unsafe { block.add(index).read() };
        assert_eq!(
            found,
            (owner ^ index as u64).to_le_bytes()[0],
            "byte {index} of {bytes}"
        );
    }
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn churn(heap: &Heap, seed: u64, rounds: u32, largest: u64, live: usize) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut blocks: Vec<(*mut u8, u64, u64)> = Vec::new();
    let mut nulls = 0;
    for round in 0..rounds {
        if blocks.len() < live && !next(&mut state).is_multiple_of(3) {
            let bytes = next(&mut state) % largest + 1;
            let block = heap.malloc(bytes);
            if block.is_null() {
                nulls += 1;
                continue;
            }
            assert!(heap.owns(block) && (block as u64).is_multiple_of(16));
            assert!(heap.usable_size(block) >= bytes);
            let owner = seed << 32 | u64::from(round);
            fill(block, bytes, owner);
            blocks.push((block, bytes, owner));
        } else if !blocks.is_empty() {
            let index = usize::try_from(next(&mut state)).expect("64 bit") % blocks.len();
            let (block, bytes, owner) = blocks.swap_remove(index);
            check(block, bytes, owner);
            // SAFETY: the block is this thread's.
            unsafe { heap.free(block) };
        }
    }
    for (block, bytes, owner) in blocks {
        check(block, bytes, owner);
        // SAFETY: the block is this thread's.
        unsafe { heap.free(block) };
    }
    nulls
}

fn whole_heap_is_free(heap: &Heap) {
    let all = heap.malloc(heap.capacity());
    assert!(
        !all.is_null(),
        "everything is freed, so the whole heap can be had"
    );
    // SAFETY: it is this thread's.
    unsafe { heap.free(all) };
}

fn run(capacity: u64, threads: u64, rounds: u32, largest: u64, live: usize) -> u64 {
    let host = HostHeap::new(capacity, 4, 0);
    let heap = host.heap();
    let nulls = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|seed| {
                scope.spawn(move || {
                    simt::emulation::set_position(simt::emulation::Position {
                        block_index: u32::try_from(seed).expect("few"),
                        ..Default::default()
                    });
                    churn(heap, seed + 1, rounds, largest, live)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic"))
            .sum()
    });
    whole_heap_is_free(heap);
    nulls
}

use scatterheap_simt as simt;

#[test]
fn small_blocks_in_a_roomy_heap_never_fail() {
    assert_eq!(run(64 << 20, 8, 40_000, 256, 500), 0);
}

#[test]
fn blocks_of_all_sizes() {
    run(32 << 20, 8, 10_000, 100_000, 60);
}

#[test]
fn a_tiny_heap_under_pressure_recovers() {
    assert!(
        run(1 << 20, 8, 10_000, 4000, 400) > 0,
        "the heap was meant to be too small"
    );
}

#[test]
fn the_smallest_heap_under_pressure_recovers() {
    assert!(
        run(16 << 10, 4, 10_000, 600, 100) > 0,
        "the heap was meant to be too small"
    );
}

#[test]
fn one_class_fills_the_heap_to_the_last_slot() {
    for (bytes, capacity) in [
        (16_u64, 1_u64 << 20),
        (48, 4 << 20),
        (256, 4 << 20),
        (4096, 16 << 20),
    ] {
        let host = HostHeap::new(capacity, 8, 0);
        let heap = host.heap();
        let mut blocks = Vec::new();
        loop {
            let block = heap.malloc(bytes);
            if block.is_null() {
                break;
            }
            blocks.push(block);
        }
        let share = blocks.len() as u64 * bytes * 1000 / heap.capacity();
        assert!(share >= 980, "{bytes} B blocks took {share} of 1000");
        let last = blocks.pop().expect("some");
        // SAFETY: the blocks are this thread's.
        unsafe { heap.free(last) };
        assert_eq!(heap.malloc(bytes), last, "the freed slot is found at once");
        blocks.push(last);
        for block in blocks {
            // SAFETY: as above.
            unsafe { heap.free(block) };
        }
        whole_heap_is_free(heap);
    }
}
