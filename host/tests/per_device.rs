//! Several devices: each has its resource, and memory of one is none of the other's.

#![cfg(target_os = "linux")]

#[path = "conformance/content.rs"]
mod content;

use content::{fill, is_intact};
use scatterheap_host::resource::{Caching, Error, MemoryResource, PerDevice, Remapping};
use scatterheap_host::{Device, Stream};

/// Sets of devices: several of the CPU, and the first two GPUs if there are so many.
fn sets() -> Vec<Vec<Device>> {
    let cpus = (2..5).map(Device::cpu_with_threads).collect();
    #[cfg(feature = "cuda")]
    if Device::gpu_count() > 1 {
        let gpus = (0..2).map(|number| Device::cuda(number, &[]).expect("a GPU"));
        return vec![cpus, gpus.collect()];
    }
    eprintln!("skipped: several GPUs");
    vec![cpus]
}

fn made(devices: &[Device]) -> PerDevice<Caching<Remapping>> {
    let make = |device: &Device| {
        Ok(Caching::new(
            Remapping::builder(device).most(64 << 20).build()?,
        ))
    };
    PerDevice::new(devices, make).expect("addresses")
}

#[test]
fn each_stream_gets_memory_of_its_device() {
    for devices in sets() {
        let memory = made(&devices);
        memory.connect().expect("peers");
        memory.connect().expect("again does no harm");
        let mut blocks = Vec::new();
        for (seed, device) in devices.iter().enumerate() {
            let stream = Stream::new(device).expect("a stream");
            let block = memory.allocate(5000, 256, &stream).expect("memory");
            fill(&stream, block, 5000, seed as u64);
            assert_eq!(memory.of(device).expect("there").live().blocks, 1);
            assert_eq!(device.usage().bytes, 2 << 20);
            blocks.push((block, stream));
        }
        assert_eq!(memory.live().blocks, devices.len() as u64);
        // What is mapped can be read by the peers.
        for (seed, (block, _)) in blocks.iter().enumerate() {
            for (_, stream) in &blocks {
                assert!(is_intact(stream, *block, 5000, seed as u64));
            }
        }
        for (index, (block, stream)) in blocks.iter().enumerate() {
            let (_, other) = &blocks[(index + 1) % blocks.len()];
            // SAFETY: nothing uses it, here and below.
            let wrong = unsafe { memory.deallocate(*block, 5000, 256, other) };
            assert!(matches!(wrong, Err(Error::ForeignPointer(..))), "{wrong:?}");
            // SAFETY: as above.
            let freed = unsafe { memory.deallocate(*block, 5000, 256, stream) };
            freed.expect("handed out");
        }
        assert_eq!(memory.live().blocks, 0);
        assert_eq!(
            memory.trim().expect("trimmed"),
            (devices.len() as u64) << 21
        );
    }
}

#[test]
fn a_device_that_is_not_in_the_set_is_an_error() {
    let devices: Vec<_> = (2..4).map(Device::cpu_with_threads).collect();
    let memory = made(&devices);
    let elsewhere = Stream::new(&Device::cpu_with_threads(7)).expect("a stream");
    let refused = memory.allocate(100, 256, &elsewhere);
    assert!(
        matches!(refused, Err(Error::WrongDevice { .. })),
        "{refused:?}"
    );
    let of_one = memory.of(&devices[0]).expect("there");
    let other = Stream::new(&devices[1]).expect("a stream");
    let refused = of_one.allocate(100, 256, &other);
    assert!(
        matches!(refused, Err(Error::WrongDevice { .. })),
        "{refused:?}"
    );
    for bad in [vec![], vec![devices[0].clone(), devices[0].clone()]] {
        let refused = PerDevice::new(&bad, |device| Ok(Caching::of(device)));
        assert!(
            matches!(refused, Err(Error::BadSettings { .. })),
            "{refused:?}"
        );
    }
}
