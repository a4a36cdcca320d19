//! The functions on a heap of the CPU: each does what the method does that it calls.

use scatterheap_device::{
    scatterheap_aligned_alloc, scatterheap_calloc, scatterheap_free, scatterheap_inline_free,
    scatterheap_inline_malloc, scatterheap_malloc, scatterheap_malloc_tagged, scatterheap_realloc,
    scatterheap_usable_size,
};
use scatterheap_host::{Device, Heap};

#[test]
fn functions_do_what_their_methods_do() {
    let device = Device::cpu_with_threads(1);
    let heap = Heap::builder(&device).capacity(1 << 20).build();
    let heap = heap.expect("there is room");
    let handle = heap.handle().expect("a handle");
    let at = &raw const handle;
    // SAFETY: the heap is the CPU's, and blocks are used as large as they are, until they are freed.
    unsafe {
        let block = scatterheap_malloc(at, 10);
        block.write_bytes(7, 10);
        let block = scatterheap_realloc(at, block, 5000);
        assert_eq!(block.add(9).read(), 7);
        assert!(scatterheap_usable_size(at, block) >= 5000);
        let zeroes = scatterheap_calloc(at, 10, 10);
        assert_eq!(zeroes.add(99).read(), 0);
        let aligned = scatterheap_aligned_alloc(at, 1024, 100);
        assert_eq!(aligned.addr() % 1024, 0);
        assert!(
            scatterheap_aligned_alloc(at, 3, 100).is_null(),
            "no power of two"
        );
        assert!(scatterheap_calloc(at, u64::MAX, 2).is_null(), "too much");
        let tagged = scatterheap_malloc_tagged(at, 10, 3);
        let inlined = scatterheap_inline_malloc(handle, 10);
        let blocks = [block, zeroes, aligned, tagged, inlined];
        assert!(blocks.iter().all(|block| !block.is_null()));
        assert_eq!(
            heap.snapshot().expect("readable").occupancy().used_blocks,
            5
        );
        for block in blocks {
            scatterheap_free(at, block);
        }
        scatterheap_inline_free(handle, std::ptr::null_mut());
    }
    let after = heap.snapshot().expect("readable").occupancy();
    assert_eq!((after.used_blocks, after.misuses.total()), (0, 0));
}
