//! Calls that make a heap empty, read it as a whole or allocate for the host come one after another, whichever threads
//! make them.

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use scatterheap_host::stress::{self, Settings, Workload};
use scatterheap_host::{Device, Heap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const MIB: u64 = 1 << 20;
/// Calls of each kind.
const CALLS: u64 = 150;

fn heap() -> Heap {
    let device = Device::cpu_with_threads(4);
    let heap = Heap::builder(&device).capacity(4 * MIB).build();
    heap.expect("there is memory for the heap")
}

fn is_sound(heap: &Heap) {
    let snapshot = heap.snapshot().expect("the heap is there");
    assert_eq!(snapshot.violations(), []);
}

/// A thread of a pool must not begin another call while it waits for the launch of one.
#[test]
fn of_the_threads_of_a_pool() {
    let heap = heap();
    let pool = ThreadPoolBuilder::new().num_threads(4).build();
    pool.expect("threads").install(|| {
        (0..3 * CALLS)
            .into_par_iter()
            .for_each(|call| match call % 3 {
                0 => {
                    let sizes: Vec<_> = (1..500).map(|size| size + call).collect();
                    let blocks = heap.malloc_each(&sizes).expect("the device works");
                    // SAFETY: nobody uses them.
                    unsafe { heap.free_each(&blocks) }.expect("the device works");
                }
                1 => is_sound(&heap),
                _ => heap.reset().expect("the device works"),
            });
    });
    is_sound(&heap);
}

#[test]
fn of_threads_that_allocate_themselves() {
    let (heap, is_over) = (heap(), AtomicBool::new(false));
    thread::scope(|scope| {
        for size in [100, 3000] {
            let (heap, is_over) = (&heap, &is_over);
            scope.spawn(move || {
                // Relaxed: it only ends the loop.
                while !is_over.load(Ordering::Relaxed) {
                    let block = heap.on_the_host(|handle| handle.malloc(size));
                    let block = block.expect("the heap is there") as u64;
                    // SAFETY: this thread's, or a reset took it back: then it is refused.
                    let freed = heap.on_the_host(|handle| unsafe { handle.free(block as *mut u8) });
                    freed.expect("the heap is there");
                }
            });
        }
        for _ in 0..CALLS {
            is_sound(&heap);
            heap.reset().expect("the device works");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    is_sound(&heap);
}

/// Says that a test is over, also if it fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_heap_is_not_emptied_in_the_middle_of_a_run() {
    let heap = heap();
    let settings = Settings {
        threads: 512,
        rounds: 20,
        ..Settings::for_workload(Workload::Churn, &heap)
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                heap.reset().expect("the device works");
            }
        });
        for _ in 0..5 {
            let report = stress::run(&heap, Workload::Churn, &settings, &mut |_, _| ());
            let report = report.expect("it can be run");
            assert!(report.passed(), "{report:#?}");
        }
    });
}
