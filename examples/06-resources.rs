//! Memory that the host allocates: a cache with a limit, statistics and a report of leaks, a scope
//! that frees in bulk, and a buffer that grows in place.
//!
//! `cargo run --example 06-resources` runs on the CPU, `… -- --device cuda:0` on a GPU.

mod device;

use anyhow::Result;
use scatterheap::Stream;
use scatterheap::resource::{
    Arena, Caching, DeviceMemory, DeviceVec, GrowableBuffer, Limiting, MemoryResource, Segments,
    Statistics, Tracking,
};
use scatterheap::size::Bytes;
use std::sync::Arc;

fn main() -> Result<()> {
    let device = device::from_command_line()?;
    let stream = Stream::new(&device)?;

    // Resources are put together from the bottom: at most 256 MiB of the device's memory, cut into
    // segments, cached, and watched.
    let bottom = Limiting::new(DeviceMemory::new(&device), 256 << 20);
    let cache = Arc::new(Caching::new(Segments::new(bottom)));
    let memory = Arc::new(Statistics::new(Tracking::new(cache.clone())));

    for step in 0..100_u32 {
        // Each is given back when it is dropped, and the next step gets it from the cache.
        let inputs = DeviceVec::from_slice(memory.clone(), &stream, &vec![step; 1 << 12])?;
        let outputs = DeviceVec::<u32>::zeroed(memory.clone(), &stream, 1 << 14)?;
        assert_eq!(inputs.read(17, 1)?, [step]);
        assert_eq!(outputs.len(), 1 << 14);
    }
    let (counts, usage) = (memory.counts(), cache.usage());
    println!(
        "{} allocations of {} on {device}: {} found in the cache, {} at most at once",
        counts.allocations,
        Bytes(counts.total_bytes),
        usage.hits,
        Bytes(counts.peak_bytes)
    );
    assert_eq!((counts.bytes, usage.misses), (0, 2));

    let forgotten = memory.allocate(3000, 256, &stream)?;
    let report = memory.upstream().report();
    println!(
        "forgotten: {} at {}",
        Bytes(report.0[0].bytes),
        report.0[0].pointer
    );
    // SAFETY: nothing uses it.
    unsafe { memory.deallocate(forgotten, 3000, 256, &stream) }?;
    // SAFETY: nobody got a block since, so that it is nobody's, and refused.
    let twice = unsafe { memory.deallocate(forgotten, 3000, 256, &stream) };
    println!("freed twice: {}", twice.expect_err("is refused"));

    let mut arena = Arena::new(&device, 1 << 30)?;
    for _ in 0..3 {
        let scope = arena.scope();
        scope.allocate(5 << 20, 256, &stream)?;
        scope.allocate(7 << 20, 256, &stream)?;
    }
    println!(
        "three scopes in {} of memory, of which {} are used now",
        Bytes(arena.committed()),
        Bytes(arena.used())
    );

    let mut buffer = GrowableBuffer::<u64>::reserve(&device, 1 << 27)?;
    buffer.grow(1000)?;
    let address = buffer.pointer();
    buffer.write(&stream, 999, &[42])?;
    buffer.grow(1 << 20)?;
    assert_eq!(
        (buffer.pointer(), buffer.read(&stream, 999, 1)?),
        (address, vec![42])
    );
    println!(
        "a buffer grew from 1000 to {} values at {address}",
        buffer.len()
    );
    Ok(())
}
