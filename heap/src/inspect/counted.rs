//! The counters of requests alone, for who wants to know no more.

use super::mirror::CounterWords;
use crate::counters::Failure;
use crate::layout::Layout;

/// Where the counters of requests lie in the metadata: offset and length in bytes.
#[must_use]
pub fn counters_range(layout: &Layout) -> (u64, usize) {
    let count = layout.class_count as usize + 1;
    (layout.offsets.counters, count * size_of::<CounterWords>())
}

/// Requests that found no memory, of the bytes in that range.
#[must_use]
pub fn failed_requests(counters: &[u8]) -> u64 {
    counters
        .chunks_exact(size_of::<CounterWords>())
        .map(bytemuck::pod_read_unaligned::<CounterWords>)
        .flat_map(|words| {
            [Failure::Exhausted, Failure::Fragmented].map(|kind| words.failures[kind as usize])
        })
        .fold(0, u64::saturating_add)
}
