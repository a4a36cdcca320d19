//! Free slots of a full heap that lie together: who draws units that have none does not draw all of these, one after the other.

#![cfg(not(any(loom, shuttle)))]

mod host_heap;

use core::ops::Range;
use host_heap::HostHeap;
use scatterheap_heap::class::class_of;
use std::collections::BTreeMap;

/// Of each block, in bytes.
const BYTES: u32 = 64;

/// Fills a heap: the blocks of the slab that has the most, by their addresses.
fn blocks_of_a_large_slab(host: &HostHeap) -> Vec<u64> {
    let (heap, stripe) = (host.heap(), host.stripe(class_of(BYTES)));
    let mut slabs = BTreeMap::<u32, Vec<u64>>::new();
    let blocks = std::iter::from_fn(|| {
        let block = heap.malloc(BYTES.into());
        (!block.is_null()).then_some(block as u64)
    });
    for block in blocks {
        slabs.entry(stripe.look().page()).or_default().push(block);
    }
    let largest = slabs.into_values().max_by_key(Vec::len);
    let mut blocks = largest.expect("a slab");
    blocks.sort_unstable();
    blocks
}

/// How many requests get NULL if some blocks of that slab are freed, those at some places but not those at others, as many are asked for, and a request gives up after 128 searches in vain.
fn nulls_where_these_are_free(places: Range<usize>, but: Range<usize>) -> usize {
    let host = HostHeap::new(64 << 20, 1, 0);
    let heap = host.heap();
    let blocks = blocks_of_a_large_slab(&host);
    assert!(blocks.len() > 4096, "{}", blocks.len());
    let freed: Vec<_> = places.filter(|place| !but.contains(place)).collect();
    for place in &freed {
        // SAFETY: it is this thread's.
        unsafe { heap.free(blocks[*place] as *mut u8) };
    }
    host.give_up_after(7);
    let again = freed.iter().map(|_| heap.malloc(BYTES.into()));
    again.filter(|block| block.is_null()).count()
}

#[test]
fn slots_that_lie_together_are_found_in_few_searches() {
    let places = [
        0..512,
        0..2048,
        0..3072,
        0..4096,
        2560..3584,
        100..101,
        0..40,
    ];
    for places in places {
        let nulls = nulls_where_these_are_free(places.clone(), 0..0);
        assert_eq!(nulls, 0, "{places:?} of a slab");
    }
}

/// Where most of what lies below the highest free slot is free, but not what lies highest.
#[test]
fn the_highest_free_slot_is_found_above_some_in_use() {
    for but in [970..990, 900..950, 999..1000, 500..999, 100..900] {
        let nulls = nulls_where_these_are_free(0..1000, but.clone());
        assert_eq!(nulls, 0, "0..1000 of a slab but {but:?}");
    }
}
