//! The devices that tests run on: the CPU, and every GPU there is, with the kernels loaded.

use scatterheap::{Device, Selector};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Threads of the CPU device: more than most machines have cores, so that they interleave.
const CPU_THREADS: u32 = 8;

/// One test at a time uses the GPUs: each has one global heap.
static GPUS_IN_USE: Mutex<()> = Mutex::new(());

/// Runs a test on the CPU and on every GPU. Says that it was skipped if there is none.
pub fn for_each_device(name: &str, test: impl Fn(&Device)) {
    let device = Device::cpu_with_threads(CPU_THREADS);
    println!("on {device}");
    test(&device);
    for_each_gpu(name, test);
}

/// Runs a test on every GPU. Says that it was skipped if there is none.
pub fn for_each_gpu(name: &str, test: impl Fn(&Device)) {
    let devices = gpus();
    if devices.is_empty() {
        println!("skipped: {name} on a GPU (no GPU found, or built without the feature `cuda`)");
        return;
    }
    let _guard = GPUS_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    for device in devices {
        println!("on {device}");
        test(device);
    }
}

/// The GPUs, opened once: that compiles the kernels.
fn gpus() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let open = |ordinal| {
            let selector = Selector::Cuda(ordinal);
            scatterheap_collections::open(&selector).expect("the GPU can be opened")
        };
        (0..Device::gpu_count()).map(open).collect()
    })
}
