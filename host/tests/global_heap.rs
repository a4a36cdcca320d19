//! What becomes of a device's global heap while kernels run.

use bytemuck::{Pod, Zeroable};
use scatterheap_host::{Device, Grid, Heap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// What the kernel and the test tell each other.
#[derive(Default)]
struct Signals {
    has_begun: AtomicU32,
    may_end: AtomicU32,
    has_ended: AtomicU32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct HoldArguments {
    /// Address of the signals.
    signals: u64,
}

scatterheap_simt::kernel! {
    /// Says that it runs, and does so until it may end.
    struct Hold = "hold_global";
    fn body(arguments: &HoldArguments) {
        // SAFETY: the test's signals outlive the launch.
        let signals = unsafe { &*(arguments.signals as *const Signals) };
        signals.has_begun.store(1, Ordering::Release);
        while signals.may_end.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        signals.has_ended.store(1, Ordering::Release);
    }
}

#[test]
fn a_heap_is_global_until_the_launches_that_began_so_have_ended() {
    let device = Device::cpu_with_threads(2);
    let heap = Heap::builder(&device).capacity(1 << 20).build();
    let heap = heap.expect("there is memory");
    let global = heap.make_global().expect("no other is");
    let signals = Signals::default();
    thread::scope(|scope| {
        let launch = scope.spawn(|| {
            let arguments = HoldArguments {
                signals: std::ptr::from_ref(&signals) as u64,
            };
            // SAFETY: the signals outlive the scope.
            unsafe { device.launch::<Hold>(Grid::of(1), &arguments) }.expect("it is launched");
        });
        while signals.has_begun.load(Ordering::Acquire) == 0 && !launch.is_finished() {
            thread::yield_now();
        }
        let unbound = scope.spawn(|| {
            drop(global);
            signals.has_ended.load(Ordering::Acquire)
        });
        // For whoever does not wait to be done.
        thread::sleep(Duration::from_millis(50));
        let was_unbound = unbound.is_finished();
        signals.may_end.store(1, Ordering::Release);
        launch.join().expect("it does not panic");
        assert_eq!(unbound.join().expect("it does not panic"), 1);
        assert!(!was_unbound);
    });
    // Now another may be.
    drop(heap.make_global().expect("no other is"));
}
