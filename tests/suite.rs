//! The whole system on every device there is: workloads, the shipped trace, and the life of a
//! heap. Small on the CPU, large on a GPU.

mod allocations;
mod devices;
mod shipped;

use allocations::{Allocations, assert_empty, sizes, takes_whole};
use devices::for_each_device;
use scatterheap::heap::layout::MIN_CAPACITY;
use scatterheap::heap::misuse::KEPT_ADDRESSES;
use scatterheap::inspect::{Failures, Misused};
use scatterheap::kernels::blocks::Block;
use scatterheap::stress::{self, Settings, Workload};
use scatterheap::{Device, Error, Hardening, Heap, Misuse, Occupancy, replay};
use std::ops::Range;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn threads(device: &Device) -> u32 {
    if device.is_gpu() { 1 << 17 } else { 1 << 12 }
}

fn capacity(device: &Device) -> u64 {
    if device.is_gpu() { GIB } else { 32 * MIB }
}

fn heap_of(device: &Device, capacity: u64) -> Heap {
    let heap = Heap::builder(device).capacity(capacity).build();
    heap.expect("there is memory for the heap")
}

fn heap_on(device: &Device) -> Heap {
    heap_of(device, capacity(device))
}

fn occupancy(heap: &Heap) -> Occupancy {
    heap.snapshot().expect("the heap is there").occupancy()
}

/// Addresses that the heap hands out.
fn range(heap: &Heap) -> Range<u64> {
    heap.base()..heap.base() + heap.capacity()
}

fn failures(occupancy: &Occupancy) -> Failures {
    let classes = occupancy.classes.iter().map(|class| class.failures);
    let mut sum = occupancy.runs.failures;
    for failures in classes {
        sum.exhausted += failures.exhausted;
        sum.fragmented += failures.fragmented;
        sum.impossible += failures.impossible;
    }
    sum
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.sum()
}

mod workloads {
    //! Each workload of `stress` on an empty heap.

    use super::*;

    fn passes(workload: Workload) {
        for_each_device(workload.name(), |device| {
            let heap = heap_on(device);
            let settings = Settings {
                threads: threads(device),
                ..Settings::for_workload(workload, &heap)
            };
            let report = stress::run(&heap, workload, &settings, &mut |_, _| ())
                .expect("the workload can be run");
            assert!(report.passed(), "{report:#?}");
            assert!(report.operations > 0 && report.bytes > 0, "{report:#?}");
            assert!(report.peak.used_blocks > 0, "{report:#?}");
            let exhausts = workload == Workload::Exhaust;
            assert_eq!(report.nulls > 0, exhausts, "{report:#?}");
        });
    }

    #[test]
    fn uniform() {
        passes(Workload::Uniform);
    }

    #[test]
    fn mixed() {
        passes(Workload::Mixed);
    }

    #[test]
    fn churn() {
        passes(Workload::Churn);
    }

    #[test]
    fn cross_warp() {
        passes(Workload::CrossWarp);
    }

    #[test]
    fn divergent() {
        passes(Workload::Divergent);
    }

    #[test]
    fn grow() {
        passes(Workload::Grow);
    }

    #[test]
    fn exhaust() {
        passes(Workload::Exhaust);
    }

    /// Each kind as often as it was tried, and no good call the worse for it.
    #[test]
    fn misuse() {
        passes(Workload::Misuse);
    }
}

/// Where memory runs out pages are given back, and small blocks have slots of larger ones.
#[test]
fn misuse_is_told_in_full_heaps_too() {
    for_each_device("misuse in full heaps", |device| {
        let framed = Hardening::RED_ZONES | Hardening::TAGS | Hardening::QUARANTINE;
        for modes in [Hardening::NONE, Hardening::QUARANTINE, framed] {
            let builder = Heap::builder(device).capacity(256 << 10).harden(modes);
            let heap = builder.build().expect("there is memory for the heap");
            for (threads, seed) in [(500, 1), (1000, 2), (3000, 3)] {
                let settings = Settings {
                    threads,
                    rounds: 3,
                    most: 256,
                    seed,
                    ..Settings::for_workload(Workload::Misuse, &heap)
                };
                let report = stress::run(&heap, Workload::Misuse, &settings, &mut |_, _| ())
                    .expect("the workload can be run");
                assert!(report.passed(), "{report:#?}");
                assert!(threads < 3000 || report.nulls > 0);
                heap.reset().expect("the device works");
            }
        }
    });
}

#[test]
fn the_shipped_trace_is_replayed() {
    let trace = shipped::trace();
    for_each_device("the shipped trace", |device| {
        // Roomy: the largest blocks of the trace must find pages side by side.
        let heap = heap_of(device, 4 * capacity(device));
        let copies = if device.is_gpu() { 64 } else { 2 };
        let settings = replay::Settings {
            copies: Some(copies),
            ..replay::Settings::default()
        };
        let report = replay::run(&heap, &trace, &settings, &mut |_, _| ())
            .expect("the trace can be replayed");
        assert!(report.passed(), "{report:#?}");
        assert_eq!(report.nulls, 0, "{report:#?}");
        assert!(report.trace_operations >= 500_000);
        // A reallocation counts once; a free for each block is among the trace's operations.
        assert_eq!(
            report.operations,
            u64::from(copies) * report.trace_operations
        );
        assert_empty(&heap);
    });
}

#[test]
fn a_new_heap_is_empty_and_so_is_a_reset_one() {
    for_each_device("a new heap", |device| {
        let heap = heap_on(device);
        let is_new = || {
            let snapshot = heap.snapshot().expect("the heap is there");
            let occupancy = snapshot.occupancy();
            assert!(snapshot.is_empty() && snapshot.leaks().is_empty());
            assert_eq!(snapshot.violations(), []);
            assert_eq!(occupancy.capacity, heap.capacity());
            assert_eq!(occupancy.largest_request, heap.capacity());
            assert_eq!(occupancy.pages.free * occupancy.page_bytes, heap.capacity());
            assert_eq!((occupancy.used_bytes, occupancy.used_blocks), (0, 0));
            assert!(occupancy.classes.is_empty(), "{:?}", occupancy.classes);
            assert_eq!(occupancy.misuses.total(), 0);
            assert!(occupancy.external_fragmentation.abs() < 1e-9);
        };
        is_new();
        let blocks = Allocations::new(&heap, threads(device), sizes(1, 2000));
        blocks.fill();
        assert_eq!(blocks.nulls(), 0);
        assert!(!heap.snapshot().expect("the heap is there").is_empty());
        heap.reset().expect("the heap is there");
        is_new();
        assert_empty(&heap);
    });
}

#[test]
fn a_snapshot_has_exactly_the_blocks_that_were_allocated() {
    for_each_device("snapshots", |device| {
        let heap = heap_on(device);
        let small = Allocations::new(&heap, threads(device), sizes(1, 3000));
        let pages = 40 * heap.layout().page_bytes();
        let large = Allocations::new(&heap, 8, sizes(pages, 2 * pages));
        assert_eq!(small.nulls() + large.nulls(), 0);
        let mut blocks = [small.blocks(), large.blocks()].concat();
        blocks.sort_by_key(|block| block.address);

        let snapshot = heap.snapshot().expect("the heap is there");
        let live: Vec<_> = snapshot.live().collect();
        assert_eq!(live.len(), blocks.len());
        for (live, block) in live.iter().zip(&blocks) {
            assert_eq!(live.address, block.address);
            assert!(live.bytes >= block.bytes, "{live:?} {block:?}");
            assert!(range(&heap).contains(&live.address));
        }
        for pair in live.windows(2) {
            assert!(
                pair[0].address + pair[0].bytes <= pair[1].address,
                "{pair:?}"
            );
        }
        assert_eq!(snapshot.violations(), []);
        sums_agree(
            &snapshot.occupancy(),
            live.len() as u64,
            sum(live.iter().map(|live| live.bytes)),
        );
        assert_eq!(snapshot.occupancy().runs.count, 8);
        assert_eq!(
            sum(snapshot.leaks().iter().map(|leak| leak.blocks)),
            live.len() as u64
        );

        small.free();
        large.free();
        assert_empty(&heap);
    });
}

/// Checks that the parts of an occupancy add up to what is known of the whole.
fn sums_agree(occupancy: &Occupancy, blocks: u64, bytes: u64) {
    let classes = &occupancy.classes;
    let (pages, runs) = (&occupancy.pages, &occupancy.runs);
    assert_eq!(
        (occupancy.used_blocks, occupancy.used_bytes),
        (blocks, bytes)
    );
    assert_eq!(
        sum(classes.iter().map(|class| class.used)) + runs.count,
        blocks
    );
    assert_eq!(
        sum(classes.iter().map(|class| class.handed_out_bytes)) + runs.bytes,
        bytes
    );
    assert_eq!(pages.lost, 0);
    let all_pages = pages.free + pages.in_slabs + pages.in_runs;
    assert_eq!(all_pages * occupancy.page_bytes, occupancy.capacity);
    for class in classes {
        assert!(class.used <= class.slots, "{class:?}");
        assert_eq!(class.handed_out_bytes, class.used * class.slot_bytes);
    }
}

#[test]
#[allow(clippy::cast_precision_loss, reason = "a share")]
fn internal_fragmentation_is_known_where_bytes_are_counted() {
    for_each_device("counting bytes", |device| {
        let builder = Heap::builder(device).capacity(capacity(device));
        let counting = builder.count_bytes(true).build().expect("there is memory");
        let blocks = Allocations::new(&counting, threads(device), sizes(64, 1000));
        let asked = sum(blocks.blocks().iter().map(|block| block.bytes));
        let occupancy = occupancy(&counting);
        let classes = &occupancy.classes;
        let counted = classes
            .iter()
            .map(|class| class.asked_bytes.expect("counted"));
        assert_eq!(sum(counted), asked);
        let served = classes.iter().map(|class| class.served.expect("counted"));
        assert_eq!(sum(served), u64::from(threads(device)));
        let fragmentation = occupancy.internal_fragmentation.expect("counted");
        let expected = 1.0 - asked as f64 / occupancy.used_bytes as f64;
        assert!(
            (fragmentation - expected).abs() < 1e-9,
            "{fragmentation} {expected}"
        );
        assert!(fragmentation < 0.2, "rounding wastes {fragmentation}");
        blocks.free();
        assert_empty(&counting);

        let plain = heap_on(device);
        let blocks = Allocations::new(&plain, 100, sizes(64, 1000));
        assert_eq!(self::occupancy(&plain).internal_fragmentation, None);
        blocks.free();
    });
}

#[test]
fn the_largest_request_that_would_succeed_does() {
    for_each_device("the largest request", |device| {
        let heap = heap_of(device, 16 * MIB);
        let page = heap.layout().page_bytes();
        let runs = sizes(16 * page, 48 * page);
        let blocks = Allocations::new(&heap, 400, runs);
        // Every other block is freed: holes everywhere.
        let kept: Vec<_> = by_turns(&blocks, 0);
        let holes: Vec<_> = by_turns(&blocks, 1);
        blocks.set_blocks(&holes);
        blocks.free();

        let before = occupancy(&heap);
        assert!(before.external_fragmentation > 0.5, "{before:#?}");
        assert!((16 * page..heap.capacity() / 4).contains(&before.largest_request));
        let largest = before.largest_request;
        let refused = Allocations::new(&heap, 1, sizes(largest + page, largest + page));
        assert_eq!(refused.nulls(), 1);
        let after = failures(&occupancy(&heap));
        assert_eq!(after.fragmented, failures(&before).fragmented + 1);
        let served = Allocations::new(&heap, 1, sizes(largest, largest));
        assert_eq!(served.nulls(), 0);

        served.free();
        blocks.set_blocks(&kept);
        blocks.free();
        assert_empty(&heap);
    });
}

/// The blocks whose turn it is, in the order of their addresses; the others are NULL.
fn by_turns(allocations: &Allocations<'_>, turn: usize) -> Vec<Block> {
    let mut blocks = allocations.blocks();
    blocks.sort_by_key(|block| block.address);
    for (index, block) in blocks.iter_mut().enumerate() {
        if index % 2 != turn {
            block.address = 0;
        }
    }
    blocks
}

#[test]
fn many_heaps_live_side_by_side() {
    for_each_device("many heaps", |device| {
        let mut heaps: Vec<_> = (0..12)
            .map(|index| heap_of(device, MIB << (index % 4)))
            .collect();
        for round in 0..2 {
            let allocations: Vec<_> = heaps
                .iter()
                .map(|heap| Allocations::new(heap, 1000, sizes(16, 512)))
                .collect();
            for (heap, allocations) in heaps.iter().zip(&allocations) {
                allocations.fill();
                let own = range(heap);
                let mut blocks = allocations.blocks().into_iter();
                assert!(blocks.all(|block| own.contains(&block.address)));
            }
            for allocations in &allocations {
                assert_eq!((allocations.nulls(), allocations.check_and_free()), (0, 0));
            }
            heaps.iter().for_each(assert_empty);
            drop(allocations);
            // Every third makes room for another.
            for index in (round..heaps.len()).step_by(3) {
                heaps[index] = heap_of(device, 2 * MIB);
            }
        }
        let mut ranges: Vec<_> = heaps.iter().map(range).collect();
        ranges.sort_by_key(|range| range.start);
        assert!(
            ranges.windows(2).all(|pair| pair[0].end <= pair[1].start),
            "{ranges:?}"
        );
    });
}

#[test]
fn two_heaps_take_turns() {
    for_each_device("two heaps", |device| {
        let (left, right) = (heap_on(device), heap_of(device, capacity(device) / 2));
        let count = threads(device) / 2;
        let mut kept = Vec::new();
        for round in 0..4 {
            let some = sizes(1, 256 << round);
            for heap in [&left, &right] {
                let blocks = Allocations::new(heap, count, some);
                assert_eq!(blocks.nulls(), 0);
                blocks.fill();
                kept.push(blocks);
            }
            // The older ones of both are freed in turns.
            if round % 2 == 1 {
                for blocks in kept.drain(..2) {
                    assert_eq!(blocks.check_and_free(), 0);
                }
            }
        }
        for blocks in kept {
            assert_eq!(blocks.check_and_free(), 0);
        }
        assert_empty(&left);
        assert_empty(&right);
    });
}

#[test]
fn misuse_is_refused_and_counted() {
    for_each_device("misuse", |device| {
        let (heap, other) = (heap_on(device), heap_on(device));
        let blocks = Allocations::new(&heap, 500, sizes(48, 200));
        blocks.fill();
        let good = blocks.blocks();
        let addresses: Vec<_> = good.iter().map(|block| block.address).collect();
        let report = |heap: &Heap| heap.misuse_report().expect("the heap is there");
        // The first few are kept, each once.
        let are_ours = |misused: &Misused, offset: u64| {
            assert_eq!(misused.count, 500);
            assert_eq!(misused.addresses.len(), KEPT_ADDRESSES);
            let mut found = misused.addresses.clone();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), KEPT_ADDRESSES);
            assert!(found.iter().all(|at| addresses.contains(&(at - offset))));
        };

        blocks.free_through(&other);
        are_ours(report(&other).of(Misuse::Foreign), 0);
        assert_empty(&other);

        let mut inside = good.clone();
        for block in &mut inside {
            block.address += 16;
        }
        blocks.set_blocks(&inside);
        blocks.free();
        are_ours(report(&heap).of(Misuse::Interior), 16);
        assert_eq!(occupancy(&heap).used_blocks, 500);

        blocks.set_blocks(&good);
        assert_eq!(blocks.check_and_free(), 0, "misuse has damaged a block");
        blocks.set_blocks(&good);
        blocks.free();
        // Stripes hold on to some of the slabs, the others are given up.
        let twice = report(&heap);
        let gone = twice.count(Misuse::NotAllocated) + twice.count(Misuse::Retired);
        assert_eq!((gone, twice.total()), (500, 1000), "{twice}");
        assert_empty(&heap);
    });
}

#[test]
fn nothing_is_what_zero_bytes_get() {
    for_each_device("zero bytes", |device| {
        let heap = heap_on(device);
        let blocks = Allocations::new(&heap, 1000, sizes(0, 0));
        assert_eq!(blocks.nulls(), 1000);
        let occupancy = occupancy(&heap);
        assert_eq!(
            (occupancy.used_blocks, failures(&occupancy).total()),
            (0, 0)
        );
        // Freeing NULL is no misuse.
        blocks.free();
        assert_eq!(self::occupancy(&heap).misuses.total(), 0);
        assert_empty(&heap);
    });
}

#[test]
fn one_block_takes_the_whole_heap() {
    for_each_device("the whole heap", |device| {
        let heap = heap_on(device);
        let capacity = heap.capacity();
        for _ in 0..3 {
            let whole = Allocations::new(&heap, 1, sizes(capacity, capacity));
            assert_eq!(whole.nulls(), 0);
            assert_eq!(whole.blocks()[0].address, heap.base());
            let full = occupancy(&heap);
            assert_eq!((full.runs.count, full.runs.bytes), (1, capacity));
            assert_eq!((full.largest_request, full.used_bytes), (0, capacity));
            let more = Allocations::new(&heap, 1, sizes(1, 1));
            assert_eq!(more.nulls(), 1);
            let too_much = Allocations::new(&heap, 1, sizes(capacity + 1, capacity + 1));
            assert_eq!(too_much.nulls(), 1);
            whole.free();
        }
        let failures = failures(&occupancy(&heap));
        assert_eq!(
            (failures.exhausted, failures.impossible, failures.total()),
            (3, 3, 6)
        );
    });
}

#[test]
fn heaps_of_every_capacity_work() {
    for_each_device("every capacity", |device| {
        let mut capacities = vec![
            MIN_CAPACITY,
            MIN_CAPACITY + 1,
            100_000,
            MIB,
            3 * MIB + 5,
            64 * MIB,
            GIB - 1,
            2 * GIB,
        ];
        if device.is_gpu() {
            capacities.extend([8 * GIB, 33 * GIB + 7, 100 * GIB]);
        }
        for asked in capacities {
            let free = device.memory_info().expect("the device works").free;
            if asked + asked / 16 > free {
                println!("skipped: a heap of {asked} bytes on {device} ({free} bytes are free)");
                continue;
            }
            let heap = heap_of(device, asked);
            let capacity = heap.capacity();
            assert!((asked..asked + heap.layout().page_bytes()).contains(&capacity));
            assert!(takes_whole(&heap), "{asked}");
            let most = capacity / 256;
            let blocks = Allocations::new(&heap, 128, sizes(1, most));
            blocks.fill();
            let snapshot = heap.snapshot().expect("the heap is there");
            assert_eq!(snapshot.violations(), [], "{asked}");
            assert_eq!(
                snapshot.live().count() as u64,
                128 - blocks.nulls(),
                "{asked}"
            );
            assert_eq!(blocks.nulls(), 0, "{asked}: {:#?}", snapshot.occupancy());
            assert_eq!(blocks.check_and_free(), 0, "{asked}");
            assert_empty(&heap);
        }
    });
}

#[test]
fn an_exhausted_heap_is_full_and_recovers() {
    for_each_device("exhaustion", |device| {
        for capacity in [MIN_CAPACITY, MIB] {
            for bytes in [16, 80, 128] {
                let heap = heap_of(device, capacity);
                let threads = u32::try_from(capacity / bytes + 1000).expect("small");
                let mut nulls = 0;
                for _ in 0..3 {
                    let blocks = Allocations::new(&heap, threads, sizes(bytes, bytes));
                    let live = u64::from(threads) - blocks.nulls();
                    let full = occupancy(&heap);
                    assert_eq!(full.used_blocks, live);
                    // NULL means that there was nothing left.
                    assert_eq!(full.pages.free + full.pages.reclaimable, 0, "{full:#?}");
                    let [class] = full.classes.as_slice() else {
                        panic!("one class is used: {full:#?}");
                    };
                    assert_eq!(class.used, class.slots, "{full:#?}");
                    // All but the ends of slabs was handed out.
                    assert!(live * bytes > capacity * 9 / 10, "{full:#?}");
                    blocks.fill();
                    assert_eq!(blocks.check_and_free(), 0);
                    nulls += blocks.nulls();
                    let counted = failures(&full);
                    assert_eq!((counted.exhausted, counted.total()), (nulls, nulls));
                }
                assert_empty(&heap);
            }
        }
    });
}

#[test]
fn a_heap_lives_in_memory_that_the_caller_brings() {
    const GUARD: u64 = 4099;
    for_each_device("a caller's region", |device| {
        let bytes = 20 * MIB;
        let memory = device.allocate(bytes + 2 * GUARD).expect("there is memory");
        memory.clear().expect("the device works");
        let start = memory.address() + GUARD;
        // SAFETY: the memory outlives the heap, and nobody else uses it.
        let heap = unsafe { Heap::builder(device).in_region(start, bytes) }
            .build()
            .expect("the region is large enough");
        let own = range(&heap);
        assert!(own.start >= start && own.end <= start + bytes, "{own:?}");
        assert!(heap.capacity() > bytes * 9 / 10, "{}", heap.capacity());
        let settings = Settings {
            threads: 1 << 12,
            rounds: 2,
            ..Settings::for_workload(Workload::Mixed, &heap)
        };
        let report = stress::run(&heap, Workload::Mixed, &settings, &mut |_, _| ())
            .expect("the workload can be run");
        assert!(report.passed(), "{report:#?}");
        assert_empty(&heap);
        drop(heap);
        for offset in [0, GUARD + bytes] {
            let guard: Vec<u8> = memory.read(offset, 4099).expect("the memory is there");
            assert!(
                guard.iter().all(|byte| *byte == 0),
                "bytes around the region were written"
            );
        }
    });
}

#[test]
fn the_smallest_region_is_as_large_as_the_error_says() {
    for_each_device("the smallest region", |device| {
        let memory = device.allocate(MIB).expect("there is memory");
        let build = |bytes| {
            // SAFETY: the memory outlives the heap, and nobody else uses it.
            unsafe { Heap::builder(device).in_region(memory.address() + 8, bytes) }.build()
        };
        let Err(Error::RegionTooSmall { needed, .. }) = build(100) else {
            panic!("100 bytes are too few");
        };
        assert!(matches!(
            build(needed - 1),
            Err(Error::RegionTooSmall { needed: again, .. }) if again == needed
        ));
        let heap = build(needed).expect("as large as needed");
        assert_eq!(heap.capacity(), MIN_CAPACITY);
        assert_empty(&heap);
    });
}

#[test]
fn any_number_of_stripes_will_do() {
    for_each_device("stripes", |device| {
        for stripes in [0, 1, 3, 1000, u32::MAX] {
            let builder = Heap::builder(device).capacity(8 * MIB).stripes(stripes);
            let heap = builder.build().expect("there is memory");
            let blocks = Allocations::new(&heap, 4000, sizes(16, 1000));
            blocks.fill();
            assert_eq!(
                (blocks.nulls(), blocks.check_and_free()),
                (0, 0),
                "{stripes}"
            );
            assert_empty(&heap);
        }
    });
}
