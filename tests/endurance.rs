//! A full heap, and heaps that are used for long: on every device there is, briefly.

mod devices;

use devices::for_each_device;
use scatterheap::exhaustion;
use scatterheap::soak::{self, Totals};
use scatterheap::{Device, Error, Growth, Hardening, Heap};

const MIB: u64 = 1 << 20;

fn heap_of(device: &Device, capacity: u64) -> Heap {
    let heap = Heap::builder(device).capacity(capacity).build();
    heap.expect("there is memory for the heap")
}

#[test]
fn a_full_heap_says_no_to_everything_and_recovers() {
    for_each_device("exhaustion", |device| {
        let (threads, capacities) = if device.is_gpu() {
            (1 << 20, [1 << 30, 64 * MIB])
        } else {
            (512, [8 * MIB, MIB / 2])
        };
        for capacity in capacities {
            says_no(&heap_of(device, capacity), threads);
        }
    });
}

#[test]
fn full_heaps_that_grow_or_are_hardened_do_so_too() {
    for_each_device("exhaustion of other heaps", |device| {
        let (threads, capacity) = if device.is_gpu() {
            (1 << 18, 256 * MIB)
        } else {
            (512, 4 * MIB)
        };
        let grows = |growth| {
            let builder = Heap::builder(device).capacity(capacity / 2);
            builder.max_capacity(capacity).growth(growth)
        };
        let builder = Heap::builder(device).capacity(capacity);
        for builder in [
            grows(Growth::BetweenLaunches),
            grows(Growth::Live),
            builder.harden(Hardening::QUARANTINE),
        ] {
            says_no(&builder.build().expect("there is memory"), threads);
        }
    });
}

/// Fills a heap by so many threads, lets them ask it for more, frees half of it, and all that again.
fn says_no(heap: &Heap, threads: u32) {
    let settings = exhaustion::Settings {
        threads,
        requests: 4,
        seed: 1,
    };
    let report = exhaustion::run(heap, &settings, &mut |_, _| ());
    let report = report.expect("the test can be run");
    assert!(report.passed(), "{report:#?}");
    for answer in &report.answers {
        assert_eq!(answer.requests, u64::from(threads) * 4, "{report:#?}");
        assert!(answer.used > 0.7, "{report:#?}");
    }
}

#[test]
fn a_short_soak() {
    for_each_device("soak", |device| {
        let gpu = device.is_gpu();
        let heaps = [(); 3].map(|()| heap_of(device, if gpu { 1 << 30 } else { 8 * MIB }));
        let settings = soak::Settings {
            threads: if gpu { 1 << 17 } else { 1 << 10 },
            pairs: if gpu { 100_000_000 } else { 200_000 },
            seed: 1,
        };
        let mut launches = 0;
        let totals = soak::run(device, &heaps, &settings, &mut |_| {
            launches += 1;
            true
        });
        let totals = totals.expect("it can be run");
        assert_eq!(totals.errors(), 0, "{totals:?}");
        assert!(totals.pairs >= settings.pairs && launches > 1, "{totals:?}");
    });
}

#[test]
fn a_soak_that_is_stopped_keeps_its_totals() {
    let device = Device::cpu_with_threads(4);
    let heaps = [heap_of(&device, 8 * MIB)];
    let settings = soak::Settings {
        threads: 256,
        pairs: u64::MAX,
        seed: 1,
    };
    let first = soak::run(&device, &heaps, &settings, &mut |_| false).expect("one launch");
    assert_eq!((first.errors(), first.leaked), (0, 0), "{first:?}");
    assert_eq!(first.pairs + first.nulls, 256 * 32, "{first:?}");
    let mut sum = Totals::default();
    sum.add(&first);
    sum.add(&first);
    assert_eq!(sum.pairs, 2 * first.pairs);
}

/// All bits of a seed count: what a run asks for is told by its bytes.
#[test]
fn soaks_of_different_seeds_differ() {
    let device = Device::cpu_with_threads(2);
    let bytes = |seed| {
        let heaps = [heap_of(&device, 16 * MIB)];
        let settings = soak::Settings {
            threads: 256,
            pairs: u64::MAX,
            seed,
        };
        let totals = soak::run(&device, &heaps, &settings, &mut |_| false).expect("one launch");
        assert_eq!((totals.errors(), totals.nulls), (0, 0), "{totals:?}");
        totals.bytes
    };
    let seeds = [0, 1, 1 << 16 | 1, 1 << 63 | 1, u64::MAX];
    let bytes: std::collections::BTreeSet<_> = seeds.into_iter().map(bytes).collect();
    assert_eq!(bytes.len(), seeds.len(), "{bytes:?}");
}

#[test]
fn impossible_settings_are_refused() {
    let device = Device::cpu_with_threads(2);
    let heaps = [heap_of(&device, MIB)];
    let settings = |threads, pairs| soak::Settings {
        threads,
        pairs,
        seed: 1,
    };
    let refused = |heaps: &[Heap], settings| {
        let error = soak::run(&device, heaps, &settings, &mut |_| true).expect_err("refused");
        assert!(matches!(error, Error::BadSettings { .. }), "{error:?}");
    };
    refused(&heaps, settings(0, 1));
    refused(&heaps, settings(1, 0));
    refused(&[], settings(1, 1));
    refused(&heaps, settings(1 << 20, 1));
    let none = exhaustion::Settings {
        threads: 0,
        requests: 1,
        seed: 1,
    };
    let error = exhaustion::run(&heaps[0], &none, &mut |_, _| ()).expect_err("refused");
    assert!(matches!(error, Error::BadSettings { .. }), "{error:?}");
}
