//! A heap as `allocator_api2`'s allocator: any sequence of requests keeps contents, alignments and zeroes, of no bytes too, and
//! leaves an empty heap.
#![cfg(all(feature = "allocator-api2", not(any(loom, shuttle))))]

mod host_heap;

use allocator_api2::alloc::{Allocator, Layout};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec as HeapVec;
use host_heap::HostHeap;
use proptest::prelude::*;
use scatterheap_heap::allocator::Alloc;
use scatterheap_heap::hardened::Hardening;
use std::ptr::NonNull;

const CAPACITY: u64 = 1 << 20;

/// A block and what is in it.
struct Block {
    at: NonNull<u8>,
    layout: Layout,
    content: Vec<u8>,
}

impl Block {
    /// Takes a block that was given, whose first bytes must be these, and fills the rest.
    fn new(given: NonNull<[u8]>, layout: Layout, before: &[u8], fill: u8) -> Self {
        assert!(given.len() >= layout.size());
        let at = given.cast::<u8>();
        assert_eq!(at.as_ptr() as usize % layout.align(), 0, "{layout:?}");
        let mut block = Self {
            at,
            layout,
            content: before[..before.len().min(layout.size())].to_vec(),
        };
        block.check();
        block.content.resize(layout.size(), fill);
        let content = NonNull::from(&block.content[..]).cast();
        // SAFETY: the block has that many bytes.
        unsafe { at.copy_from_nonoverlapping(content, layout.size()) };
        block
    }

    /// Compares as much as is known.
    fn check(&self) {
        // SAFETY: the block has that many bytes.
        let found = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.content.len()) };
        assert!(found == self.content, "{:?}", self.layout);
    }
}

/// What is done: how, to which block, of what size and alignment.
type Step = (u8, prop::sample::Index, usize, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![0..64_usize, 0..3000_usize, 0..200_000_usize];
    prop::collection::vec(
        (0..6_u8, any::<prop::sample::Index>(), size, 0..13_u32),
        0..80,
    )
}

fn run(alloc: Alloc, steps: &[Step]) {
    let mut blocks: Vec<Block> = Vec::new();
    for ((how, which, size, align), fill) in steps.iter().zip(1..) {
        let layout = Layout::from_size_align(*size, 1 << align).expect("a layout");
        if *how < 2 || blocks.is_empty() {
            let zeroed = *how == 0;
            let given = if zeroed {
                alloc.allocate_zeroed(layout)
            } else {
                alloc.allocate(layout)
            };
            let before = if zeroed { vec![0; *size] } else { vec![] };
            blocks.extend(
                given
                    .ok()
                    .map(|given| Block::new(given, layout, &before, fill)),
            );
            continue;
        }
        let old = blocks.swap_remove(which.index(blocks.len()));
        old.check();
        blocks.extend(change(alloc, old, *how, layout, fill));
    }
    for block in blocks {
        block.check();
        // SAFETY: the block is this test's.
        unsafe { alloc.deallocate(block.at, block.layout) };
    }
}

/// Grows, shrinks or frees a block; gives what is left.
fn change(alloc: Alloc, old: Block, how: u8, layout: Layout, fill: u8) -> Option<Block> {
    let mut before = old.content.clone();
    // SAFETY: the block is this test's, and the sizes are in order.
    let given = unsafe {
        match how {
            2 => {
                alloc.deallocate(old.at, old.layout);
                return None;
            }
            _ if layout.size() < old.layout.size() => alloc.shrink(old.at, old.layout, layout),
            3 => {
                before.resize(layout.size(), 0);
                alloc.grow_zeroed(old.at, old.layout, layout)
            }
            _ => alloc.grow(old.at, old.layout, layout),
        }
    };
    if let Ok(given) = given {
        return Some(Block::new(given, layout, &before, fill));
    }
    // Exhausted: the old block is as it was.
    old.check();
    Some(old)
}

proptest! {
    #[test]
    fn any_requests_keep_their_promises(steps in steps(), hardened in any::<bool>()) {
        let modes = if hardened { Hardening::RED_ZONES | Hardening::POISON } else { Hardening::NONE };
        let host = HostHeap::new(CAPACITY, 1, modes.flags());
        run(host.heap().alloc(), &steps);
        // All came back: a block as large as the heap is to be had, but for what hardening adds.
        let most = if hardened { CAPACITY / 2 } else { CAPACITY };
        prop_assert!(!host.heap().malloc(most).is_null());
    }
}

#[test]
fn collections_fail_when_the_heap_is_full() {
    let host = HostHeap::new(64 << 10, 1, 0);
    let alloc = host.heap().alloc();
    let mut numbers = HeapVec::<u64, _>::new_in(alloc);
    while numbers.try_reserve(1).is_ok() {
        numbers.push(numbers.len() as u64);
    }
    assert!(numbers.len() >= 1024, "{} numbers", numbers.len());
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
    let large = || HeapVec::<u8, _>::new_in(alloc).try_reserve_exact(60 << 10);
    assert!(large().is_err() && Box::try_new_in([0_u8; 2048], alloc).is_ok());
    drop(numbers);
    assert!(large().is_ok());
}

/// Of whatever alignment: a full heap may have nothing smaller.
#[test]
fn blocks_shrink_in_a_full_heap() {
    for align in [8, 64, 256] {
        let host = HostHeap::new(64 << 10, 1, 0);
        let alloc = host.heap().alloc();
        let large = Layout::from_size_align(4096, align).expect("a layout");
        let given = alloc.allocate(large).expect("the heap is empty");
        let block = Block::new(given, large, &[], 7);
        let mut rest = Vec::new();
        for bytes in [16 << 10, 4096, 512, 64, 16] {
            let request = Layout::from_size_align(bytes, 8).expect("a layout");
            while let Ok(given) = alloc.allocate(request) {
                rest.push((given.cast(), request));
            }
        }
        let small = Layout::from_size_align(64, align).expect("a layout");
        // SAFETY: the block is this test's, and the old one dies.
        let given = unsafe { alloc.shrink(block.at, large, small) };
        let block = Block::new(given.expect("it has room"), small, &block.content, 7);
        // It does not grow there, and stays.
        // SAFETY: as above.
        assert!(unsafe { alloc.grow(block.at, small, large) }.is_err() || align == 8);
        block.check();
        for (block, request) in rest {
            // SAFETY: as above.
            unsafe { alloc.deallocate(block, request) };
        }
        // SAFETY: as above.
        unsafe { alloc.deallocate(block.at, small) };
        assert!(!host.heap().malloc(64 << 10).is_null(), "{align}");
    }
}
