//! How much of a heap can be handed out before the first NULL, with as many stripes as a GPU has.

#![cfg(all(feature = "inspect", not(any(loom, shuttle))))]

mod host_heap;

use host_heap::HostHeap;
use scatterheap_heap::Heap;
use scatterheap_heap::inspect::Snapshot;
use scatterheap_simt::emulation::{Position, set_position};

/// Multiprocessors of an H200.
const MULTIPROCESSORS: u32 = 132;

/// Numbers that look random (`SplitMix64`).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut hash = self.0;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (hash ^ (hash >> 31)) % end
    }
}

/// What was handed out until the first NULL.
struct Filled {
    /// Share of the capacity that was asked for.
    asked: f64,
    /// Share of the capacity that the blocks take.
    used: f64,
    /// Bytes from the first block to the end of the last, over bytes asked for.
    range: f64,
}

fn snapshot(heap: &Heap) -> Snapshot {
    let bytes = usize::try_from(heap.layout().metadata_bytes).expect("fits");
    // SAFETY: the metadata begin where the heap is, and nobody changes them meanwhile.
    let metadata = unsafe { std::slice::from_raw_parts(heap.metadata() as *const u8, bytes) };
    Snapshot::new(metadata.to_vec()).expect("a heap")
}

/// Lets the caller stand for a multiprocessor chosen at random, in a launch that keeps all of them busy.
fn go_elsewhere(random: &mut Random) {
    let multiprocessor = random.below(MULTIPROCESSORS.into());
    let multiprocessor = u32::try_from(multiprocessor).expect("small");
    set_position(Position {
        block_index: multiprocessor,
        grid_dim: 8 * MULTIPROCESSORS,
        sm_id: multiprocessor,
        ..Position::default()
    });
}

/// Allocates `sizes` from one multiprocessor after another, until NULL or `most` times.
fn fill(heap: &Heap, most: u64, mut sizes: impl FnMut(&mut Random) -> u64) -> Filled {
    let mut random = Random(1);
    let (mut asked, mut used) = (0, 0);
    let (mut least, mut end) = (u64::MAX, 0);
    for _ in 0..most {
        go_elsewhere(&mut random);
        let bytes = sizes(&mut random);
        let block = heap.malloc(bytes);
        if block.is_null() {
            break;
        }
        let usable = heap.usable_size(block);
        asked += bytes;
        used += usable;
        least = least.min(block as u64);
        end = end.max(block as u64 + usable);
    }
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    let share = |part: u64, whole: u64| part as f64 / whole as f64;
    Filled {
        asked: share(asked, heap.capacity()),
        used: share(used, heap.capacity()),
        range: share(end - least, asked),
    }
}

#[test]
fn mixed_sizes_fill_a_heap() {
    for (most, least) in [(256, 0.92), (4096, 0.945), (8192, 0.935), (65536, 0.91)] {
        let host = HostHeap::new(1 << 30, MULTIPROCESSORS, 0);
        let filled = fill(host.heap(), u64::MAX, |random| 16 + random.below(most - 15));
        println!(
            "16 to {most} B: {:.3} used, {:.3} asked for",
            filled.used, filled.asked
        );
        assert!(filled.used >= 0.95, "16 to {most} B: {:.3}", filled.used);
        assert!(filled.asked >= least, "16 to {most} B: {:.3}", filled.asked);
    }
}

#[test]
fn one_size_fills_a_heap() {
    for bytes in [16, 256, 4096, 65536] {
        let host = HostHeap::new(1 << 30, MULTIPROCESSORS, 0);
        let filled = fill(host.heap(), u64::MAX, |_| bytes);
        println!("{bytes} B: {:.3} used", filled.used);
        assert!(filled.used >= 0.999, "{bytes} B: {:.3}", filled.used);
    }
}

#[test]
fn blocks_lie_close_together() {
    for bytes in [16, 64, 256, 1024, 4096] {
        let host = HostHeap::new(16 << 30, MULTIPROCESSORS, 0);
        let filled = fill(host.heap(), 1 << 20, |_| bytes);
        println!(
            "{bytes} B: from first to last {:.2} times what was asked for",
            filled.range
        );
        let most = if bytes == 16 { 2.0 } else { 4.0 };
        assert!(filled.range <= most, "{bytes} B: {:.2}", filled.range);
    }
}

/// A heap that is 70 % full and in which half of the blocks are replaced again and again: what is
/// freed is used again before fresh pages are, so some stay free for a class that needs more.
#[test]
fn an_aged_heap_keeps_pages_free() {
    let host = HostHeap::new(1 << 30, MULTIPROCESSORS, 0);
    let heap = host.heap();
    let mut random = Random(7);
    let mut blocks = Vec::new();
    let mut bytes = 0;
    let allocate = |random: &mut Random, blocks: &mut Vec<_>| {
        go_elsewhere(random);
        let bytes = 16 + random.below(8177);
        let block = heap.malloc(bytes);
        assert!(!block.is_null(), "{bytes} bytes");
        blocks.push(block as u64);
        bytes
    };
    while bytes < heap.capacity() / 10 * 7 {
        bytes += allocate(&mut random, &mut blocks);
    }
    for _ in 0..8 {
        let replaced = blocks.len() / 2;
        for _ in 0..replaced {
            let index = random.below(blocks.len() as u64);
            let block = blocks.swap_remove(usize::try_from(index).expect("small"));
            // SAFETY: the block is live and nobody else's.
            unsafe { heap.free(block as *mut u8) };
        }
        for _ in 0..replaced {
            allocate(&mut random, &mut blocks);
        }
    }
    let free = snapshot(heap).occupancy().pages.free;
    let pages = u64::from(heap.layout().page_count);
    println!("{free} of {pages} pages are free");
    assert!(free >= pages / 10, "{free} of {pages} pages are free");
}

/// Launches that allocate and free the same again and again: slabs grow until they last for a launch and are rewound after it, and then stay.
#[test]
fn slabs_grow_where_blocks_come_back() {
    let host = HostHeap::new(1 << 30, MULTIPROCESSORS, 0);
    let heap = host.heap();
    let launches = |count| {
        for _ in 0..count {
            let mut blocks = Vec::new();
            for lane in 0..4 * 256 {
                set_position(Position {
                    block_index: lane % 4,
                    sm_id: lane % 4,
                    ..Position::default()
                });
                blocks.push(heap.malloc(256));
            }
            for block in blocks {
                // SAFETY: the block is live and nobody else's.
                unsafe { heap.free(block) };
            }
        }
        snapshot(heap).occupancy().pages.in_slabs << heap.layout().page_shift
    };
    let live = 4 * 256 * 256;
    let grown = launches(20);
    println!("{} times of what lives", grown / live);
    assert!(grown >= 2 * live, "{grown} bytes");
    assert!(grown <= heap.capacity() / 8, "{grown} bytes");
    assert_eq!(launches(20), grown);
}
