//! Heaps of several devices in one process: they do not know of each other, at whatever moment and by whichever thread
//! they are used.

mod allocations;
mod devices;

use allocations::{Allocations, assert_empty, sizes, takes_whole};
use devices::for_several_devices;
use scatterheap::stress::{self, Settings, Workload};
use scatterheap::{Device, Error, Growth, Heap, Misuse};
use std::thread;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Rounds in which all devices are used by turns.
const ROUNDS: u32 = 3;

fn capacity(device: &Device) -> u64 {
    if device.is_gpu() { GIB } else { 16 * MIB }
}

fn threads(device: &Device) -> u32 {
    if device.is_gpu() { 1 << 16 } else { 1 << 11 }
}

fn heaps(devices: &[Device]) -> Vec<Heap> {
    let of = |device| {
        let heap = Heap::builder(device).capacity(capacity(device)).build();
        heap.expect("there is memory for the heap")
    };
    devices.iter().map(of).collect()
}

/// A heap on each device that grows while kernels run, or between launches where that is not possible.
fn growing_heaps(devices: &[Device]) -> Vec<Heap> {
    let of = |device: &Device| {
        let builder = Heap::builder(device)
            .capacity(capacity(device) / 16)
            .max_capacity(4 * capacity(device))
            .growth(Growth::Live);
        let heap = builder.build().expect("there is memory for the heap");
        if let Some(notice) = heap.growth_notice() {
            println!("skipped: live growth on {device}: {notice}");
        }
        heap
    };
    devices.iter().map(of).collect()
}

fn try_hard(heap: &Heap, workload: Workload) {
    let settings = Settings {
        threads: threads(heap.device()),
        rounds: 4,
        ..Settings::for_workload(workload, heap)
    };
    let report = stress::run(heap, workload, &settings, &mut |_, _| ());
    let report = report.expect("the workload can be run");
    assert!(report.passed(), "{}: {report:#?}", heap.device());
}

/// A thread for each device, all at once.
fn at_once(heaps: &[Heap], work: impl Fn(&Heap) + Sync) {
    thread::scope(|scope| {
        for heap in heaps {
            scope.spawn(|| work(heap));
        }
    });
}

#[test]
fn workloads_run_at_once() {
    for_several_devices("workloads at once", |devices| {
        let heaps = heaps(devices);
        at_once(&heaps, |heap| {
            for workload in [
                Workload::Mixed,
                Workload::Churn,
                Workload::CrossWarp,
                Workload::Exhaust,
            ] {
                try_hard(heap, workload);
            }
            assert_empty(heap);
        });
    });
}

#[test]
fn heaps_grow_at_once() {
    for_several_devices("growth at once", |devices| {
        let heaps = growing_heaps(devices);
        at_once(&heaps, |heap| {
            let bytes = u64::from(threads(heap.device())) * 8192;
            if heap.growth() != Growth::Live {
                heap.grow(bytes).expect("there is memory");
            }
            let blocks = Allocations::new(heap, threads(heap.device()), sizes(16, 8192));
            blocks.fill();
            assert_eq!(blocks.nulls(), 0, "{:?}", heap.growth_notice());
            assert!(heap.capacity() > capacity(heap.device()) / 16);
            assert_eq!(blocks.check_and_free(), 0);
            assert_empty(heap);
        });
    });
}

/// One thread goes from device to device, with launches that are not waited for.
#[test]
fn a_thread_uses_all_by_turns() {
    for_several_devices("devices by turns", |devices| {
        let heaps = heaps(devices);
        for round in 0..ROUNDS {
            let most = 500 << round;
            let blocks: Vec<_> = heaps
                .iter()
                .map(|heap| Allocations::new(heap, threads(heap.device()), sizes(1, most)))
                .collect();
            for blocks in &blocks {
                blocks.fill();
            }
            for (heap, blocks) in heaps.iter().zip(&blocks) {
                assert_eq!(blocks.nulls(), 0);
                let snapshot = heap.snapshot().expect("the heap is there");
                assert_eq!(snapshot.origin().device, heap.device().label());
                assert_eq!(snapshot.live().count(), threads(heap.device()) as usize);
            }
            for blocks in blocks.iter().rev() {
                assert_eq!(blocks.check_and_free(), 0);
            }
        }
        for heap in &heaps {
            assert_empty(heap);
            assert!(takes_whole(heap));
        }
    });
}

#[test]
fn a_block_of_another_device_is_refused() {
    for_several_devices("blocks of other devices", |devices| {
        let heaps = heaps(devices);
        let sizes: Vec<u64> = (1..=1000).collect();
        for (index, heap) in heaps.iter().enumerate() {
            let other = &heaps[(index + 1) % heaps.len()];
            let refused = heap.handle_on(other.device());
            assert!(
                matches!(refused, Err(Error::WrongDevice { .. })),
                "{refused:?}"
            );
            let blocks = heap.malloc_each(&sizes).expect("the device works");
            assert!(!blocks.contains(&0));
            // SAFETY: that heap refuses them, without a look at what they point to.
            unsafe { other.free_each(&blocks) }.expect("the device works");
            let report = other.misuse_report().expect("the heap is there");
            assert_eq!(report.of(Misuse::Foreign).count, sizes.len() as u64);
            assert_empty(other);
            other.reset().expect("the device works");
            // SAFETY: nobody uses them.
            unsafe { heap.free_each(&blocks) }.expect("the device works");
            let report = heap.misuse_report().expect("the heap is there");
            assert_eq!(report.total(), 0);
            assert_empty(heap);
        }
    });
}
