//! Each kind of misuse, in the places where it is told from the others.

#![cfg(all(feature = "inspect", not(any(loom, shuttle))))]

mod host_heap;

use host_heap::HostHeap;
use scatterheap_heap::Heap;
use scatterheap_heap::inspect::{MisuseReport, Snapshot};
use scatterheap_heap::misuse::{KEPT_ADDRESSES, Misuse};

const MIB: u64 = 1 << 20;

fn report(heap: &Heap) -> MisuseReport {
    let bytes = usize::try_from(heap.layout().metadata_bytes).expect("64 bit");
    // SAFETY: the metadata begin there and have that many bytes.
    let metadata = unsafe { std::slice::from_raw_parts(heap.metadata() as *const u8, bytes) };
    let snapshot = Snapshot::new(metadata.to_vec()).expect("a heap");
    assert_eq!(snapshot.violations(), []);
    snapshot.misuse_report()
}

fn free(heap: &Heap, address: u64) {
    // SAFETY: what is no block is refused, which is what is tested; blocks are the caller's.
    unsafe { heap.free(address as *mut u8) };
}

/// Frees an address and reallocates it, each in both ways; gives the kind, which is the same for all.
fn kind_of(heap: &Heap, address: u64) -> Misuse {
    let before = report(heap);
    free(heap, address);
    // SAFETY: as in `free`.
    unsafe { heap.free_called(address as *mut u8) };
    // SAFETY: as in `free`.
    assert!(unsafe { heap.realloc(address as *mut u8, 24) }.is_null());
    // SAFETY: as in `free`.
    assert!(unsafe { heap.realloc_called(address as *mut u8, 24) }.is_null());
    let after = report(heap);
    assert_eq!(after.total(), before.total() + 4, "{address:#x}: {after}");
    let kinds = Misuse::ALL.into_iter();
    let mut kinds = kinds.filter(|kind| after.count(*kind) == before.count(*kind) + 4);
    kinds.next().expect("all are of one kind")
}

#[test]
fn what_lies_in_a_slab_is_a_slot_or_inside_of_one() {
    let host = HostHeap::new(MIB, 1, 0);
    let heap = host.heap();
    // 48 bytes do not divide a page.
    let block = heap.malloc(48) as u64;
    let page = block & !(heap.layout().page_bytes() - 1);
    for offset in [1, 8, 16, 47] {
        assert_eq!(kind_of(heap, block + offset), Misuse::Interior);
    }
    let slots = heap.layout().page_bytes() / 48;
    let mut slots = (0..slots).map(|slot| page + slot * 48);
    let free_slot = slots.find(|slot| *slot != block).expect("another slot");
    assert_eq!(kind_of(heap, free_slot), Misuse::NotAllocated);
    assert_eq!(kind_of(heap, free_slot + 16), Misuse::Interior);
    free(heap, block);
    assert_eq!(kind_of(heap, block), Misuse::NotAllocated);
}

/// Where a slot would begin that the slab has no more room for.
#[test]
fn what_is_left_over_behind_the_last_slot_is_no_slot() {
    let host = HostHeap::new(MIB, 1, 0);
    let heap = host.heap();
    let layout = heap.layout();
    // Two slots and a rest in a page, if slabs have one page.
    let bytes = 352;
    assert!(!layout.page_bytes().is_multiple_of(bytes));
    let class = scatterheap_heap::class::class_of(352);
    let block = heap.malloc(bytes) as u64;
    let slab_bytes = layout.page_bytes() << layout.class_info(class).usual_order;
    let slab = heap.base() + (block - heap.base()) / slab_bytes * slab_bytes;
    let rest = slab + slab_bytes / bytes * bytes;
    assert!(rest < slab + slab_bytes);
    assert_eq!(kind_of(heap, rest), Misuse::Interior);
    assert_eq!(kind_of(heap, rest - 2 * bytes), Misuse::NotAllocated);
}

#[test]
fn pages_of_a_run_are_inside_of_it_until_it_is_freed() {
    let host = HostHeap::new(MIB, 1, 0);
    let heap = host.heap();
    let page = heap.layout().page_bytes();
    let (first, second) = (heap.malloc(70 * page) as u64, heap.malloc(90 * page) as u64);
    for offset in [1, 16, page - 16, page, 5 * page, 69 * page + 16] {
        assert_eq!(kind_of(heap, first + offset), Misuse::Interior);
    }
    assert_eq!(kind_of(heap, second + 89 * page), Misuse::Interior);
    free(heap, first);
    for offset in [0, 16, page, 69 * page] {
        assert_eq!(kind_of(heap, first + offset), Misuse::Retired);
    }
    assert_eq!(kind_of(heap, second + page), Misuse::Interior);
    free(heap, second);
    assert_eq!(kind_of(heap, second), Misuse::Retired);
    let end = heap.base() + heap.capacity();
    assert_eq!(kind_of(heap, end - 16), Misuse::Retired);
    for address in [end, heap.base() - 1, 16, u64::MAX] {
        assert_eq!(kind_of(heap, address), Misuse::Foreign);
    }
}

#[test]
fn a_slab_that_was_given_up_is_told_from_one_that_is_there() {
    let host = HostHeap::new(MIB, 1, 0);
    let heap = host.heap();
    let blocks: Vec<_> = (0..20_000).map(|_| heap.malloc(32) as u64).collect();
    assert!(blocks.iter().all(|block| *block != 0));
    let (anchor, rest) = blocks.split_first().expect("many");
    for block in rest {
        free(heap, *block);
    }
    let page = |block: u64| (block - heap.base()) / heap.layout().page_bytes();
    let in_page = rest.iter().find(|block| page(**block) == page(*anchor));
    let neighbour = *in_page.expect("32 bytes are less than a page");
    assert_eq!(kind_of(heap, neighbour), Misuse::NotAllocated);
    let kinds: Vec<_> = rest
        .iter()
        .step_by(97)
        .map(|at| kind_of(heap, *at))
        .collect();
    assert!(kinds.contains(&Misuse::Retired), "most slabs were given up");
    assert!(
        kinds
            .iter()
            .all(|kind| matches!(kind, Misuse::NotAllocated | Misuse::Retired))
    );
}

#[test]
fn a_stale_handle_frees_nothing_and_soon_gives_nothing() {
    let host = HostHeap::new(MIB, 1, 0);
    let before = host.heap().malloc(64) as u64;
    // SAFETY: nobody uses it.
    let stale = unsafe { host.reset() };
    let heap = host.heap();
    // Nothing is at hand after a reset.
    assert!(stale.malloc(64).is_null() && stale.malloc(MIB / 2).is_null());
    assert!(stale.calloc(10, 10).is_null() && stale.calloc_called(10, 20).is_null());
    assert!(stale.malloc_called(300, 0).is_null() && stale.aligned_called(400, 64).is_null());
    assert_eq!(report(heap).count(Misuse::Stale), 6);
    assert_eq!(report(heap).of(Misuse::Stale).addresses, []);
    let (block, run) = (heap.malloc(64) as u64, heap.malloc(MIB / 2) as u64);
    for address in [
        block,
        run,
        block + 1,
        run + 4096,
        heap.base() + heap.capacity() - 16,
    ] {
        assert_eq!(kind_of(&stale, address), Misuse::Stale);
        assert_eq!(stale.usable_size(address as *const u8), 0);
    }
    assert_eq!(kind_of(&stale, heap.base() - 16), Misuse::Foreign);
    // A block of before the reset is one of today by its address.
    assert_eq!(before, block);
    // What is at hand is given.
    let at_hand = stale.malloc(64) as u64;
    assert!(at_hand != 0 && at_hand != block);
    for address in [block, run, at_hand] {
        free(heap, address);
    }
    let everything = heap.malloc(heap.capacity()) as u64;
    assert_eq!(everything, heap.base(), "{}", report(heap));
}

/// What the fast path does not serve a stale handle gets not even if it is at hand.
#[test]
fn a_stale_handle_gets_nothing_beyond_the_fast_path() {
    let host = HostHeap::new(16 * MIB, 8, 0);
    // SAFETY: nobody uses it.
    let stale = unsafe { host.reset() };
    let heap = host.heap();
    let bytes = u64::from(heap.layout().fast_limit()) + 1;
    assert!(bytes < u64::from(heap.layout().largest_slot));
    let block = heap.malloc(bytes) as u64;
    assert!(block != 0 && stale.malloc(bytes).is_null());
    assert_eq!(report(heap).count(Misuse::Stale), 1);
    let next = heap.malloc(bytes) as u64;
    assert!(next != 0 && next != block);
    for address in [block, next] {
        free(heap, address);
    }
    assert_eq!(heap.malloc(heap.capacity()) as u64, heap.base());
}

/// The generation is known modulo 256, and blocks work in each.
#[test]
fn handles_are_as_good_as_new_after_256_resets() {
    let host = HostHeap::new(16 << 10, 1, 0);
    // SAFETY: nobody uses it, nor a block from before.
    let first = unsafe { host.reset() };
    for reset in 2..=256 {
        let heap = host.heap();
        let (block, run) = (heap.malloc(40) as u64, heap.malloc(3000) as u64);
        assert_eq!(
            kind_of(&first, block),
            Misuse::Stale,
            "after {reset} resets"
        );
        free(heap, run);
        free(heap, block);
        assert_eq!(report(heap).total(), 4);
        // SAFETY: as above.
        unsafe { host.reset() };
    }
    free(&first, first.malloc(40) as u64);
    assert_eq!(report(host.heap()).total(), 0);
}

#[test]
fn the_first_addresses_of_each_kind_are_kept() {
    let host = HostHeap::new(16 << 10, 1, 0);
    let heap = host.heap();
    assert_eq!(report(heap).to_string(), "no misuse");
    for index in 1..=20 {
        free(heap, 16 * index);
        free(heap, heap.base() + 16 * index);
    }
    let report = report(heap);
    assert_eq!(
        (report.count(Misuse::Foreign), report.count(Misuse::Retired)),
        (20, 20)
    );
    assert_eq!(report.total(), 40);
    let expected: Vec<_> = (1..=KEPT_ADDRESSES as u64)
        .map(|index| 16 * index)
        .collect();
    assert_eq!(report.of(Misuse::Foreign).addresses, expected);
    let text = report.to_string();
    let (foreign, retired) = text.split_once('\n').expect("a line for each kind");
    assert_eq!(
        foreign,
        "foreign: 20 times, at 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80"
    );
    assert!(retired.starts_with("retired: 20 times, at 0x"), "{retired}");
}
