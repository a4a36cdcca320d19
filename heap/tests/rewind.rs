//! Blocks that are allocated in one phase and freed in the next come back without a refill.

#![cfg(not(any(loom, shuttle)))]

mod host_heap;

use core::ops::Range;
use host_heap::HostHeap;
use scatterheap_heap::class::class_of;
use scatterheap_heap::hardened::Hardening;

/// How many blocks a phase has: what a multiprocessor allocates when 2^20 threads do.
const BLOCKS: usize = 8000;

/// Allocates the blocks of a phase, of so many bytes, and frees them: how often the stripe was refilled meanwhile, modulo 16.
fn refills_of_a_phase(host: &HostHeap, bytes: u32) -> u32 {
    let (heap, stripe) = (host.heap(), host.stripe(class_of(bytes)));
    let before = stripe.look();
    let blocks = [(); BLOCKS].map(|()| heap.malloc(bytes.into()));
    assert!(blocks.iter().all(|block| !block.is_null()));
    let after = stripe.look();
    for block in blocks {
        // SAFETY: it is this thread's.
        unsafe { heap.free(block) };
    }
    after.generation().wrapping_sub(before.generation()) & 15
}

/// Phases until the slab is large enough.
const FIRST: usize = 8;

#[test]
fn what_a_phase_freed_the_next_one_has_without_a_refill() {
    for bytes in [64, 48] {
        let host = HostHeap::new(16 << 30, 1, 0);
        let phase = |_| refills_of_a_phase(&host, bytes);
        let first: Vec<_> = (0..FIRST).map(phase).collect();
        let later: Vec<_> = (0..32).map(phase).collect();
        assert!(first.iter().any(|refills| *refills > 0), "{first:?}");
        assert!(later.iter().all(|refills| *refills == 0), "{later:?}");
    }
}

/// There a free may be part of a `malloc`.
#[test]
fn frees_rewind_unless_there_is_a_quarantine() {
    for (modes, rewinds) in [(Hardening::TAGS, true), (Hardening::QUARANTINE, false)] {
        let host = HostHeap::new(16 << 30, 1, modes.flags());
        let heap = host.heap();
        let words = || -> Vec<_> {
            let classes = 0..heap.layout().class_count;
            classes.map(|class| host.stripe(class).look()).collect()
        };
        let phase = |_| {
            let blocks = [(); BLOCKS].map(|()| heap.malloc(64));
            let before = words();
            for block in blocks {
                // SAFETY: it is this thread's.
                unsafe { heap.free(block) };
            }
            before != words()
        };
        let changed = (0..2 * FIRST).any(phase);
        assert_eq!(changed, rewinds, "{modes:?}");
    }
}

/// So the row of a whole warp lies in one word of the bitmap.
#[test]
fn a_large_slab_is_offered_in_whole_words() {
    let (bytes, warp) = (48, 32);
    let host = HostHeap::new(16 << 30, 1, 0);
    for phase in 0..2 * FIRST {
        refills_of_a_phase(&host, bytes);
        if phase < FIRST {
            continue;
        }
        let word = host.stripe(class_of(bytes)).look();
        assert_eq!(word.left() % warp, 0, "phase {phase}");
        let slots = host.heap().layout().slots(word.class(), word.order());
        // Otherwise it would be so by itself.
        assert_ne!(slots % warp.cast_unsigned(), 0, "phase {phase}");
    }
}

/// All of a slab is offered while some of its blocks live. A launch that frees ends with the last of these, and nothing is left to be done then.
#[test]
fn who_frees_the_last_block_offers_nothing() {
    let host = HostHeap::new(16 << 30, 1, 0);
    let (heap, stripe) = (host.heap(), host.stripe(class_of(4096)));
    let mut offers = 0;
    for phase in 0..4 * FIRST {
        let mut blocks: Vec<_> = (0..1000).map(|_| heap.malloc(4096)).collect();
        let drawn = stripe.look();
        let last = blocks.pop().expect("a thousand");
        // SAFETY: they are this thread's.
        blocks
            .into_iter()
            .for_each(|block| unsafe { heap.free(block) });
        let before = stripe.look();
        // SAFETY: as above.
        unsafe { heap.free(last) };
        if phase < FIRST {
            continue;
        }
        assert_eq!(before, stripe.look(), "phase {phase}");
        if before != drawn {
            let slots = heap.layout().slots(before.class(), before.order());
            assert_eq!(before.left().cast_unsigned(), slots, "phase {phase}");
            offers += 1;
        }
    }
    assert!(offers >= 4, "{offers}");
}

/// Blocks that do not lie below the one that was allocated before them, of so many bytes each.
fn strays(blocks: &[*mut u8], bytes: u32) -> usize {
    let is_stray = |pair: &&[*mut u8]| pair[1] as usize + bytes as usize != pair[0] as usize;
    blocks.windows(2).filter(is_stray).count()
}

/// Where blocks outlive the others each phase would find their slots in use, and those that have these then lie elsewhere.
#[test]
fn a_slab_is_offered_below_blocks_that_stay() {
    let (bytes, count, staying) = (64, 300, 140..150);
    let host = HostHeap::new(16 << 30, 1, 0);
    let heap = host.heap();
    // So that the heap is not young: there slabs last.
    let used = heap.malloc(12 << 30);
    assert!(!used.is_null());
    let free = |blocks: &[*mut u8]| {
        for block in blocks {
            // SAFETY: it is this thread's.
            unsafe { heap.free(*block) };
        }
    };
    let phase = |stay: Range<usize>| {
        let blocks: Vec<_> = (0..count).map(|_| heap.malloc(bytes.into())).collect();
        assert!(blocks.iter().all(|block| !block.is_null()));
        free(&blocks[..stay.start]);
        free(&blocks[stay.end..]);
        (strays(&blocks, bytes), blocks[stay].to_vec())
    };
    for _ in 0..FIRST {
        phase(0..0);
    }
    let least = staying.len();
    let (_, kept) = phase(staying);
    let later: Vec<_> = (0..4 * FIRST).map(|_| phase(0..0).0).collect();
    let found: Vec<_> = later.iter().filter(|strays| **strays != 0).collect();
    assert!(found.len() == 1 && *found[0] >= least, "{later:?}");
    // Phases that want more have it soon, too.
    free(&kept);
    let refills = |_| {
        let before = host.stripe(class_of(bytes)).look();
        let blocks: Vec<_> = (0..2 * count).map(|_| heap.malloc(bytes.into())).collect();
        let after = host.stripe(class_of(bytes)).look();
        free(&blocks);
        after.generation().wrapping_sub(before.generation()) & 15
    };
    let refills: Vec<_> = (0..2 * FIRST).map(refills).collect();
    assert!(
        refills[FIRST..].iter().all(|refills| *refills == 0),
        "{refills:?}"
    );
    free(&[used]);
}

/// Where some of a slab stays all of it is offered nevertheless, and its last units have no slot. Who finds none draws but a few of these.
#[test]
fn units_without_a_slot_are_not_drawn_one_after_the_other() {
    let bytes = 64;
    let host = HostHeap::new(16 << 30, 1, 0);
    let (heap, stripe) = (host.heap(), host.stripe(class_of(bytes)));
    // So that the heap is not young: there slabs last.
    let used = heap.malloc(12 << 30);
    assert!(!used.is_null());
    for _ in 0..FIRST {
        refills_of_a_phase(&host, bytes);
    }
    let word = stripe.look();
    let slots = heap.layout().slots(word.class(), word.order());
    let mut blocks: Vec<_> = (0..slots).map(|_| heap.malloc(bytes.into())).collect();
    let staying = blocks.split_off(blocks.len() / 16 * 15);
    for block in blocks {
        // SAFETY: it is this thread's.
        unsafe { heap.free(block) };
    }
    let word = stripe.look();
    assert_eq!(word.units_left(), slots, "all of it is offered");
    assert!(staying.len() > 1000, "{slots} slots");
    // After sixteen searches in vain.
    host.give_up_after(4);
    let again = (0..slots).map(|_| heap.malloc(bytes.into()));
    assert_eq!(again.filter(|block| block.is_null()).count(), 0);
    assert!(!stripe.look().is_of_slab_of(word), "another slab serves");
}
