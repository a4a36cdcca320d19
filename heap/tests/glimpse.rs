//! Looks at a heap that is in use: right where nothing is under way, and never a panic.

#![cfg(all(feature = "inspect", not(any(loom, shuttle))))]

mod host_heap;

use host_heap::HostHeap;
use proptest::prelude::*;
use scatterheap_heap::inspect::{Glimpse, Snapshot, glimpse_bytes};
use scatterheap_heap::layout::{Layout, MAX_CAPACITY, MIN_CAPACITY};
use scatterheap_heap::stripe::Stripe;
use scatterheap_heap::ticket::Ticket;
use scatterheap_heap::{COUNT_BYTES, Core, Heap};
use scatterheap_simt::emulation::{Position, set_position};
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};

/// All metadata. No thread may use the heap.
fn copy(heap: &Heap) -> Vec<u8> {
    let bytes = usize::try_from(heap.layout().metadata_bytes).expect("fits");
    // SAFETY: the metadata begins with the head and has that many bytes; no thread uses the heap.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(heap).cast::<u8>(), bytes) }.to_vec()
}

/// The bytes that a glimpse is made of.
fn part(heap: &Heap) -> Vec<u8> {
    let mut metadata = copy(heap);
    metadata.truncate(usize::try_from(glimpse_bytes(heap.layout())).expect("fits"));
    metadata
}

fn head_of(heap: &Heap) -> Core {
    bytemuck::pod_read_unaligned(&copy(heap)[..size_of::<Core>()])
}

/// Allocates and frees as from several multiprocessors; what is left is handed out.
fn operate(heap: &Heap, seed: u64, rounds: u64, mut look: impl FnMut()) {
    let mut blocks = Vec::new();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for round in 0..rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        set_position(Position {
            block_index: u32::try_from(state % 8).expect("small"),
            ..Default::default()
        });
        if state % 5 < 3 || blocks.is_empty() {
            let largest = 40_000 >> (state % 12);
            let block = heap.malloc((state >> 20) % largest + 1);
            if !block.is_null() {
                blocks.push(block);
            }
        } else {
            let index = usize::try_from(state >> 8).expect("64 bits") % blocks.len();
            // SAFETY: allocated above, and freed once.
            unsafe { heap.free(blocks.swap_remove(index)) };
        }
        if round % 500 == 0 {
            look();
        }
    }
}

#[test]
fn a_glimpse_of_a_heap_at_rest_tells_what_a_snapshot_tells() {
    let shapes = [
        (1, 16 << 10, 4),
        (2, 1_000_000, 8),
        (3, 20_000_000, 8),
        // The words of its slabs lie at every other place.
        (4, 3 << 30, 132),
    ];
    for (seed, capacity, stripes) in shapes {
        let host = HostHeap::new(capacity, stripes, COUNT_BYTES);
        let heap = host.heap();
        let mut looks = 0;
        operate(heap, seed, 5_000, || {
            let snapshot = Snapshot::new(copy(heap)).expect("a heap");
            let copied = Glimpse::new(part(heap)).expect("a heap");
            // SAFETY: the metadata are there, and only the allocator changes them.
            let read = unsafe { Glimpse::of_running(&head_of(heap)) }.expect("a heap");
            for glimpse in [copied, read] {
                assert_eq!(glimpse.occupancy(), snapshot.occupancy());
                assert_eq!(glimpse.page_map(), snapshot.page_map());
            }
            looks += 1;
        });
        assert_eq!(looks, 10);
    }
}

/// Replaces the words of stripes in the bytes of a glimpse.
fn change_stripes(part: &mut [u8], layout: &Layout, change: impl Fn(Ticket) -> Ticket) {
    let first = usize::try_from(layout.offsets.stripes).expect("fits");
    let count = usize::try_from(layout.stripe_words()).expect("fits");
    for stripe in part[first..]
        .chunks_exact_mut(size_of::<Stripe>())
        .take(count)
    {
        let word: &mut [u8; 8] = stripe.try_into().expect("eight bytes");
        *word = change(Ticket(u64::from_le_bytes(*word))).0.to_le_bytes();
    }
}

#[test]
fn what_may_be_drawn_of_a_slab_that_is_installed_or_rewound_counts_as_free() {
    let host = HostHeap::new(20_000_000, 8, 0);
    let heap = host.heap();
    operate(heap, 4, 5_000, || {});
    let used = |part| Glimpse::new(part).expect("a heap").occupancy().used_blocks;
    let exact = used(part(heap));
    let rewinding = |ticket: Ticket| {
        if ticket.has_slab() {
            ticket.rewinding()
        } else {
            ticket
        }
    };
    let installing = |ticket: Ticket| Ticket::empty(ticket.class());
    for change in [&rewinding as &dyn Fn(Ticket) -> Ticket, &installing] {
        let mut part = part(heap);
        change_stripes(&mut part, heap.layout(), change);
        // What is in other slabs is told as ever.
        assert!((1..exact).contains(&used(part)), "{exact}");
    }
}

#[test]
fn a_heap_in_use_can_be_looked_at() {
    let host = HostHeap::new(4 << 20, 8, 0);
    let heap = host.heap();
    let core = head_of(heap);
    let done = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut looks = 0;
            // Relaxed: the flag only ends the loop.
            while !done.load(Ordering::Relaxed) || looks == 0 {
                // SAFETY: the metadata are there, and only the allocator changes them.
                let glimpse = unsafe { Glimpse::of_running(&core) }.expect("a heap");
                let occupancy = glimpse.occupancy();
                let pages = occupancy.pages;
                let all = pages.free + pages.in_slabs + pages.in_runs + pages.lost;
                assert_eq!(all, u64::from(core.layout().page_count));
                assert!(
                    occupancy
                        .classes
                        .iter()
                        .all(|class| class.used <= class.slots)
                );
                looks += 1;
            }
            looks
        });
        let workers: Vec<_> = (0..3)
            .map(|seed| scope.spawn(move || operate(heap, seed, 20_000, || {})))
            .collect();
        for worker in workers {
            worker.join().expect("no panic");
        }
        done.store(true, Ordering::Relaxed);
        looks.join().expect("no panic")
    });
    assert!(looks > 0);
}

#[test]
fn a_glimpse_is_small() {
    for capacity in [MIN_CAPACITY, 1 << 28, 16 << 30, 128 << 30, MAX_CAPACITY] {
        let layout = Layout::new(capacity, 132).expect("in bounds");
        assert!(
            glimpse_bytes(&layout) <= 18 << 20,
            "{capacity}: {}",
            glimpse_bytes(&layout)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// What is torn between two moments, at worst: any words at all after the head.
    #[test]
    fn no_bytes_make_a_glimpse_panic(seed in any::<u64>(), sparse in 0_u64..40) {
        let host = HostHeap::new(60_000, 4, COUNT_BYTES);
        operate(host.heap(), seed, 300, || {});
        let mut bytes = part(host.heap());
        let mut state = seed | 1;
        for byte in &mut bytes[size_of::<Core>()..] {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state % (sparse + 1) == 0 {
                *byte = state.to_le_bytes()[5];
            }
        }
        let glimpse = Glimpse::new(bytes).expect("the head is whole");
        let occupancy = glimpse.occupancy();
        prop_assert!(glimpse.page_map().len() <= host.heap().layout().page_count as usize);
        prop_assert!(occupancy.classes.iter().all(|class| class.used <= class.slots));
        prop_assert!((0.0..=1.0).contains(&occupancy.external_fragmentation));
    }
}
