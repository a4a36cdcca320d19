//! One thread, 16 KiB: `malloc` of a smaller class never returns.
mod host_heap;
use host_heap::HostHeap;

#[test]
fn a_small_request_takes_the_last_slots_of_a_larger_class() {
    let host = HostHeap::new(16 << 10, 1, 0);
    let heap = host.heap();
    let blocks: Vec<_> = std::iter::from_fn(|| {
        let block = heap.malloc(96);
        (!block.is_null()).then_some(block)
    })
    .collect();
    println!("{} blocks of 96 B fill the heap", blocks.len());
    // The last two of the ten slots of the first page's slab.
    for slot in [8, 9] {
        let block = (heap.base() + slot * 96) as *mut u8;
        assert!(blocks.contains(&block));
        // SAFETY: it is this thread's.
        unsafe { heap.free(block) };
    }
    assert!(!heap.malloc(16).is_null());
}
