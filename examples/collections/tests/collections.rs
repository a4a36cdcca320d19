//! Collections in kernels: they behave as on the host, give everything back, and fail as they should.

mod devices;

use devices::{for_each_device, for_each_gpu};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use scatterheap::{Device, Error, Grid, Heap, Memory, Selector};
use scatterheap_collections::kernels::exercise::{
    self, Exercise, ExerciseArguments, PROGRAMS, Turns,
};
use scatterheap_collections::kernels::several::{self, Keep, Return, SeveralArguments};
use scatterheap_collections::kernels::starve::{Exceed, StarveArguments, TryReserve};
use std::process::Command;

const MIB: u64 = 1 << 20;

fn heap_of(device: &Device, capacity: u64) -> Heap {
    let built = Heap::builder(device).capacity(capacity).build();
    built.expect("there is memory")
}

fn words(device: &Device, count: u32) -> Memory {
    let memory = device.allocate(u64::from(count) * 8);
    let memory = memory.expect("there is memory");
    memory.clear().expect("the device works");
    memory
}

fn assert_empty(heap: &Heap) {
    let snapshot = heap.snapshot().expect("the device works");
    assert!(snapshot.is_empty(), "blocks are left");
    let violations = snapshot.violations();
    assert!(violations.is_empty(), "{violations:?}");
    let misuse = snapshot.misuse_report();
    assert!(misuse.is_empty(), "{misuse}");
}

/// What a thread's program should come to, and which it is.
fn expected(index: u32, seed: u64, steps: u32, turns: Turns) -> (&'static str, u64) {
    let program = exercise::program(index, turns as u32);
    let digest = exercise::run(program, index, seed, steps);
    (PROGRAMS[program], digest)
}

/// Runs the programs in `count` threads and compares with the host.
fn exercise(heap: &Heap, count: u32, seed: u64, steps: u32, turns: Turns) {
    let digests = words(heap.device(), count);
    let arguments = ExerciseArguments {
        digests: digests.address(),
        count: u64::from(count),
        seed,
        steps: u64::from(steps),
        neighbours: turns as u64,
    };
    let global = heap.make_global().expect("no other is");
    // SAFETY: there is a place for each thread, until the numbers were read.
    unsafe { global.launch::<Exercise>(Grid::of(count), &arguments) }.expect("it is launched");
    let found: Vec<u64> = digests.read(0, count as usize).expect("the kernel ends");
    for (index, digest) in (0..count).zip(found) {
        let (program, expected) = expected(index, seed, steps, turns);
        assert_eq!(
            digest, expected,
            "{program} in thread {index}, seed {seed}, {turns:?}"
        );
    }
    assert_empty(heap);
}

#[test]
fn collections_do_in_kernels_what_they_do_on_the_host() {
    for_each_device("collections", |device| {
        let (count, capacity) = if device.is_gpu() {
            (100_000, 4096 * MIB)
        } else {
            (4000, 256 * MIB)
        };
        let heap = heap_of(device, capacity);
        // What came out right once may not the next time: lanes meet by chance.
        for _ in 0..3 {
            exercise(&heap, count, 1, 100, Turns::Thread);
            exercise(&heap, count, 1, 100, Turns::Warp);
        }
    });
}

#[test]
fn collections_do_so_for_any_seed() {
    for_each_device("collections for any seed", |device| {
        let heap = heap_of(device, 64 * MIB);
        let mut runner = TestRunner::new(Config::with_cases(24));
        let turns = prop_oneof![Just(Turns::Thread), Just(Turns::Warp)];
        let inputs = (1..400_u32, any::<u64>(), 0..300_u32, turns);
        let result = runner.run(&inputs, |(count, seed, steps, turns)| {
            exercise(&heap, count, seed, steps, turns);
            Ok(())
        });
        result.expect("they do");
    });
}

#[test]
fn kernels_have_collections_in_several_heaps() {
    for_each_device("several heaps", |device| {
        let count = if device.is_gpu() { 100_000 } else { 5000 };
        let (lasting, passing) = (heap_of(device, 256 * MIB), heap_of(device, 256 * MIB));
        let places = words(device, count);
        let arguments = SeveralArguments {
            lasting: lasting.handle().expect("it is there"),
            passing: passing.handle().expect("it is there"),
            places: places.address(),
            count: u64::from(count),
        };
        // The module wants a global heap, and gets one that nobody allocates from.
        let idle = heap_of(device, MIB);
        let global = idle.make_global().expect("no other is");
        // SAFETY: there is a place for each thread, until the sums were read.
        unsafe { global.launch::<Keep>(Grid::of(count), &arguments) }.expect("it is launched");
        let kept = lasting.snapshot().expect("the kernel ends").occupancy();
        assert_eq!(kept.used_blocks, u64::from(2 * count));
        assert_empty(&passing);
        // SAFETY: as above; each place has what the other kernel left.
        unsafe { global.launch::<Return>(Grid::of(count), &arguments) }.expect("it is launched");
        let sums: Vec<u64> = places.read(0, count as usize).expect("the kernel ends");
        for (index, sum) in (0..count).zip(sums) {
            assert_eq!(sum, several::expected(index), "thread {index}");
        }
        assert_empty(&lasting);
        assert_empty(&idle);
    });
}

fn starve_arguments(lengths: &Memory, count: u32) -> StarveArguments {
    StarveArguments {
        lengths: lengths.address(),
        count: u64::from(count),
        too_many: 100 * MIB,
    }
}

#[test]
fn what_there_is_not_can_be_asked_for() {
    for_each_device("try_reserve", |device| {
        let heap = heap_of(device, 16 * MIB);
        let (count, global) = (2000, heap.make_global().expect("no other is"));
        let lengths = words(device, count);
        let arguments = starve_arguments(&lengths, count);
        // SAFETY: there is a place for each thread, until the lengths were read.
        unsafe { global.launch::<TryReserve>(Grid::of(count), &arguments) }.expect("launched");
        let lengths: Vec<u64> = lengths.read(0, count as usize).expect("the kernel ends");
        assert!(lengths.iter().all(|length| *length == 100), "{lengths:?}");
        assert_empty(&heap);
        let occupancy = heap.snapshot().expect("the device works").occupancy();
        assert_eq!(occupancy.runs.failures.impossible, u64::from(count));
    });
}

#[test]
fn a_heap_that_is_reset_stays_global_and_one_is_at_most() {
    for_each_device("resetting a global heap", |device| {
        let heap = heap_of(device, 64 * MIB);
        exercise(&heap, 100, 1, 40, Turns::Thread);
        {
            let _global = heap.make_global().expect("the last was dropped");
            heap.reset().expect("the device works");
            let other = heap_of(device, MIB);
            let error = other.make_global().expect_err("there is one");
            assert!(matches!(error, Error::GlobalHeapTaken(_)), "{error}");
            let digests = words(device, 100);
            let arguments = ExerciseArguments {
                digests: digests.address(),
                count: 100,
                seed: 3,
                steps: 40,
                neighbours: Turns::Thread as u64,
            };
            // SAFETY: there is a place for each thread, until the numbers were read.
            unsafe { heap.launch::<Exercise>(Grid::of(100), &arguments) }.expect("launched");
            let found: Vec<u64> = digests.read(0, 100).expect("the kernel ends");
            assert!(
                (0..100)
                    .zip(found)
                    .all(|(index, digest)| digest == expected(index, 3, 40, Turns::Thread).1)
            );
            // Nothing came through a handle from before.
            assert_empty(&heap);
        }
        exercise(&heap, 100, 2, 40, Turns::Thread);
    });
}

#[test]
fn kernels_on_a_gpu_are_not_launched_without_a_global_heap() {
    for_each_gpu("launching without a global heap", |device| {
        let lengths = words(device, 1);
        let arguments = starve_arguments(&lengths, 1);
        // SAFETY: there is a place for the thread.
        let launched = unsafe { device.launch::<TryReserve>(Grid::of(1), &arguments) };
        let error = launched.expect_err("there is no heap");
        assert!(error.to_string().contains("`make_global`"), "{error}");
        assert!(!device.is_lost());
    });
}

/// Names the device that [`runs_out_of_memory`] is to end.
const VICTIM: &str = "SCATTERHEAP_TEST_VICTIM";

/// Whether it is to wait for its launch itself; else dropping the global heap does.
const WAITS: &str = "SCATTERHEAP_TEST_WAITS";

/// A process of its own that runs out of memory on a device: what it prints and whether it ended well.
fn victim(device: &str, waits: bool) -> (String, bool) {
    let program = std::env::current_exe().expect("a test is a program");
    let output = Command::new(program)
        .args(["--exact", "runs_out_of_memory", "--nocapture"])
        .env(VICTIM, device)
        .envs(waits.then_some((WAITS, "yes")))
        .output()
        .expect("it starts");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    (printed, output.status.success())
}

/// Does nothing unless another test says where.
#[test]
fn runs_out_of_memory() {
    let Ok(selector) = std::env::var(VICTIM) else {
        return;
    };
    let selector: Selector = selector.parse().expect("a device");
    let device = scatterheap_collections::open(&selector).expect("it can be opened");
    let heap = heap_of(&device, MIB);
    let (lengths, global) = (
        words(&device, 700),
        heap.make_global().expect("no other is"),
    );
    let arguments = starve_arguments(&lengths, 700);
    // SAFETY: there is a place for each thread.
    let launched = unsafe { global.launch::<Exceed>(Grid::of(700), &arguments) };
    if std::env::var(WAITS).is_ok() {
        let error = launched.and_then(|()| device.synchronize());
        println!("{}", error.expect_err("there is not so much memory"));
    } else {
        launched.expect("it begins");
        // That waits, and has nobody to tell: later calls say it, whichever they are.
        drop(global);
        println!("{}", heap.snapshot().expect_err("it is lost"));
        let error = heap.handle().expect_err("it is lost");
        assert!(
            matches!(error, Error::KernelOutOfMemory { .. }),
            "{error:?}"
        );
    }
    assert!(device.is_lost());
}

#[test]
fn who_must_have_memory_on_the_cpu_ends_the_process() {
    let (printed, succeeded) = victim("cpu", true);
    assert!(!succeeded, "{printed}");
    // Several threads may say so at once, word by word.
    for words in ["memory allocation of ", "104857600", " bytes failed"] {
        assert!(printed.contains(words), "no {words}: {printed}");
    }
}

#[test]
fn who_must_have_memory_on_a_gpu_is_counted() {
    if Device::gpu_count() == 0 {
        println!("skipped: running out of memory on a GPU (no GPU found)");
        return;
    }
    for waits in [true, false] {
        let (printed, succeeded) = victim("cuda:0", waits);
        assert!(succeeded, "{printed}");
        for words in [
            "kernel `collections_exceed` ran out of memory",
            "100 MiB",
            "larger",
        ] {
            assert!(printed.contains(words), "no {words}: {printed}");
        }
    }
}
