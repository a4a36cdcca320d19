//! `operations`: what one thread asks of a heap of any shape, against the shadow model.
//!
//! The model checks each answer. After some operations, and at the end, a snapshot of the heap must break
//! no invariant and list the blocks that the model has.

use crate::host_heap::HostHeap;
use crate::program::{Shape, operation};
use crate::shadow_model::{Operation, Shadow, index};
use arbitrary::Unstructured;
use heap_core::Heap;
use heap_core::inspect::Snapshot;

/// Operations of a program at most.
const LONGEST: usize = 1000;
/// A snapshot is compared after so many operations. It takes longer than they do.
const INTERVAL: usize = 100;

/// Runs the program that the bytes are.
///
/// # Panics
/// The heap does not as it must.
pub fn run(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    if let Ok(shape) = bytes.arbitrary::<Shape>() {
        run_on(shape, bytes);
    }
}

/// Runs a program on a heap of this shape.
fn run_on(shape: Shape, mut bytes: Unstructured<'_>) {
    let host = shape.build();
    // SAFETY: nobody uses it yet.
    let stale = unsafe { host.reset() };
    let mut shadow = Shadow::new(host.heap(), stale);
    shadow.apply(&Operation::StandIn(0));
    for count in 1..=LONGEST {
        if bytes.is_empty() {
            break;
        }
        let Ok(operation) = operation(&mut bytes, shape) else {
            break;
        };
        shadow.apply(&operation);
        if count % INTERVAL == 0 {
            compare(&host, &shadow);
        }
    }
    compare(&host, &shadow);
    let misuses = shadow.misuses();
    shadow.finish();
    let snapshot = snapshot(host.heap());
    assert_eq!(snapshot.violations(), []);
    assert!(snapshot.is_empty());
    assert_eq!(snapshot.occupancy().misuses.total(), misuses);
    assert_eq!(
        snapshot.occupancy().largest_request,
        host.heap().capacity(),
        "what is left are idle slabs"
    );
}

/// A snapshot of a heap that no thread uses.
pub(crate) fn snapshot(heap: &Heap) -> Snapshot {
    Snapshot::new(copy(heap)).expect("a heap")
}

/// The metadata of a heap that no thread uses.
pub(crate) fn copy(heap: &Heap) -> Vec<u8> {
    let bytes = index(heap.layout().metadata_bytes);
    // SAFETY: the metadata begins with the head and has that many bytes; no thread uses the heap.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(heap).cast::<u8>(), bytes) }.to_vec()
}

/// The heap and the model agree on what is live, and no invariant is broken.
fn compare(host: &HostHeap, shadow: &Shadow<'_>) {
    let snapshot = snapshot(host.heap());
    assert_eq!(snapshot.violations(), []);
    let told = snapshot.live().map(|block| (block.address, block.bytes));
    assert!(told.eq(shadow.live()), "the live blocks differ");
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap_core::layout::MAX_STRIPES;

    /// Pages of 1, 2 and 4 KiB, and classes with 64 and 128 stripes: too slow for the fuzzer.
    #[test]
    fn large_heaps_do_as_the_model() {
        let bytes: Vec<u8> = (1..2000_u32)
            .map(|index| index.wrapping_mul(0x9e37_79b9).to_be_bytes()[0])
            .collect();
        for capacity in [127 << 20, (128 << 20) + 1, (256 << 20) + 1] {
            let shape = Shape {
                capacity,
                stripes: MAX_STRIPES,
                flags: 0,
            };
            run_on(shape, Unstructured::new(&bytes));
        }
    }
}
