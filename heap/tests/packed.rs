//! Slots that are packed: what is freed is handed out again soon, and nothing is lost or handed out twice.

#![cfg(not(any(loom, shuttle)))]

mod host_heap;

use host_heap::HostHeap;
use scatterheap_heap::Heap;
use scatterheap_heap::class::class_of;
use scatterheap_heap::ticket::{PACKED_SLOTS, Ticket};
use scatterheap_simt::emulation::{Position, set_position};
use std::collections::BTreeSet;

/// Bytes of the blocks.
const BYTES: u32 = 64;
/// Blocks that are alive at once while some are replaced.
const ALIVE: usize = 60;
/// Fewer than a slab has, so that it is not offered again meanwhile.
const REPLACED: usize = 2000;

fn malloc(heap: &Heap) -> u64 {
    let block = heap.malloc(BYTES.into());
    assert!(!block.is_null());
    block as u64
}

fn free(heap: &Heap, block: u64) {
    // SAFETY: it is this thread's.
    unsafe { heap.free(block as *mut u8) };
}

/// Gives the heap's stripe a large slab without a block in it, the slots of which are packed: the stripe's word.
fn pack(host: &HostHeap) -> Ticket {
    let heap = host.heap();
    for _ in 0..8 {
        let blocks = [(); 8000].map(|()| malloc(heap));
        for block in blocks {
            free(heap, block);
        }
    }
    let word = host.stripe(class_of(BYTES)).look();
    assert!(word.left() > 8000, "{word:?}");
    // Nobody drew while those were freed.
    assert!(!word.is_churned());
    host.pack(class_of(BYTES))
}

/// Lets the caller stand for a thread of a launch.
fn stand_in(launch: u32) {
    set_position(Position {
        grid_id: launch,
        ..Position::default()
    });
}

/// Replaces blocks of which few are alive at once: whether all were among the lowest slots of the slab of `word`, and how many slots they were in.
fn replace(heap: &Heap, word: Ticket) -> (bool, usize) {
    let mut used = BTreeSet::new();
    let mut alive: Vec<_> = (0..ALIVE).map(|_| malloc(heap)).collect();
    for number in 0..REPLACED {
        let place = number * 7 % ALIVE;
        free(heap, alive[place]);
        alive[place] = malloc(heap);
        used.insert(alive[place]);
    }
    let first = heap.base() + (u64::from(word.page()) << heap.layout().page_shift);
    let lowest = first..first + u64::from(PACKED_SLOTS * BYTES);
    for block in alive {
        free(heap, block);
    }
    (used.iter().all(|block| lowest.contains(block)), used.len())
}

#[test]
fn what_is_freed_is_soon_handed_out_again_in_a_launch_that_churns() {
    let host = HostHeap::new(16 << 30, 1, 0);
    let heap = host.heap();
    let word = pack(&host);
    let (are_low, slots) = replace(heap, word);
    assert!(are_low && slots <= PACKED_SLOTS as usize, "{slots}");
    // The next launch draws rows, and what made it look forgets it.
    assert!(host.stripe(class_of(BYTES)).look().is_churned());
    stand_in(1);
    let (are_low, slots) = replace(heap, word);
    assert!(!are_low && slots > PACKED_SLOTS as usize, "{slots}");
    assert!(!host.stripe(class_of(BYTES)).look().is_churned());
}

#[test]
fn where_too_much_is_alive_rows_are_drawn() {
    let host = HostHeap::new(16 << 30, 1, 0);
    let heap = host.heap();
    let word = pack(&host);
    let alive: Vec<_> = (0..4 * PACKED_SLOTS).map(|_| malloc(heap)).collect();
    let seen = host.stripe(class_of(BYTES)).look();
    assert!(seen.is_crowded() && seen.is_of_slab_of(word), "{seen:?}");
    let (are_low, slots) = replace(heap, word);
    assert!(!are_low && slots > PACKED_SLOTS as usize, "{slots}");
    for block in alive {
        free(heap, block);
    }
}

#[test]
fn where_all_is_wanted_every_slot_is_handed_out_once() {
    let host = HostHeap::new(16 << 30, 1, 0);
    let heap = host.heap();
    let word = pack(&host);
    let page = |block: u64| (block - heap.base()) >> heap.layout().page_shift;
    let pages = u64::from(word.page())..u64::from(word.page()) + (1 << word.order());
    let blocks: Vec<_> = (0..word.left()).map(|_| malloc(heap)).collect();
    assert_eq!(blocks.iter().collect::<BTreeSet<_>>().len(), blocks.len());
    assert!(blocks.iter().all(|block| pages.contains(&page(*block))));
    // The next is of another slab.
    let next = malloc(heap);
    assert!(!blocks.contains(&next));
    for block in blocks.into_iter().chain([next]) {
        free(heap, block);
    }
    // All of it is there again.
    let all = heap.malloc(heap.capacity());
    assert_eq!(all as u64, heap.base());
}
