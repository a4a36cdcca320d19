use super::*;
use crate::device::{Device, Grid};
use crate::stress::{self, Workload};
use bytemuck::{Pod, Zeroable};
use std::sync::atomic::{AtomicU32, Ordering};

/// For anything to happen, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct HoldArguments {
    heap: heap_core::Heap,
    /// Address of a word: the threads end when it is not 0 any more.
    release: u64,
}

simt::kernel! {
    /// Every thread has a block until it may end.
    struct Hold = "hold";
    fn body(arguments: &HoldArguments) {
        let block = arguments.heap.malloc(1000);
        // SAFETY: the test's word outlives the launch.
        let release = unsafe { &*(arguments.release as *const AtomicU32) };
        // Relaxed: nothing else is told by it.
        while release.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // SAFETY: nobody else has it.
        unsafe { arguments.heap.free(block) };
    }
}

/// Lets the threads end, also if the test fails.
struct Released<'a>(&'a AtomicU32);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

/// A directory for readings, and settings with it.
fn settings() -> (tempfile::TempDir, Settings) {
    let scratch = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        name: "test".into(),
        period: Duration::from_millis(5),
        directory: Some(scratch.path().to_owned()),
    };
    (scratch, settings)
}

fn heap(device: &Device) -> Heap {
    let heap = Heap::builder(device).capacity(1 << 20).build();
    heap.expect("there is memory")
}

/// Waits until the one heap that is published is as it should be.
fn wait_for(directory: &Path, is_right: impl Fn(&Reading) -> bool) -> Reading {
    let begin = Instant::now();
    loop {
        let readings = published(directory).expect("it can be read");
        assert!(readings.len() <= 1, "{readings:?}");
        match readings.into_iter().next() {
            Some(reading) if is_right(&reading) => return reading,
            other => assert!(begin.elapsed() < PATIENCE, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn files(directory: &Path) -> usize {
    std::fs::read_dir(directory).expect("it is there").count()
}

#[test]
fn blocks_are_seen_while_a_launch_runs() {
    let (scratch, settings) = settings();
    let device = Device::cpu_with_threads(2);
    let heap = heap(&device);
    let monitor = heap.monitor(&settings).expect("it starts");
    monitor.say("holding on");
    let release = AtomicU32::new(0);
    let arguments = HoldArguments {
        heap: heap.handle().expect("it is alive"),
        release: std::ptr::from_ref(&release) as u64,
    };
    let grid = Grid {
        blocks: 2,
        block_dim: 1,
    };
    std::thread::scope(|scope| {
        let released = Released(&release);
        // SAFETY: the word is there until the launch ended.
        let launch = scope.spawn(|| unsafe { heap.launch::<Hold>(grid, &arguments) });
        let reading = wait_for(scratch.path(), |reading| reading.state.used_blocks == 2);
        assert_eq!((&*reading.name, &*reading.doing), ("test", "holding on"));
        assert_eq!(reading.process, std::process::id());
        assert_eq!(reading.state.capacity, heap.capacity());
        let sizes = &reading.state.sizes;
        assert_eq!(sizes.iter().map(|size| size.used).sum::<u64>(), 2);
        assert!(sizes.iter().any(|size| size.slot_bytes >= 1000));
        assert!(reading.age() < PATIENCE.as_secs_f64());
        assert!(!launch.is_finished());
        drop(released);
        launch.join().expect("no panic").expect("it is launched");
    });
    wait_for(scratch.path(), |reading| reading.state.used_blocks == 0);
    assert_eq!(monitor.failure(), None);
}

#[test]
fn readings_vanish_with_the_monitor_and_with_the_heap() {
    let (scratch, settings) = settings();
    let device = Device::cpu_with_threads(2);
    let heap = heap(&device);
    let monitor = heap.monitor(&settings).expect("it starts");
    wait_for(scratch.path(), |_| true);
    assert!(monitor.file().is_file());
    drop(monitor);
    assert_eq!(files(scratch.path()), 0);

    // The thread ends by itself when there is nothing left to look at.
    let monitor = heap.monitor(&settings).expect("it starts again");
    wait_for(scratch.path(), |_| true);
    drop(heap);
    let begin = Instant::now();
    while files(scratch.path()) > 0 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(monitor.failure().is_none());
}

#[test]
fn what_a_process_left_behind_is_removed() {
    let (scratch, settings) = settings();
    let heap = heap(&Device::cpu_with_threads(2));
    let monitor = heap.monitor(&settings).expect("it starts");
    wait_for(scratch.path(), |_| true);
    let left = |extension| scratch.path().join(format!("1-1.{extension}"));
    std::fs::copy(monitor.file(), left("json")).expect("copied");
    std::fs::write(left("lock"), "").expect("written");
    // Nobody has locked it, so only the one that lives is found.
    wait_for(scratch.path(), |reading| reading.process != 1);
    assert!(!left("json").exists() && !left("lock").exists());
    // What is no reading of ours is none, and stays.
    std::fs::write(scratch.path().join("note.json"), "{}").expect("written");
    wait_for(scratch.path(), |_| true);
    assert!(scratch.path().join("note.json").exists());
    assert!(
        published(&scratch.path().join("none"))
            .expect("no readings")
            .is_empty()
    );
}

#[test]
fn a_heap_may_be_reset_and_grow_while_it_is_watched() {
    let (scratch, settings) = settings();
    let device = Device::cpu_with_threads(2);
    let heap = Heap::builder(&device)
        .capacity(1 << 20)
        .max_capacity(8 << 20)
        .build()
        .expect("there is memory");
    let _monitor = heap.monitor(&settings).expect("it starts");
    let reading = wait_for(scratch.path(), |_| true);
    assert_eq!(reading.largest_capacity, 8 << 20);
    assert_eq!(reading.state.capacity, heap.capacity());
    heap.grow(2 << 20).expect("there is room");
    wait_for(scratch.path(), |reading| {
        reading.state.capacity == heap.capacity()
    });
    for _ in 0..50 {
        let blocks = heap.malloc_each(&[500; 100]).expect("it is alive");
        assert!(blocks.iter().all(|block| *block != 0));
        heap.reset().expect("it is alive");
    }
    wait_for(scratch.path(), |reading| reading.state.used_blocks == 0);
}

#[test]
fn operations_of_workloads_are_counted() {
    let (scratch, settings) = settings();
    let device = Device::cpu_with_threads(2);
    let heap = heap(&device);
    let _monitor = heap.monitor(&settings).expect("it starts");
    assert_eq!(wait_for(scratch.path(), |_| true).operations, None);
    let small = stress::Settings {
        threads: 64,
        rounds: 4,
        most: 256,
        ..stress::Settings::for_workload(Workload::Churn, &heap)
    };
    let directory = scratch.path();
    let mut seen = 0;
    // Progress is told between launches: the tally is there and says how many there were.
    let mut look = |_, _| {
        let reading = wait_for(directory, |reading| reading.operations > Some(0));
        seen = reading.operations.unwrap_or(0).max(seen);
    };
    let report = stress::run(&heap, Workload::Churn, &small, &mut look).expect("it runs");
    assert!(report.passed() && (1..=report.operations).contains(&seen));
    wait_for(directory, |reading| reading.operations.is_none());
}

#[test]
fn a_directory_that_cannot_be_used_is_refused() {
    let (scratch, mut settings) = settings();
    let file = scratch.path().join("file");
    std::fs::write(&file, "").expect("written");
    settings.directory = Some(file.join("below"));
    let heap = heap(&Device::cpu_with_threads(2));
    let refused = heap.monitor(&settings).expect_err("a file is no directory");
    assert!(matches!(refused, Error::RunDirectory { .. }), "{refused}");
    assert!(!refused.to_string().contains('\n'));
}

#[test]
fn looks_that_take_long_are_rare() {
    let of = Duration::from_millis;
    let asked = of(250);
    assert_eq!(next_period(asked, asked, of(1)), asked);
    assert_eq!(next_period(asked, asked, of(4)), of(400));
    let mut period = asked;
    for _ in 0..10 {
        period = next_period(asked, period, of(50));
    }
    assert_eq!(period, of(5000));
    // A single one doubles it, and the next is as usual.
    assert_eq!(next_period(asked, asked, of(3000)), of(500));
    assert_eq!(next_period(asked, of(500), of(1)), asked);
}

#[test]
fn any_period_can_be_asked_for() {
    let heap = heap(&Device::cpu());
    for period in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let (scratch, settings) = settings();
        let settings = Settings { period, ..settings };
        let monitor = heap.monitor(&settings).expect("watched");
        let least = LEAST_PERIOD.max(period).as_secs_f64();
        wait_for(scratch.path(), |reading| reading.period >= least);
        // Its thread ends, whatever it waits for.
        drop(monitor);
    }
    let far = next_period(Duration::MAX, Duration::MAX, Duration::MAX);
    assert_eq!(far, Duration::MAX);
}
