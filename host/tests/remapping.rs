//! Memory that is free in the wrong places is mapped to the right one.

#![cfg(target_os = "linux")]

#[path = "conformance/content.rs"]
mod content;
#[path = "conformance/devices.rs"]
mod devices;
#[path = "conformance/giving.rs"]
mod giving;
#[path = "conformance/kernel.rs"]
mod kernel;
#[path = "conformance/random.rs"]
mod random;

use content::{fill, is_intact};
use giving::give_back;
use kernel::slow_write;
use random::Random;
use scatterheap_host::resource::{DevicePointer, Error, MemoryResource, Remapping};
use scatterheap_host::{Device, Stream};

const MIB: u64 = 1 << 20;

fn remapping(device: &Device, most: u64) -> (Remapping, Stream) {
    let stream = Stream::new(device).expect("a stream");
    let memory = Remapping::builder(device).most(most).build();
    (memory.expect("addresses"), stream)
}

#[test]
fn alternate_granules_are_half_of_the_memory() {
    for device in devices::devices() {
        let (memory, stream) = remapping(&device, 128 * MIB);
        let granule = memory.granule();
        let count = memory.most() / granule;
        let mut blocks: Vec<DevicePointer> = Vec::new();
        for seed in 0..count {
            let block = memory.allocate(granule, 256, &stream).expect("memory");
            fill(&stream, block, granule, seed);
            blocks.push(block);
        }
        let full = memory.allocate(1, 256, &stream);
        assert!(matches!(full, Err(Error::OutOfMemory { .. })), "{full:?}");
        for block in blocks.iter().step_by(2) {
            give_back(&memory, *block, granule, 256, &stream).expect("handed out");
        }
        assert_eq!(memory.fragmentation().largest_free, granule);
        let half = memory.most() / 2;
        let large = memory
            .allocate(half, 256, &stream)
            .expect("half of it is free");
        fill(&stream, large, half, 1000);
        assert_eq!(memory.stitches(), 1);
        for (seed, block) in blocks.iter().enumerate().skip(1).step_by(2) {
            assert!(is_intact(&stream, *block, granule, seed as u64));
        }
        assert!(is_intact(&stream, large, half, 1000));
        assert_eq!(memory.fragmentation().reserved, memory.most());
        give_back(&memory, large, half, 256, &stream).expect("handed out");
        assert_eq!(memory.trim().expect("trimmed"), half);
        assert_eq!(device.usage().bytes, half);
        drop(memory);
        assert_eq!(device.usage().bytes, 0);
    }
}

/// Parts are freed on a stream whose kernel still writes to them, and put together for another stream. The first
/// must not write last.
#[test]
fn a_stitched_block_waits_for_the_work_on_its_parts() {
    for device in devices::devices() {
        let (memory, slow) = remapping(&device, 32 * MIB);
        let fast = Stream::new(&device).expect("a stream");
        let granule = memory.granule();
        let blocks: Vec<_> = (0..memory.most() / granule)
            .map(|_| memory.allocate(granule, 256, &slow).expect("memory"))
            .collect();
        for block in blocks.iter().step_by(2) {
            slow_write(&slow, *block, 256, 77, 5_000_000);
            give_back(&memory, *block, granule, 256, &slow).expect("handed out");
        }
        let half = memory.most() / 2;
        let large = memory.allocate(half, 256, &fast).expect("half is free");
        let parts = (0..half / granule).map(|index| large.address() + index * granule);
        let parts: Vec<_> = parts.filter_map(DevicePointer::new).collect();
        for part in &parts {
            slow_write(&fast, *part, 256, 5, 0);
        }
        device.synchronize().expect("no fault");
        for part in &parts {
            // SAFETY: the block is handed out, and has this part.
            let part = unsafe { device.adopt(part.address(), granule) };
            assert_eq!(part.read::<u32>(0, 256).expect("within"), [5; 256]);
        }
        // Freed while its kernel runs, and taken apart again.
        slow_write(&fast, large, 256, 6, 5_000_000);
        give_back(&memory, large, half, 256, &fast).expect("handed out");
        let again = memory.allocate(granule, 256, &slow).expect("memory");
        slow_write(&slow, again, 256, 7, 0);
        assert!(memory.trim().expect("trimmed") > 0);
        device.synchronize().expect("no fault");
        // SAFETY: the block is handed out.
        let again = unsafe { device.adopt(again.address(), granule) };
        assert_eq!(again.read::<u32>(0, 256).expect("within"), [7; 256]);
    }
}

/// Blocks of any size come and go while 5 % of the memory is free, and none is refused.
#[test]
fn nothing_is_refused_while_a_twentieth_is_free() {
    for device in devices::devices() {
        let granule = if device.is_gpu() { 2 * MIB } else { MIB / 16 };
        let (stream, most) = (Stream::new(&device).expect("a stream"), 4096 * granule);
        let memory = Remapping::builder(&device).granule(granule).most(most);
        let memory = memory.build().expect("addresses");
        let (mut random, mut blocks, mut used) = (Random(3), Vec::new(), 0);
        let rounds = if device.is_gpu() { 3000 } else { 20_000 };
        for seed in 0..rounds {
            let bytes = random.size(256 * granule);
            while used + bytes > most / 100 * 95 {
                let index = random.below(blocks.len() as u64);
                let (block, bytes, seed) = blocks.swap_remove(usize::try_from(index).unwrap_or(0));
                if seed % 16 == 0 {
                    assert!(is_intact(&stream, block, bytes, seed));
                }
                give_back(&memory, block, bytes, 256, &stream).expect("handed out");
                used -= bytes.next_multiple_of(256);
            }
            let block = memory.allocate(bytes, 256, &stream);
            let block = block.expect("a twentieth is free");
            if seed % 16 == 0 {
                fill(&stream, block, bytes, seed);
            }
            used += bytes.next_multiple_of(256);
            blocks.push((block, bytes, seed));
        }
        assert!(memory.stitches() > 0);
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let device = Device::cpu();
    for most in [0, 1000, u64::MAX] {
        let refused = Remapping::builder(&device).most(most).build();
        assert!(
            matches!(refused, Err(Error::BadSettings { .. })),
            "{refused:?}"
        );
    }
    let rounded = Remapping::builder(&device).granule(3 * MIB).build();
    assert_eq!(rounded.expect("made so").granule(), 4 * MIB);
}

#[test]
fn a_hole_among_the_addresses_refuses_nothing() {
    for device in devices::devices() {
        let (memory, stream) = remapping(&device, 256 * MIB);
        let granule = memory.granule();
        let allocate = |granules| memory.allocate(granules * granule, 256, &stream);
        let halves = [(); 2].map(|()| memory.allocate(granule / 2, 256, &stream).expect("memory"));
        let [hole, last] = [(); 2].map(|()| allocate(1).expect("memory"));
        let free = |block, bytes| {
            let freed = give_back(&memory, block, bytes, 256, &stream);
            freed.expect("handed out");
        };
        free(hole, granule);
        assert_eq!(memory.trim().expect("trimmed"), granule);
        // The free half lies before the hole, which has no room for the rest.
        free(halves[1], granule / 2);
        let bytes = 5 * granule / 2;
        let large = memory.allocate(bytes, 256, &stream);
        free(large.expect("nearly all is left"), bytes);
        free(last, granule);
        free(halves[0], granule / 2);
    }
}
