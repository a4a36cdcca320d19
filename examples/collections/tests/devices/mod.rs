//! The devices that tests run on: the CPU, and every GPU there is, with the kernels loaded.

use scatterheap::{Device, Selector};
use std::process::Command;
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
        if device.is_lost() && device.recover().is_err() {
            println!("on {device}, in a process of its own: an earlier test lost it");
            return test_in_own_process(name);
        }
        println!("on {device}");
        test(device);
    }
}

/// Runs the calling test once more, in a process that can have the GPUs: after a kernel's fault drivers do not give a GPU
/// back to the process, and one test's fault is no other's.
fn test_in_own_process(name: &str) {
    let thread = std::thread::current();
    // The harness names threads after their tests, unless it runs one test at a time.
    let test = thread.name().filter(|test| *test != "main");
    let test = test.unwrap_or_else(|| {
        panic!("{name} was not run: an earlier test lost the GPU; run this test alone")
    });
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .output()
        .expect("it starts");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    print!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} failed");
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
