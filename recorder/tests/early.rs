//! The buffer for early calls, by itself: the library that has it would replace the test's own `malloc`.

#[path = "../src/early.rs"]
mod early;

use early::{MAXIMUM_ALIGNMENT, allocate, owns, size_of_block};

#[test]
fn blocks_are_apart_aligned_and_know_their_size() {
    let mut end = 0;
    for (size, alignment) in [
        (1, 16),
        (40, 16),
        (0, 16),
        (100, 64),
        (8, MAXIMUM_ALIGNMENT),
    ] {
        let block = allocate(size, alignment);
        assert!(owns(block));
        assert!(block.addr().is_multiple_of(alignment));
        assert!(block.addr() >= end, "{size} bytes overlap the block before");
        // SAFETY: the block is of this buffer.
        assert_eq!(unsafe { size_of_block(block) }, size);
        end = block.addr() + size;
    }
}

#[test]
fn what_no_buffer_holds_is_refused() {
    for size in (0..64).map(|less| usize::MAX - less).chain([64 * 1024]) {
        for alignment in [16, MAXIMUM_ALIGNMENT] {
            assert!(allocate(size, alignment).is_null(), "{size:#x} bytes");
        }
    }
}
