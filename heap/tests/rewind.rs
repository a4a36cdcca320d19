//! Blocks that are allocated in one phase and freed in the next come back without a refill.

#![cfg(not(any(loom, shuttle)))]

mod host_heap;

use host_heap::HostHeap;
use scatterheap_heap::class::class_of;
use scatterheap_heap::ticket::Ticket;
use scatterheap_heap::{Heap, stripe::Stripe};

/// Bytes of the blocks, and how many a phase has: what a multiprocessor allocates when 2^20 threads do.
const BYTES: u32 = 64;
const BLOCKS: usize = 8000;

/// The word of the only stripe of a class.
fn stripe_word(heap: &Heap, class: u32) -> Ticket {
    let stripes = (heap.metadata() + heap.layout().offsets.stripes) as *const Stripe;
    // SAFETY: a heap of one stripe has one for each class, and nobody changes them meanwhile.
    unsafe { &*stripes.add(class as usize) }.look()
}

/// Allocates the blocks of a phase, and frees them: how often the stripe was refilled meanwhile, modulo 16.
fn refills_of_a_phase(heap: &Heap) -> u32 {
    let before = stripe_word(heap, class_of(BYTES));
    let blocks = [(); BLOCKS].map(|()| heap.malloc(BYTES.into()));
    assert!(blocks.iter().all(|block| !block.is_null()));
    let after = stripe_word(heap, class_of(BYTES));
    for block in blocks {
        // SAFETY: it is this thread's.
        unsafe { heap.free(block) };
    }
    after.generation().wrapping_sub(before.generation()) & 15
}

#[test]
fn what_a_phase_freed_the_next_one_has_without_a_refill() {
    let host = HostHeap::new(16 << 30, 1, 0);
    // Until the slab is large enough.
    let first: Vec<_> = (0..8).map(|_| refills_of_a_phase(host.heap())).collect();
    let later: Vec<_> = (0..32).map(|_| refills_of_a_phase(host.heap())).collect();
    assert!(first.iter().any(|refills| *refills > 0), "{first:?}");
    assert!(later.iter().all(|refills| *refills == 0), "{later:?}");
}
