//! The whole heap against a shadow model: random requests of one thread over random heap shapes.
//!
//! What the model checks is told in `shadow_model`; the fuzz target `operations` shares it.

#![cfg(not(any(loom, shuttle)))]

mod host_heap;
mod shadow_model;

use host_heap::HostHeap;
use proptest::prelude::*;
use scatterheap_heap::layout::{Layout, MIN_CAPACITY};
use scatterheap_heap::{COUNT_BYTES, Core, Heap};
use shadow_model::{Operation, Shadow, index};
use std::alloc::Layout as Request;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Sizes of every kind of block that a heap has, and some that it has not.
fn sizes(capacity: u64) -> impl Strategy<Value = u64> {
    let page = Layout::new(capacity, 1).expect("in bounds").page_bytes();
    prop_oneof![
        8 => 1..=256_u64,
        6 => 1..=4 * page,
        3 => (0..24_u32).prop_map(|shift| 1_u64 << shift),
        3 => (1..=64_u64, 0..3_u64).prop_map(move |(pages, more)| pages * page - 1 + more),
        2 => 1..=capacity / 4,
        1 => capacity - capacity / 16..=capacity + page,
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63), Just(u64::MAX / 2)],
    ]
}

fn operations(capacity: u64) -> impl Strategy<Value = Vec<Operation>> {
    // One more is two bytes at least, so that a block has an inside.
    let wild = (0..capacity / 16, 0..20_u64)
        .prop_map(|(sixteens, more)| sixteens * 16 + more.saturating_sub(16));
    let operation = prop_oneof![
        20 => sizes(capacity).prop_map(Operation::Malloc),
        3 => sizes(capacity).prop_map(|bytes| Operation::Calloc(1, bytes)),
        3 => (1..500_u64, 1..200_u64).prop_map(|(count, size)| Operation::Calloc(count, size)),
        1 => (2..u64::MAX, 1_u64 << 63..u64::MAX).prop_map(|(count, size)| Operation::Calloc(count, size)),
        8 => (any::<usize>(), sizes(capacity)).prop_map(|(number, bytes)| Operation::Realloc(number, bytes)),
        6 => (sizes(capacity).prop_map(|bytes| bytes.min(1 << 40)), 0..20_u32)
            .prop_map(|(bytes, shift)| Operation::Aligned(bytes, shift)),
        1 => (1..1000_u64, 20..62_u32).prop_map(|(bytes, shift)| Operation::Aligned(bytes, shift)),
        16 => any::<usize>().prop_map(Operation::Free),
        4 => any::<usize>().prop_map(Operation::Again),
        2 => any::<usize>().prop_map(Operation::DoubleFree),
        2 => (any::<usize>(), any::<u64>()).prop_map(|(number, offset)| Operation::Interior(number, offset)),
        1 => (any::<bool>(), prop_oneof![0..100_u64, 0..1_u64 << 20])
            .prop_map(|(before, distance)| Operation::Foreign(before, distance)),
        2 => wild.clone().prop_map(Operation::Wild),
        1 => (wild, 1..1000_u64).prop_map(|(offset, bytes)| Operation::WildRealloc(offset, bytes)),
        1 => any::<usize>().prop_map(Operation::StaleFree),
        1 => sizes(capacity).prop_map(Operation::StaleMalloc),
        2 => (0..10_u32).prop_map(Operation::StandIn),
        1 => Just(Operation::Pack),
    ];
    prop::collection::vec(operation, 1..300)
}

fn scenarios() -> impl Strategy<Value = (u64, u32, u32, Vec<Operation>)> {
    let capacity = prop_oneof![
        Just(MIN_CAPACITY),
        MIN_CAPACITY..64 << 10,
        64_u64 << 10..1 << 20,
        1_u64 << 20..8 << 20,
        (4..=13_u32).prop_map(|shift| MIN_CAPACITY << (shift - 4)),
    ];
    let flags = prop_oneof![Just(0), Just(COUNT_BYTES)];
    (capacity, 1..=8_u32, flags).prop_flat_map(|(capacity, stripes, flags)| {
        (
            Just(capacity),
            Just(stripes),
            Just(flags),
            operations(capacity),
        )
    })
}

/// Runs a test that must come to an end. One that does not is left behind, and fails.
fn within_a_minute(test: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || {
        test();
        // Nobody listens where the minute is over.
        let _late = sender.send(());
    });
    let waited = receiver.recv_timeout(Duration::from_secs(60));
    assert_ne!(
        waited,
        Err(mpsc::RecvTimeoutError::Timeout),
        "the heap does not answer"
    );
    if let Err(panic) = worker.join() {
        resume_unwind(panic);
    }
}

fn run(capacity: u64, stripes: u32, flags: u32, operations: Vec<Operation>) {
    within_a_minute(move || {
        let host = HostHeap::new(capacity, stripes, flags);
        // SAFETY: nobody uses it yet.
        let stale = unsafe { host.reset() };
        let mut shadow = Shadow::new(host.heap(), stale);
        for operation in &operations {
            shadow.apply(operation);
        }
        shadow.finish();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 3000, max_shrink_time: 120_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_does_as_the_model((capacity, stripes, flags, operations) in scenarios()) {
        run(capacity, stripes, flags, operations);
    }

    /// Many small requests in a small heap: nearly always at its limits.
    #[test]
    fn a_full_heap_does_as_the_model(
        stripes in 1..=4_u32,
        fills in prop::collection::vec((1..300_u64, any::<usize>(), 0..7_u8), 100..400),
    ) {
        let operations: Vec<_> = fills
            .into_iter()
            .map(|(bytes, number, kind)| match kind {
                0 | 1 => Operation::Free(number),
                2 => Operation::Again(number),
                3 => Operation::Realloc(number, bytes),
                _ => Operation::Malloc(bytes),
            })
            .collect();
        run(MIN_CAPACITY, stripes, 0, operations);
    }
}

/// Blocks that are allocated and freed by turns before slots are packed, and how often.
const GROWING: usize = 4000;
const ROUNDS: usize = 4;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 1000, max_shrink_time: 120_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Small blocks, in slabs that grew large enough for slots to be packed.
    #[test]
    fn a_heap_that_churns_does_as_the_model(
        stripes in 1..=2_u32,
        operations in prop::collection::vec((1..=32_u64, any::<usize>(), 0..12_u8), 100..1000),
    ) {
        let sizes = [16, 32].into_iter().cycle().take(GROWING);
        let grown = sizes.map(Operation::Malloc).chain([Operation::FreeEach(1)]);
        let operations = operations.into_iter().map(|(bytes, number, kind)| match kind {
            0..=2 => Operation::Free(number),
            3 => Operation::Again(number),
            4 => Operation::Realloc(number, bytes),
            // What a refill published says nothing of it.
            5 => Operation::Pack,
            _ => Operation::Malloc(bytes),
        });
        let operations = grown.cycle().take(ROUNDS * (GROWING + 1)).chain([Operation::Pack]).chain(operations);
        run(4 << 20, stripes, 0, operations.collect());
    }
}

/// A heap whose pages are at an address that no memory is at: nothing may touch them.
fn heap_at(base: u64, capacity: u64) -> (HostHeap, Vec<u64>) {
    let host = HostHeap::new(capacity, 1, 0);
    let layout = *host.heap().layout();
    let words = index(layout.metadata_bytes / 8) + 512;
    let metadata = vec![0_u64; words];
    let address = (metadata.as_ptr() as u64).next_multiple_of(4096);
    // SAFETY: the metadata has room for the heap, which lives as long as it.
    unsafe {
        (address as *mut Core).write(Core::new(layout, address, base, 0));
        Heap::at(address).initialise(scatterheap_heap::Share { index: 0, count: 1 });
    }
    (host, metadata)
}

#[test]
fn the_largest_alignments_are_kept() {
    for base in [
        1_u64 << 41,
        (1 << 41) - (8 << 10),
        3 << 41,
        (1 << 46) - (8 << 10),
    ] {
        let (_host, metadata) = heap_at(base, MIN_CAPACITY);
        // SAFETY: initialised by `heap_at`.
        let heap = unsafe { Heap::at((metadata.as_ptr() as u64).next_multiple_of(4096)) };
        for shift in 4..63 {
            let request = Request::from_size_align(64, 1 << shift).expect("valid");
            let block = heap.aligned_alloc(request) as u64;
            assert_eq!(block % (1 << shift), 0, "base {base:#x}");
            let first = base.next_multiple_of(1 << shift);
            assert!(
                block != 0 || first >= base + MIN_CAPACITY,
                "2^{shift} at {base:#x}"
            );
            // SAFETY: the block is ours, and was not touched.
            unsafe { heap.free(block as *mut u8) };
        }
    }
}

/// Blocks of `bytes` until there is no more.
fn fill_up(heap: &Heap, bytes: u64) -> Vec<u64> {
    let blocks = std::iter::repeat_with(|| heap.malloc(bytes) as u64);
    blocks.take_while(|block| *block != 0).collect()
}

/// A heap full of one class serves a smaller one from whichever slot is freed: the first of a
/// slab, the last, any.
#[test]
fn a_slot_anywhere_in_a_slab_of_a_larger_class_is_found() {
    for bytes in [32, 48, 64, 80, 112] {
        within_a_minute(move || {
            let host = HostHeap::new(MIN_CAPACITY, 1, 0);
            let heap = host.heap();
            let blocks = fill_up(heap, bytes);
            for block in &blocks {
                // SAFETY: the block is live and nobody else's.
                unsafe { heap.free(*block as *mut u8) };
                assert_eq!(heap.malloc(16) as u64, *block, "the only free slot");
                assert!(heap.malloc(16).is_null());
            }
        });
    }
}

/// A slot borrowed from a larger class is as aligned as was asked, or NULL.
#[test]
fn a_borrowed_slot_is_aligned() {
    for bytes in [48, 80, 96, 112] {
        for shift in 5..8 {
            within_a_minute(move || {
                let host = HostHeap::new(MIN_CAPACITY, 1, 0);
                let heap = host.heap();
                let blocks = fill_up(heap, bytes);
                for block in blocks {
                    // SAFETY: the block is live and nobody else's.
                    unsafe { heap.free(block as *mut u8) };
                    let request = Request::from_size_align(32, 1 << shift).expect("valid");
                    let aligned = heap.aligned_alloc(request) as u64;
                    assert_eq!(aligned % (1 << shift), 0, "in a slot of {bytes} bytes");
                    // Keep the heap full.
                    if aligned == 0 {
                        assert_eq!(heap.malloc(bytes) as u64, block);
                    }
                }
            });
        }
    }
}

/// The last free slot serves any request that it is large enough for, whatever multiples of the
/// request's own slots are aligned to.
#[test]
fn a_slot_of_less_alignment_is_lent() {
    within_a_minute(|| {
        let host = HostHeap::new(MIN_CAPACITY, 1, 0);
        let heap = host.heap();
        let blocks = fill_up(heap, 48);
        for block in blocks {
            // SAFETY: the block is live and nobody else's.
            unsafe { heap.free(block as *mut u8) };
            assert_eq!(heap.malloc(32) as u64, block, "the only free slot");
        }
    });
}

/// Where no slab can be made, because its pages must be aligned, pages side by side still serve a
/// request.
#[test]
fn pages_that_no_slab_fits_serve_a_slot() {
    within_a_minute(|| {
        let host = HostHeap::new(4 << 20, 1, 0);
        let heap = host.heap();
        let page = heap.layout().page_bytes();
        // Nine pages each: most of them have no eight aligned ones.
        let blocks = fill_up(heap, u64::from(heap.layout().largest_slot) + 1);
        while !heap.malloc(1).is_null() {}
        for block in blocks {
            // SAFETY: the block is live and nobody else's.
            unsafe { heap.free(block as *mut u8) };
            let slot = heap.malloc(5 * page);
            assert!(!slot.is_null(), "nine pages are free");
            assert!(heap.usable_size(slot) >= 5 * page);
            // SAFETY: as above.
            unsafe { heap.free(slot) };
            assert_eq!(heap.malloc(9 * page) as u64, block);
        }
    });
}
