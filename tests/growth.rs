//! Heaps that grow, on every device there is: while kernels run, between launches, by hand; and
//! that shrink.

mod allocations;
mod devices;
mod shipped;

use allocations::{Allocations, assert_empty, sizes, takes_whole};
use bytemuck::{Pod, Zeroable};
use devices::for_each_device;
use scatterheap::kernels::tally::Count;
use scatterheap::simt::{kernel, thread, time};
use scatterheap::stress::{self, Settings, Workload};
use scatterheap::{Device, Error, Grid, Growth, Hardening, Heap, Misuse, replay};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes that a heap has at first, and at most.
fn from_and_to(device: &Device) -> (u64, u64) {
    if device.is_gpu() {
        (64 * MIB, 16 * GIB)
    } else {
        (MIB, 64 * MIB)
    }
}

fn heap(device: &Device, growth: Growth) -> Heap {
    let (capacity, most) = from_and_to(device);
    heap_of(device, growth, capacity, most)
}

fn heap_of(device: &Device, growth: Growth, capacity: u64, most: u64) -> Heap {
    Heap::builder(device)
        .capacity(capacity)
        .max_capacity(most)
        .growth(growth)
        .build()
        .expect("there is memory for the heap")
}

/// A live heap, unless the device cannot map memory while kernels run.
fn live_heap(device: &Device) -> Option<Heap> {
    let heap = heap(device, Growth::Live);
    if let Some(notice) = heap.growth_notice() {
        println!("skipped: live growth on {device}: {notice}");
        assert_eq!(heap.growth(), Growth::BetweenLaunches);
        return None;
    }
    assert_eq!(heap.growth(), Growth::Live);
    Some(heap)
}

/// Threads whose blocks of up to `most` bytes take `share` of a heap of `bytes`.
fn threads_for(bytes: u64, most: u64, share: f64) -> u32 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a share of a small number"
    )]
    let threads = (bytes as f64 * share / (most as f64 / 2.0)) as u32;
    threads
}

#[test]
fn blocks_keep_their_place_and_content_while_the_heap_grows() {
    for_each_device("live growth", |device| {
        let Some(heap) = live_heap(device) else {
            return;
        };
        let (capacity, most) = from_and_to(device);
        let before = Allocations::new(&heap, threads_for(capacity, 512, 0.5), sizes(16, 512));
        before.fill();
        assert_eq!(before.nulls(), 0);

        let more = Allocations::new(&heap, threads_for(most, 8192, 0.7), sizes(16, 8192));
        more.fill();
        assert_eq!(more.nulls(), 0, "{:?}", heap.growth_notice());
        assert!(heap.capacity() >= most / 2, "{}", heap.capacity());
        assert_eq!(more.counted(Count::Overlaps), 0);
        assert_eq!((before.check_and_free(), more.check_and_free()), (0, 0));
        assert_empty(&heap);
        assert!(takes_whole(&heap));
    });
}

#[test]
fn a_live_heap_ends_at_its_most_and_says_null() {
    for_each_device("live growth to the end", |device| {
        let Some(heap) = live_heap(device) else {
            return;
        };
        let settings = Settings {
            threads: if device.is_gpu() { 1 << 17 } else { 1 << 10 },
            ..Settings::for_workload(Workload::Exhaust, &heap)
        };
        let report = stress::run(&heap, Workload::Exhaust, &settings, &mut |_, _| ())
            .expect("the workload can be run");
        assert!(report.passed(), "{report:#?}");
        assert!(report.nulls > 0);
        assert_eq!(heap.capacity(), heap.max_capacity());
        // SAFETY: no kernel runs.
        let left = unsafe { heap.shrink() }.expect("the device works");
        let (capacity, _) = from_and_to(device);
        assert!((capacity..2 * capacity).contains(&left), "{left}");
        assert!(takes_whole(&heap));
        // And once more.
        let report = stress::run(&heap, Workload::Exhaust, &settings, &mut |_, _| ())
            .expect("the workload can be run");
        assert!(report.passed(), "{report:#?}");
        assert_eq!(heap.capacity(), heap.max_capacity());
    });
}

#[test]
fn every_workload_passes_on_a_heap_that_grows() {
    for_each_device("workloads on a heap that grows", |device| {
        let Some(heap) = live_heap(device) else {
            return;
        };
        for workload in Workload::ALL {
            let settings = Settings {
                threads: if device.is_gpu() { 1 << 17 } else { 1 << 9 },
                rounds: 8,
                ..Settings::for_workload(workload, &heap)
            };
            // SAFETY: no kernel runs.
            unsafe { heap.shrink() }.expect("the device works");
            let report = stress::run(&heap, workload, &settings, &mut |_, _| ())
                .expect("the workload can be run");
            assert!(report.passed(), "{report:#?}");
            heap.reset().expect("the device works");
        }
    });
}

#[test]
fn workloads_of_several_launches_have_a_heap_grow_between_them() {
    for_each_device("workloads with growth between launches", |device| {
        for workload in Workload::ALL {
            let heap = heap(device, Growth::BetweenLaunches);
            let (capacity, _) = from_and_to(device);
            let settings = Settings {
                threads: threads_for(capacity, 64, 1.5),
                rounds: 16,
                least: 64,
                most: 64,
                ..Settings::for_workload(workload, &heap)
            };
            let report = stress::run(&heap, workload, &settings, &mut |_, _| ())
                .expect("the workload can be run");
            assert!(report.passed(), "{report:#?}");
            let has_several = matches!(workload, Workload::Uniform | Workload::Churn);
            assert!(!has_several || heap.capacity() > capacity, "{workload}");
        }
    });
}

#[test]
fn a_heap_grows_between_the_windows_of_a_replay() {
    let trace = shipped::trace();
    for_each_device("a replay with growth between launches", |device| {
        let heap = heap_of(device, Growth::BetweenLaunches, MIB, 256 * MIB);
        let settings = replay::Settings {
            copies: Some(2),
            ..replay::Settings::default()
        };
        let report = replay::run(&heap, &trace, &settings, &mut |_, _| ())
            .expect("the trace can be replayed");
        assert!(report.passed(), "{report:#?}");
        assert!(heap.capacity() > MIB);
        // What was not there in one window was for the next.
        assert!(report.nulls < report.operations / 10, "{report:#?}");
    });
}

#[test]
fn a_heap_grows_before_the_launch_that_follows_a_null() {
    for_each_device("growth between launches", |device| {
        let heap = heap(device, Growth::BetweenLaunches);
        let (capacity, _) = from_and_to(device);
        let first = Allocations::new(&heap, threads_for(capacity, 512, 1.5), sizes(16, 512));
        let nulls = first.nulls();
        assert!(nulls > 0);
        assert!(heap.capacity() < 2 * capacity, "nothing grows meanwhile");
        first.fill();
        assert!(heap.capacity() >= 2 * capacity, "{}", heap.capacity());
        let second = Allocations::new(&heap, 100, sizes(16, 512));
        assert_eq!(second.nulls(), 0);
        assert_eq!(first.check_and_free(), 0);
        second.free();
        assert_empty(&heap);
    });
}

#[test]
fn failed_work_is_launched_again_once_the_heap_has_grown() {
    for_each_device("launches with growth", |device| {
        for growth in [Growth::BetweenLaunches, Growth::Live] {
            // Of a larger heap millions of requests would search in vain, at each size.
            let (capacity, most) = from_and_to(device);
            let most = most.min(GIB);
            let heap = heap_of(device, growth, capacity, most);
            let threads = threads_for(most, 4096, 0.6);
            let blocks = Allocations::none(&heap, threads, sizes(16, 4096));
            let launch = blocks.allocate_with_growth();
            assert_eq!(launch.failed, 0, "{launch:?}");
            if heap.growth() == Growth::BetweenLaunches {
                assert!(launch.launches > 2, "{launch:?}");
            }
            assert!(blocks.blocks().iter().all(|block| block.address != 0));
            blocks.fill();
            assert_eq!(blocks.check_and_free(), 0);
            // More than the heap may ever have.
            let threads = threads_for(most, 4096, 1.5);
            let blocks = Allocations::none(&heap, threads, sizes(16, 4096));
            let launch = blocks.allocate_with_growth();
            assert!(launch.failed > 0, "{launch:?}");
            assert_eq!(heap.capacity(), heap.max_capacity());
            blocks.free();
            assert_empty(&heap);
        }
    });
}

#[test]
fn a_heap_is_grown_and_shrunk_by_hand() {
    for_each_device("growth by hand", |device| {
        let heap = heap(device, Growth::BetweenLaunches);
        let (capacity, most) = from_and_to(device);
        let grown = heap.grow(3 * capacity).expect("there is memory");
        assert!((4 * capacity..5 * capacity).contains(&grown), "{grown}");
        assert!(takes_whole(&heap));

        let block = Allocations::new(&heap, 1, sizes(3 * capacity, 3 * capacity));
        block.fill();
        // SAFETY: no kernel runs.
        assert_eq!(unsafe { heap.shrink() }.expect("the device works"), grown);
        assert_eq!(block.check_and_free(), 0);
        // SAFETY: as above.
        let left = unsafe { heap.shrink() }.expect("the device works");
        assert!((capacity..2 * capacity).contains(&left), "{left}");
        assert_empty(&heap);
        assert!(takes_whole(&heap));

        let refused = heap.grow(most).expect_err("it may not be as large");
        assert!(matches!(refused, Error::CannotGrow { .. }), "{refused}");
        assert_eq!(heap.capacity(), left);
    });
}

#[test]
fn a_reset_heap_keeps_what_it_has_grown_to() {
    for_each_device("reset of a grown heap", |device| {
        let heap = heap(device, Growth::BetweenLaunches);
        let (capacity, _) = from_and_to(device);
        heap.grow(capacity).expect("there is memory");
        let grown = heap.capacity();
        heap.reset().expect("the device works");
        assert_eq!(heap.capacity(), grown);
        assert_empty(&heap);
        assert!(takes_whole(&heap));
    });
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let device = Device::cpu();
    let builder = || Heap::builder(&device).capacity(2 * MIB);
    let fixed = builder().build().expect("there is memory");
    assert_eq!(fixed.growth(), Growth::Fixed);
    let refused = fixed.grow(1).expect_err("it is fixed");
    assert!(matches!(refused, Error::FixedCapacity(_)), "{refused}");
    // SAFETY: no kernel runs.
    let refused = unsafe { fixed.shrink() }.expect_err("it is fixed");
    assert!(matches!(refused, Error::FixedCapacity(_)), "{refused}");

    let refused = builder()
        .max_capacity(MIB)
        .build()
        .expect_err("less than it has");
    assert!(
        matches!(refused, Error::MostBelowCapacity { .. }),
        "{refused}"
    );
    assert!(!refused.to_string().contains('\n'));

    let refused = builder()
        .max_capacity(4 * MIB)
        .growth(Growth::Fixed)
        .build()
        .expect_err("one or the other");
    assert!(matches!(refused, Error::MostOfFixed { .. }), "{refused}");
    // What it has is the most that it may have.
    let fixed = builder().max_capacity(2 * MIB).growth(Growth::Fixed);
    fixed.build().expect("there is memory");

    let memory = device.allocate(8 * MIB).expect("there is memory");
    // SAFETY: the region lives longer than the attempt.
    let in_region = unsafe {
        builder()
            .max_capacity(4 * MIB)
            .in_region(memory.address(), 8 * MIB)
    };
    let refused = in_region
        .build()
        .expect_err("only memory of its own can grow");
    assert!(matches!(refused, Error::GrowthInRegion), "{refused}");

    let free = device.memory_info().expect("the system tells").free;
    let heap = builder()
        .max_capacity(4 * free)
        .build()
        .expect("addresses are free");
    let before = heap.capacity();
    let refused = heap
        .grow(2 * free)
        .expect_err("there is not as much memory");
    assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
    assert_eq!(heap.capacity(), before);
    assert!(takes_whole(&heap));
}

#[test]
fn a_request_of_a_heap_that_does_not_grow_at_once_does_not_wait() {
    let device = Device::cpu();
    let heap = Heap::builder(&device)
        .capacity(MIB)
        .max_capacity(2 * MIB)
        .growth(Growth::BetweenLaunches)
        .growth_patience(Duration::from_secs(3600))
        .build()
        .expect("there is memory");
    let blocks = Allocations::new(&heap, 2000, sizes(1024, 1024));
    assert!(blocks.nulls() > 0);
    blocks.free();
    assert_empty(&heap);
}

#[test]
fn a_request_for_more_than_the_device_has_does_not_end_growth() {
    for_each_device("growth after a refusal", |device| {
        for growth in [Growth::Live, Growth::BetweenLaunches] {
            let free = device.memory_info().expect("the device tells").free;
            let heap = Heap::builder(device)
                .capacity(16 * MIB)
                .max_capacity(2 * free)
                .growth(growth)
                .build()
                .expect("addresses are free");
            let most = free + free / 2;
            let too_large = Allocations::new(&heap, 1, sizes(most, most));
            assert_eq!(too_large.nulls(), 1);
            let nulls = || {
                let blocks = Allocations::new(&heap, 64, sizes(MIB, MIB));
                blocks.free();
                blocks.nulls()
            };
            // Between launches it doubles once for each that fails.
            let launches = if heap.growth() == Growth::Live { 1 } else { 4 };
            let mut left = 0;
            for _ in 0..launches {
                left = nulls();
            }
            assert_eq!(left, 0, "{:?}", heap.growth_notice());
        }
    });
}

#[test]
fn what_was_asked_for_before_a_reset_is_wanted_no_more() {
    for_each_device("growth over a reset", |device| {
        let heap = heap(device, Growth::BetweenLaunches);
        let (capacity, _) = from_and_to(device);
        let blocks = Allocations::new(&heap, threads_for(capacity, 512, 1.5), sizes(16, 512));
        assert!(blocks.nulls() > 0);
        let before = heap.capacity();
        heap.reset().expect("the device works");
        let few = Allocations::new(&heap, 10, sizes(16, 512));
        assert_eq!((few.nulls(), heap.capacity()), (0, before));
    });
}

/// How long [`Hoard`] tries, in nanoseconds.
const HOARDING: u64 = 300_000_000;
/// Blocks that it has at most, and their bytes.
const HOARD: usize = 20_000;
const HOARDED: u64 = 1000;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct HoardArguments {
    heap: scatterheap::heap::Heap,
    /// Address of a word that becomes 1 once it runs.
    running: u64,
    /// Address of a word: blocks that are not as they were left.
    corrupt: u64,
    /// Addresses of words for the blocks.
    blocks: u64,
}

kernel! {
    /// Allocates for a while, whether there is memory or not, and then looks at its blocks.
    struct Hoard = "test_kernel_hoard";
    fn body(arguments: &HoardArguments) {
        if thread::index_1d() != 0 {
            return;
        }
        // SAFETY: the test gave the addresses of its own words; the blocks are this thread's.
        unsafe {
            (*(arguments.running as *const AtomicU64)).store(1, Ordering::SeqCst);
            let blocks = arguments.blocks as *mut *mut u64;
            let (start, mut count) = (time::now(), 0);
            while time::now() - start < HOARDING && count < HOARD {
                let block = arguments.heap.malloc(HOARDED) as u64 as *mut u64;
                if !block.is_null() {
                    block.add(60).write(block as u64);
                    blocks.add(count).write(block);
                    count += 1;
                }
            }
            while time::now() - start < HOARDING {}
            for index in 0..count {
                let block = blocks.add(index).read();
                if block.add(60).read() != block as u64 {
                    *(arguments.corrupt as *mut u64) += 1;
                }
            }
        }
    }
}

/// The kernel is this test's own, so it runs on the CPU alone.
#[test]
fn pages_are_poisoned_before_a_running_kernel_can_have_them() {
    let device = Device::cpu_with_threads(4);
    let heap = Heap::builder(&device)
        .capacity(MIB)
        .max_capacity(64 * MIB)
        .harden(Hardening::POISON)
        .build()
        .expect("there is memory");
    let (running, mut blocks) = (AtomicU64::new(0), vec![0_u64; HOARD]);
    let corrupt = AtomicU64::new(0);
    let arguments = HoardArguments {
        heap: heap.handle().expect("the heap is there"),
        running: &raw const running as u64,
        corrupt: &raw const corrupt as u64,
        blocks: blocks.as_mut_ptr() as u64,
    };
    let grid = Grid {
        blocks: 1,
        block_dim: 1,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: all of it outlives the launch.
            unsafe { heap.launch::<Hoard>(grid, &arguments) }.expect("the kernel runs");
        });
        while running.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        heap.grow(60 * MIB).expect("there is memory");
    });
    assert_eq!(corrupt.load(Ordering::SeqCst), 0);
    let report = heap.misuse_report().expect("the heap is there");
    assert_eq!(report.count(Misuse::UseAfterFree), 0, "{report}");
}

#[test]
fn any_capacities_will_do() {
    for_each_device("odd capacities", |device| {
        let bounds = [
            (MIB + 1, 3 * MIB + 12_345),
            (5 * MIB + 65_537, 200 * MIB - 1),
            (MIB, 8 * GIB),
            (3 * MIB, 3 * MIB),
        ];
        for (capacity, most) in bounds {
            for growth in [Growth::Live, Growth::BetweenLaunches] {
                let heap = Heap::builder(device)
                    .capacity(capacity)
                    .max_capacity(most)
                    .growth(growth)
                    .build()
                    .expect("there is memory");
                assert!((capacity..=heap.max_capacity()).contains(&heap.capacity()));
                let first = heap.capacity();
                assert!(takes_whole(&heap), "{capacity} of {most}");
                for step in [1, 70_001, MIB + 3] {
                    let before = heap.capacity();
                    match heap.grow(step) {
                        Ok(grown) => assert!(grown >= before + step, "{grown}"),
                        Err(Error::CannotGrow { .. }) => assert_eq!(heap.capacity(), before),
                        Err(error) => panic!("{error}"),
                    }
                    assert!(takes_whole(&heap), "{capacity} of {most} and {step}");
                }
                // Of many sizes, so that every class wants pages of its own.
                let mixed = Allocations::new(&heap, 200, sizes(16, 4096));
                assert!(heap.growth() != Growth::Live || mixed.nulls() == 0 || most < 8 * MIB);
                mixed.fill();
                assert_eq!(mixed.check_and_free(), 0);
                // SAFETY: no kernel runs.
                let left = unsafe { heap.shrink() }.expect("the device works");
                assert_eq!(left, first);
                assert_empty(&heap);
            }
        }
    });
}
