//! Work on streams, and memory that is not to be taken from under it.

use crate::suite::capacity::exhaust;
use crate::suite::kernel::slow_write;
use crate::suite::table::{Made, Subject, give_back, live};
use scatterheap_host::resource::{DevicePointer, GrowableBuffer, MemoryResource};
use scatterheap_host::{Device, Stream};

/// What is freed, trimmed, shrunk or dropped is not taken from under a kernel that uses it.
pub fn memory_is_not_given_back_under_work_that_runs(subject: &Subject, device: &Device) {
    let Made { resource, upstream } = subject.make(device);
    let streams = [(); 2].map(|()| Stream::new(device).expect("a stream"));
    let blocks: Vec<_> = (0..6)
        .map(|index| {
            let stream = &streams[index % 2];
            let block = resource
                .allocate(subject.unit, 256, stream)
                .expect("memory");
            slow_write(stream, block, 256, 1, 5_000_000);
            (block, stream)
        })
        .collect();
    for (block, stream) in &blocks[2..] {
        give_back(&resource, *block, subject.unit, 256, stream).expect("handed out");
    }
    resource.trim().expect("trimmed");
    for (block, stream) in &blocks[..2] {
        slow_write(stream, *block, 256, 2, 5_000_000);
    }
    drop((resource, upstream));
    device.synchronize().expect("no fault");
}

pub fn a_growable_buffer_is_not_given_back_under_work_that_runs(device: &Device) {
    let stream = Stream::new(device).expect("a stream");
    let mut buffer = GrowableBuffer::<u32>::reserve(device, 1 << 26).expect("addresses");
    for length in [1 << 10, 1 << 22] {
        buffer.grow(length).expect("memory");
        slow_write(&stream, buffer.pointer(), 1 << 10, 3, 5_000_000);
    }
    let last = buffer.pointer().address() + (4 << 21);
    let last = DevicePointer::new(last).expect("not null");
    slow_write(&stream, last, 256, 4, 5_000_000);
    buffer.shrink(1 << 10).expect("unmapped");
    assert_eq!(
        buffer.read(&stream, 0, 1 << 10).expect("within"),
        [3; 1 << 10]
    );
    slow_write(&stream, buffer.pointer(), 256, 5, 5_000_000);
    drop(buffer);
    device.synchronize().expect("no fault");
}

pub fn more_streams_than_a_resource_tells_apart(subject: &Subject, device: &Device) {
    let Made { resource, .. } = subject.make(device);
    let streams: Vec<_> = (0..80)
        .map(|_| Stream::new(device).expect("a stream"))
        .collect();
    let mut blocks = Vec::new();
    for (index, stream) in streams.iter().enumerate() {
        blocks.push(resource.allocate(3000, 256, stream).expect("memory"));
        if index % 2 == 1 {
            let other = &streams[79 - index];
            let block = blocks.swap_remove(0);
            give_back(&resource, block, 3000, 256, other).expect("handed out");
        }
    }
    assert_eq!(live(&resource).0, blocks.len() as u64);
    for (block, stream) in blocks.into_iter().zip(&streams) {
        give_back(&resource, block, 3000, 256, stream).expect("handed out");
    }
    assert_eq!(live(&resource), (0, 0));
}

/// A block is freed on a stream whose kernel still writes to it, and allocated on another, whose
/// kernel writes something else. The first must not write last. All memory is taken, so that there
/// is no other place for the second block.
pub fn a_block_is_not_used_again_before_the_work_on_it_is_done(subject: &Subject, device: &Device) {
    let Made { resource, .. } = subject.make(device);
    let streams = [(); 2].map(|()| Stream::new(device).expect("a stream"));
    let [slow, fast] = &streams;
    let blocks = exhaust(&resource, subject.unit, slow);
    let (bytes, mut block) = (subject.unit, blocks[blocks.len() - 1]);
    for value in 1..5 {
        let (taker, giver) = if value % 2 == 0 {
            (slow, fast)
        } else {
            (fast, slow)
        };
        slow_write(giver, block, 256, 77, 20_000_000);
        give_back(&resource, block, bytes, 256, giver).expect("handed out");
        let again = resource.allocate(bytes, 256, taker).expect("there is one");
        // The system's allocator may have another place.
        let may_move = ["DeviceMemory", "DriverPool", "Caching"].contains(&subject.name.as_str());
        assert!(again == block || may_move, "there is one block only");
        slow_write(taker, again, 256, value, 0);
        device.synchronize().expect("no fault");
        // SAFETY: the block is handed out.
        let memory = unsafe { device.adopt(again.address(), bytes) };
        assert_eq!(memory.read::<u32>(0, 256).expect("within"), [value; 256]);
        block = again;
    }
}
