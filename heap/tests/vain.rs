//! Free slots of a full heap that lie together: who draws units that have none does not draw all of these, one after the other.

#![cfg(not(any(loom, shuttle)))]

mod host_heap;

use core::ops::Range;
use host_heap::HostHeap;
use proptest::prelude::*;
use scatterheap_heap::class::class_of;
use std::collections::BTreeMap;

/// Bytes of a heap whose slabs have four times as many slots as are freed.
const LARGE: u64 = 64 << 20;
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

/// How many requests to a full heap of some bytes get NULL if some blocks of a slab are freed, those at some places, as many are asked for, and a request gives up after 128 searches in vain.
fn nulls_where_these_are_free(capacity: u64, freed: impl IntoIterator<Item = usize>) -> usize {
    let host = HostHeap::new(capacity, 1, 0);
    let heap = host.heap();
    let blocks = blocks_of_a_large_slab(&host);
    assert!(blocks.len() >= 4096, "{}", blocks.len());
    let mut count = 0;
    for place in freed {
        // SAFETY: it is this thread's.
        unsafe { heap.free(blocks[place] as *mut u8) };
        count += 1;
    }
    host.give_up_after(7);
    let again = (0..count).map(|_| heap.malloc(BYTES.into()));
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
        let nulls = nulls_where_these_are_free(LARGE, places.clone());
        assert_eq!(nulls, 0, "{places:?} of a slab");
    }
}

/// Where most of what lies below the highest free slot is free, but not what lies highest.
#[test]
fn the_highest_free_slot_is_found_above_some_in_use() {
    for but in [970..990, 900..950, 999..1000, 500..999, 100..900] {
        let but: Range<usize> = but;
        let freed = (0..1000).filter(|place| !but.contains(place));
        let nulls = nulls_where_these_are_free(LARGE, freed);
        assert_eq!(nulls, 0, "0..1000 of a slab but {but:?}");
    }
}

/// All of the slab is offered as a row, for three quarters are free. Of its first units none has a slot, nor have the words that who lacks one looks at.
#[test]
fn slots_are_found_beside_words_that_stay() {
    let freed = (0..4096).filter(|place| !matches!(place / 32 % 8, 0 | 7));
    assert_eq!(nulls_where_these_are_free(16 << 20, freed), 0);
}

/// Places of runs that follow one another, each so long and so far from the one before.
fn places_of(runs: &[(usize, usize)]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut end = 0;
    for (gap, length) in runs {
        places.extend(end + gap..end + gap + length);
        end += gap + length;
    }
    places
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slots_are_found_wherever_they_lie(
        runs in prop_oneof![
            prop::collection::vec((0_usize..600, 1_usize..400), 1..4),
            prop::collection::vec((1_usize..50, 1_usize..50), 1..80),
            prop::collection::vec((0_usize..4, 1_usize..3), 1..600),
            prop::collection::vec((0_usize..300, 1_usize..3), 1..13),
        ],
    ) {
        prop_assert_eq!(nulls_where_these_are_free(LARGE, places_of(&runs)), 0);
    }
}
