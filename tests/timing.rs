//! Times by the device's own clock, and what kernels use of it.

mod devices;

use devices::for_each_device;
use scatterheap::{Device, Error, Grid};
use scatterheap_bench::module;
use scatterheap_bench_kernels::blocks::{AllocateUniform, Request, StoreFloor};

/// Threads that store 8 bytes each.
const THREADS: u32 = 1 << 18;

#[test]
fn calls_are_timed_and_what_kernels_use_is_known() {
    for_each_device("timing", |device| {
        // Once for a device.
        module::load(device).expect("the kernels fit the device");
        calls_are_timed(device);
        errors_of_calls_are_passed_on(device);
        what_kernels_use_is_known(device);
    });
}

fn calls_are_timed(device: &Device) {
    let places = device
        .allocate(u64::from(THREADS) * 8)
        .expect("there is memory");
    let request = Request {
        blocks: places.address(),
        sizes: 0,
        bytes: 16,
        count: u64::from(THREADS),
    };
    // SAFETY: there is a place for each thread.
    let launch = || unsafe { device.launch::<StoreFloor>(Grid::of(THREADS), &request) };
    let time = |launches: u32| {
        let calls = || (0..launches).try_for_each(|_| launch());
        device.time_calls(calls).expect("they run")
    };
    let best = |launches| (0..5).map(|_| time(launches)).fold(f64::INFINITY, f64::min);
    let (once, often) = (best(1), best(50));
    assert!(once > 0.0 && often > 5.0 * once, "{once} {often}");
    let places = places.read::<u64>(0, 3).expect("it can be read");
    assert_eq!(places, [0, 16, 32]);
}

fn errors_of_calls_are_passed_on(device: &Device) {
    let failed = device.time_calls(|| Err(Error::RegionLost));
    assert!(matches!(failed, Err(Error::RegionLost)));
}

fn what_kernels_use_is_known(device: &Device) {
    let found = device
        .kernel_use::<AllocateUniform>()
        .expect("the kernel is loaded");
    assert_eq!(found.is_some(), device.is_gpu());
    if let Some(found) = found {
        assert!((1..=40).contains(&found.registers), "{found:?}");
        // The stack of what it calls; its own is none, see `tests/ptx.rs`.
        assert!((1..=4096).contains(&found.local_bytes), "{found:?}");
    }
}
