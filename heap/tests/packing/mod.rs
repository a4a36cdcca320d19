//! Has slots packed, as in a launch that churns: a single thread frees nothing while others draw.

#![allow(dead_code, reason = "a test that shares others' code may not need it")]

use scatterheap_heap::Heap;
use scatterheap_heap::stripe::{ChurnNote, Stripe};

/// Notes of all rows of stripes, and of all stripes that have a slab, that it churns in launch 0. Nobody may use the heap meanwhile, whose
/// metadata begin where `heap` is, as those of all heaps of tests do.
pub fn pack(heap: &Heap) {
    let layout = heap.layout();
    let metadata = std::ptr::from_ref(heap) as u64;
    let notes = (metadata + layout.churn_notes()) as *const ChurnNote;
    for row in 0..layout.stripes as usize {
        // SAFETY: a heap has a note of each row, so far behind the beginning of its metadata.
        unsafe { &*notes.add(row) }.write(0);
    }
    let stripes = (metadata + layout.offsets.stripes) as *const Stripe;
    for place in 0..layout.stripe_words() as usize {
        // SAFETY: a heap has so many stripes, as above.
        let stripe = unsafe { &*stripes.add(place) };
        if stripe.look().has_slab() {
            stripe.publish(stripe.look().churned());
        }
    }
}
