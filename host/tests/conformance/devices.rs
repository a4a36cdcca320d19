//! The devices that the suite runs on: the CPU, and the first GPU if there is one.

use scatterheap_host::Device;

/// A kernel that takes its time before it writes, for streams that must wait.
#[cfg(feature = "cuda")]
const PTX: &str = include_str!("slow_write.ptx");

/// The devices. If there is no GPU, a line says what is skipped.
pub fn devices() -> Vec<Device> {
    let found = found();
    if !found.iter().any(Device::is_gpu) {
        println!("skipped: memory resources on a GPU (no GPU found)");
    }
    found
}

/// The devices, without a word.
pub fn found() -> Vec<Device> {
    #[cfg(feature = "cuda")]
    if Device::gpu_count() > 0 {
        let gpu = Device::cuda(0, &[]).expect("a GPU");
        gpu.load_module(PTX).expect("PTX");
        return vec![Device::cpu(), gpu];
    }
    vec![Device::cpu()]
}
