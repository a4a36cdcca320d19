//! The devices that the suite runs on: the CPU, and the first GPU if there is one.

use scatterheap_host::Device;

/// A kernel that takes its time before it writes, for streams that must wait.
#[cfg(feature = "cuda")]
const PTX: &str = include_str!("slow_write.ptx");

pub fn devices() -> Vec<Device> {
    #[cfg(feature = "cuda")]
    if Device::gpu_count() > 0 {
        let gpu = Device::cuda(0, &[]).expect("a GPU");
        gpu.load_module(PTX).expect("PTX");
        return vec![Device::cpu(), gpu];
    }
    println!("skipped: memory resources on a GPU (no GPU found)");
    vec![Device::cpu()]
}
