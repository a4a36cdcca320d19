//! All the memory that there is: handed out, given back, and none left over.

use crate::suite::content::{fill, is_intact};
use crate::suite::table::{Made, Resource, Subject, give_back, live};
use scatterheap_host::resource::{DevicePointer, MemoryResource};
use scatterheap_host::{Device, Stream};

/// Allocates blocks until there is no more.
pub fn exhaust(resource: &Resource, bytes: u64, stream: &Stream) -> Vec<DevicePointer> {
    let mut blocks = Vec::new();
    loop {
        match resource.allocate(bytes, 256, stream) {
            Ok(block) => blocks.push(block),
            Err(error) => {
                assert!(error.is_out_of_memory(), "{error}");
                return blocks;
            }
        }
    }
}

pub fn growth_exhaustion_and_recovery(subject: &Subject, device: &Device) {
    let Made { resource, .. } = subject.make(device);
    let stream = Stream::new(device).expect("a stream");
    let mut before = 0;
    for _ in 0..3 {
        let blocks = exhaust(&resource, subject.unit, &stream);
        let bytes = blocks.len() as u64 * subject.unit;
        assert!(bytes >= subject.room, "{bytes} of {}", subject.room);
        assert!(bytes >= before, "{bytes} after {before}");
        before = bytes;
        for block in blocks {
            give_back(&resource, block, subject.unit, 256, &stream).expect("handed out");
        }
    }
    // Memory of one size serves any other.
    if subject.name != "BlockPool" {
        let large = subject.most_bytes;
        let block = resource
            .allocate(large, 256, &stream)
            .expect("merged, or given back");
        give_back(&resource, block, large, 256, &stream).expect("handed out");
    }
    assert_eq!(live(&resource), (0, 0));
}

pub fn trimmed_and_dropped_resources_give_their_memory_back(subject: &Subject, device: &Device) {
    let Made { resource, upstream } = subject.make(device);
    let stream = Stream::new(device).expect("a stream");
    let other = Stream::new(device).expect("a stream");
    let owns_itself = subject.name.starts_with("DeviceMemory");
    let bytes = 5000.min(subject.most_bytes);
    let mut blocks: Vec<_> = (0..20)
        .map(|_| resource.allocate(bytes, 256, &stream).expect("memory"))
        .collect();
    for block in blocks.drain(7..) {
        give_back(&resource, block, bytes, 256, &other).expect("handed out");
    }
    resource.trim().expect("trimmed");
    assert_eq!(live(&resource), (7, 7 * bytes));
    for block in blocks.drain(3..) {
        fill(&stream, block, bytes, 5);
        assert!(is_intact(&stream, block, bytes, 5));
        give_back(&resource, block, bytes, 256, &other).expect("handed out");
    }
    assert_eq!(live(&resource), (3, 3 * bytes));
    drop(resource);
    assert_eq!(upstream.live().blocks, if owns_itself { 3 } else { 0 });
}
