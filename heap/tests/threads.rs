//! Many OS threads on one heap: contents are verified, everything comes back.

#![cfg(not(any(loom, shuttle)))]

mod host_heap;

use host_heap::HostHeap;
use scatterheap_heap::Heap;
use std::thread::ScopedJoinHandle;

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

/// Numbers below `count` of which some runs are chosen: long or short ones, side by side or far apart.
fn some_runs(count: usize, state: &mut u64) -> Vec<bool> {
    let longest = |state: &mut u64| 1 << (next(state) % 12);
    let (gap, run) = (longest(state), longest(state));
    let mut chosen = Vec::with_capacity(count + gap + run);
    while chosen.len() < count {
        let below = |most: usize, state: &mut u64| {
            usize::try_from(next(state)).expect("64 bit") % (most + 1)
        };
        chosen.resize(chosen.len() + below(gap, state), false);
        chosen.resize(chosen.len() + below(run, state), true);
    }
    chosen.truncate(count);
    chosen
}

/// Asks for so many blocks, gives some back now and then, and asks for these again: all that it has in the end.
fn take(heap: &Heap, bytes: u64, count: usize, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut blocks = Vec::with_capacity(count);
    while blocks.len() < count {
        let block = heap.malloc(bytes);
        assert!(!block.is_null(), "block {} of {count}", blocks.len());
        blocks.push(block as u64);
        if next(&mut state).is_multiple_of(64) {
            let again = usize::try_from(next(&mut state)).expect("64 bit") % blocks.len();
            for block in blocks.drain(again.saturating_sub(20)..again) {
                // SAFETY: it is this thread's.
                unsafe { heap.free(block as *mut u8) };
            }
        }
    }
    blocks
}

/// Fills a heap, and frees some runs of its blocks: those that are kept, and how many were freed.
fn full_but_for_runs(heap: &Heap, bytes: u64, state: &mut u64) -> (Vec<u64>, usize) {
    let mut blocks: Vec<u64> = std::iter::from_fn(|| {
        let block = heap.malloc(bytes);
        (!block.is_null()).then_some(block as u64)
    })
    .collect();
    blocks.sort_unstable();
    let all = blocks.len();
    let mut freed = some_runs(all, state).into_iter();
    blocks.retain(|block| {
        let stays = freed.next() == Some(false);
        if !stays {
            // SAFETY: it is this thread's.
            unsafe { heap.free(*block as *mut u8) };
        }
        stays
    });
    let freed = all - blocks.len();
    (blocks, freed)
}

/// Threads of several blocks of a grid together [take](take) so many blocks.
fn take_at_once(heap: &Heap, bytes: u64, count: usize, seed: u64) -> Vec<u64> {
    const THREADS: usize = 4;
    std::thread::scope(|scope| {
        let start = |thread| {
            let count = count / THREADS + usize::from(thread < count % THREADS);
            scope.spawn(move || {
                simt::emulation::set_position(simt::emulation::Position {
                    block_index: u32::try_from(thread).expect("few"),
                    ..Default::default()
                });
                take(heap, bytes, count, seed + thread as u64)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        let join = |thread: ScopedJoinHandle<Vec<u64>>| thread.join().expect("no panic");
        threads.into_iter().flat_map(join).collect()
    })
}

/// Whatever lies free of a full heap is found by several threads at once, to the last slot.
#[test]
fn what_is_free_is_found_wherever_it_lies() {
    for (seed, bytes) in (1..=24_u64).zip([16, 64, 128, 512].into_iter().cycle()) {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let stripes = if seed % 8 < 4 { 1 } else { 4 };
        let host = HostHeap::new(16 << 20, stripes, 0);
        let heap = host.heap();
        let (mut blocks, freed) = full_but_for_runs(heap, bytes, &mut state);
        blocks.extend(take_at_once(heap, bytes, freed, seed));
        assert!(
            heap.malloc(bytes).is_null(),
            "seed {seed}: it is full again"
        );
        blocks.sort_unstable();
        let are_apart = blocks.windows(2).all(|pair| pair[0] + bytes <= pair[1]);
        assert!(are_apart, "seed {seed}");
        for block in blocks {
            // SAFETY: it is this thread's.
            unsafe { heap.free(block as *mut u8) };
        }
        whole_heap_is_free(heap);
    }
}
