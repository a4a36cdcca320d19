//! The devices that tests run on: the CPU, and every GPU there is, one after another or several at once.

#![allow(dead_code, reason = "each test file uses its part")]

use scatterheap::{Device, Selector, open};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Threads of the CPU device: more than most machines have cores, so that they interleave.
const CPU_THREADS: u32 = 8;

/// One test at a time uses the GPUs: they share memory, and a fault takes everything with it.
static GPUS_IN_USE: Mutex<()> = Mutex::new(());

/// Runs a test on the CPU and on every GPU.
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
        println!("skipped: {name} on a GPU ({})", why_no_gpu());
        return;
    }
    let _guard = GPUS_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    for device in devices {
        println!("on {device}");
        // A test that failed before may have left it lost.
        device.recover().expect("the GPU can be recovered");
        test(device);
    }
}

/// Runs a test on several devices of the CPU, and on all GPUs if there are several. Says that it was skipped if not.
pub fn for_several_devices(name: &str, test: impl Fn(&[Device])) {
    let cpus: Vec<_> = (CPU_THREADS - 2..=CPU_THREADS)
        .map(Device::cpu_with_threads)
        .collect();
    println!("on {} devices of the CPU", cpus.len());
    test(&cpus);
    let gpus = gpus();
    if gpus.len() < 2 {
        println!("skipped: {name} on several GPUs ({} found)", gpus.len());
        return;
    }
    let _guard = GPUS_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    println!("on {} GPUs", gpus.len());
    test(gpus);
}

/// The GPUs, opened once: that compiles the kernels.
pub fn gpus() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        (0..Device::gpu_count())
            .map(|ordinal| open(&Selector::Cuda(ordinal)).expect("the GPU can be opened"))
            .collect()
    })
}

fn why_no_gpu() -> &'static str {
    if cfg!(not(feature = "cuda")) {
        "built without the feature `cuda`"
    } else if Device::driver_version().is_none() {
        "no NVIDIA driver found"
    } else {
        "no GPU found"
    }
}
