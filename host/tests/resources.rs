//! What each resource and adaptor does beyond what all of them promise, which is in `conformance.rs`.

#![cfg(target_os = "linux")]

#[path = "conformance/giving.rs"]
mod giving;

use giving::give_back;
use parking_lot::Mutex;
use scatterheap_host::resource::{
    Arena, BlockPool, BySize, Caching, Configuration, DeviceBox, DeviceMemory, DeviceVec,
    DriverPool, Error, Fallback, GrowableBuffer, Limiting, Live, Logging, MemoryResource,
    OnFailure, Remapping, Segments, Slab, Statistics, Tracking, Upstream,
};
use scatterheap_host::{Device, Stream};
use scatterheap_trace::csv_format;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: u64 = 1 << 20;

fn cpu() -> (Device, Stream) {
    let device = Device::cpu();
    let stream = Stream::new(&device).expect("a stream");
    (device, stream)
}

#[test]
fn a_block_that_is_larger_by_little_serves_too() {
    let (device, stream) = cpu();
    let memory = Caching::new(Segments::new(DeviceMemory::new(&device)));
    let allocate = |bytes| memory.allocate(bytes, 256, &stream).expect("memory");
    let free = |block, bytes| give_back(&memory, block, bytes, 256, &stream);
    let (little, more, much) = (1 << 20, (1 << 20) + 1, (1 << 20) + (1 << 17));
    let block = allocate(more);
    free(block, more).expect("handed out");
    assert_eq!(allocate(little), block);
    let refused = free(block, more).expect_err("other bytes");
    assert!(
        matches!(refused, Error::WrongSize { had: (bytes, 256), .. } if bytes == little),
        "{refused}"
    );
    free(block, little).expect("handed out");
    free(block, little).expect_err("freed twice");
    // It is still as large as it was.
    assert_eq!(allocate(more), block);
    let other = allocate(much);
    free(other, much).expect("handed out");
    assert_ne!(allocate(little), other, "too large by far");
    assert_eq!(memory.usage().hits, 2);
}

#[test]
fn a_cache_gives_the_same_block_again_and_counts() {
    let (device, stream) = cpu();
    let memory = Caching::of(&device);
    let first = memory.allocate(1000, 256, &stream).expect("memory");
    give_back(&memory, first, 1000, 256, &stream).expect("handed out");
    // The same class, other bytes.
    let second = memory.allocate(1020, 256, &stream).expect("memory");
    assert_eq!(first, second);
    let usage = memory.usage();
    assert_eq!(
        (usage.hits, usage.misses, usage.kept, usage.waits),
        (1, 1, 0, 0)
    );
    give_back(&memory, second, 1020, 256, &stream).expect("handed out");
    assert_eq!(memory.usage().kept, 1024);
    assert_eq!(device.usage().bytes, 2 * MIB);
    assert!(memory.trim().expect("trimmed") >= 2 * MIB);
    assert_eq!((memory.usage().kept, device.usage().bytes), (0, 0));
}

#[test]
fn a_cache_lets_a_stream_wait_only_for_what_another_freed() {
    let (device, one) = cpu();
    let two = Stream::new(&device).expect("a stream");
    let memory = Caching::builder(DeviceMemory::new(&device)).bytes_per_thread(0);
    let memory = memory.build().expect("good settings");
    let block = memory.allocate(5000, 256, &one).expect("memory");
    give_back(&memory, block, 5000, 256, &one).expect("handed out");
    assert_eq!(memory.allocate(5000, 256, &one).expect("memory"), block);
    assert_eq!(memory.usage().waits, 0);
    give_back(&memory, block, 5000, 256, &one).expect("handed out");
    assert_eq!(memory.allocate(5000, 256, &two).expect("memory"), block);
    assert_eq!(memory.usage().waits, 1);
    give_back(&memory, block, 5000, 256, &two).expect("handed out");
}

#[test]
fn blocks_of_streams_that_are_gone_are_used_again() {
    let (device, _) = cpu();
    let memory = Caching::new(Statistics::new(DeviceMemory::new(&device)));
    for _ in 0..200 {
        let stream = Stream::new(&device).expect("a stream");
        let block = memory.allocate(MIB, 256, &stream).expect("memory");
        give_back(&memory, block, MIB, 256, &stream).expect("handed out");
    }
    assert!(memory.upstream().counts().allocations < 12);
    assert!(memory.usage().waits > 180);
}

#[test]
fn a_warm_cache_does_not_ask_its_upstream() {
    let (device, stream) = cpu();
    let memory = Caching::new(Statistics::new(DeviceMemory::new(&device)));
    memory
        .warm_up(&[(4096, 40), (MIB, 3)], &stream)
        .expect("memory");
    assert_eq!(memory.upstream().counts().allocations, 43);
    let small = memory
        .allocate_batch(40, 4000, 256, &stream)
        .expect("memory");
    let large = memory.allocate_batch(3, MIB, 256, &stream).expect("memory");
    assert_eq!(memory.upstream().counts().allocations, 43);
    for (blocks, bytes) in [(small, 4000), (large, MIB)] {
        for block in blocks {
            give_back(&memory, block, bytes, 256, &stream).expect("handed out");
        }
    }
    assert_eq!(memory.upstream().counts().allocations, 43);
    let refused = memory.warm_up(&[(4 << 30, 1)], &stream);
    assert!(
        matches!(refused, Err(Error::TooLarge { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_batch_is_allocated_whole_or_not_at_all() {
    let (device, stream) = cpu();
    let memory = Caching::new(Limiting::new(DeviceMemory::new(&device), MIB));
    let refused = memory.allocate_batch(17, 64 << 10, 256, &stream);
    assert!(refused.expect_err("16 fit").is_out_of_memory());
    assert_eq!(memory.live().blocks, 0);
    let blocks = memory
        .allocate_batch(16, 64 << 10, 256, &stream)
        .expect("memory");
    assert_eq!(blocks.len(), 16);
}

#[test]
fn memory_that_another_thread_keeps_is_not_missed() {
    let (device, stream) = cpu();
    let memory = Caching::new(Limiting::new(DeviceMemory::new(&device), 4 * MIB));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let blocks = memory.allocate_batch(4, MIB, 256, &stream).expect("memory");
            for block in blocks {
                give_back(&memory, block, MIB, 256, &stream).expect("handed out");
            }
        });
    });
    assert_eq!(memory.usage().kept, 4 * MIB);
    let block = memory
        .allocate(3 * MIB, 256, &stream)
        .expect("given back by the cache");
    give_back(&memory, block, 3 * MIB, 256, &stream).expect("handed out");
}

/// Each thread has a block of at most 128 KiB, so of 4 MiB there are always 3 MiB free, in 9 places at
/// most. What other threads keep must be found, also while others look for it.
#[test]
fn no_thread_fails_while_others_keep_memory() {
    let (device, _) = cpu();
    let upstream = Limiting::new(DeviceMemory::new(&device), 4 * MIB);
    let memory = Caching::new(Segments::with_segments_of(upstream, 4 * MIB));
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (memory, device) = (&memory, &device);
            scope.spawn(move || {
                let stream = Stream::new(device).expect("a stream");
                for round in 0..3000 {
                    let bytes = 1 + (round * 7919 + thread * 104_729) % (112 << 10);
                    let block = memory
                        .allocate(bytes, 256, &stream)
                        .expect("3 MiB are free");
                    give_back(&memory, block, bytes, 256, &stream).expect("handed out");
                }
            });
        }
    });
    assert_eq!(memory.live().blocks, 0);
}

#[test]
fn an_arena_frees_scopes_in_bulk() {
    let (device, stream) = cpu();
    let mut arena = Arena::new(&device, 64 * MIB).expect("addresses");
    assert_eq!(
        (arena.used(), arena.committed(), arena.reserved()),
        (0, 0, 64 * MIB)
    );
    let before = arena.allocate(1000, 256, &stream).expect("memory");
    let freed = {
        let mut scope = arena.scope();
        let outer = scope.allocate(MIB, 256, &stream).expect("memory");
        let inner = scope
            .scope()
            .allocate(2 * MIB, 256, &stream)
            .expect("memory");
        let again = scope.allocate(MIB, 256, &stream).expect("memory");
        assert_eq!(again, inner);
        // A block from before a scope can be freed in it.
        give_back(&scope, before, 1000, 256, &stream).expect("handed out");
        outer
    };
    assert_eq!((arena.used(), arena.live().blocks), (0, 0));
    assert!(arena.committed() >= 3 * MIB);
    let twice = give_back(&arena, freed, MIB, 256, &stream);
    assert!(matches!(twice, Err(Error::DoubleFree(..))), "{twice:?}");
    assert_eq!(arena.allocate(10, 256, &stream).expect("memory"), before);
    arena.reset();
    assert_eq!((arena.used(), arena.live().blocks), (0, 0));
    assert!(arena.trim().expect("trimmed") >= 3 * MIB);
    assert_eq!(arena.committed(), 0);
}

#[test]
fn an_arena_uses_the_end_again_when_all_there_is_free() {
    let (device, stream) = cpu();
    let arena = Arena::new(&device, MIB).expect("addresses");
    let blocks = [(); 3].map(|()| arena.allocate(256, 256, &stream).expect("memory"));
    give_back(&arena, blocks[1], 256, 256, &stream).expect("handed out");
    assert_eq!(arena.used(), 768);
    give_back(&arena, blocks[2], 256, 256, &stream).expect("handed out");
    assert_eq!(arena.used(), 256);
    assert_eq!(
        arena.allocate(256, 256, &stream).expect("memory"),
        blocks[1]
    );
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let (device, _) = cpu();
    let memory = || DeviceMemory::new(&device);
    let other = DeviceMemory::new(&Device::cpu_with_threads(3));
    let refused = [
        BlockPool::new(memory(), 0, 10).err(),
        BlockPool::new(memory(), 10, 0).err(),
        BlockPool::new(memory(), u64::MAX, 2).err(),
        BlockPool::new(memory(), 1 << 40, 1 << 40).err(),
        scatterheap_host::resource::Buddy::new(memory(), 0).err(),
        Arena::new(&device, 0).err(),
        Arena::new(&device, u64::MAX).err(),
        Caching::builder(memory()).largest(0).build().err(),
        Fallback::new(memory(), other).err(),
        GrowableBuffer::<u32>::reserve(&device, 0).err(),
        GrowableBuffer::<u64>::reserve(&device, usize::MAX).err(),
    ];
    for error in refused {
        let error = error.expect("makes no sense");
        assert!(matches!(error, Error::BadSettings { .. }), "{error}");
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn a_slab_gives_empty_slabs_of_one_class_to_another() {
    let (device, stream) = cpu();
    let slab = Slab::new(Limiting::new(DeviceMemory::new(&device), 2 * MIB));
    let small: Vec<_> = (0..2 * MIB / 256)
        .map(|_| slab.allocate(200, 256, &stream).expect("memory"))
        .collect();
    let full = slab.allocate(64 << 10, 256, &stream);
    assert!(full.expect_err("all is taken").is_out_of_memory());
    for block in &small[..4096] {
        give_back(&slab, *block, 200, 256, &stream).expect("handed out");
    }
    slab.allocate(64 << 10, 256, &stream)
        .expect("a slab is empty");
}

#[test]
fn segments_that_are_free_go_back_when_memory_is_out() {
    let (device, stream) = cpu();
    let memory =
        Segments::with_segments_of(Limiting::new(DeviceMemory::new(&device), 8 * MIB), MIB);
    let blocks: Vec<_> = (0..8)
        .map(|_| memory.allocate(MIB, 256, &stream).expect("memory"))
        .collect();
    assert_eq!(memory.fragmentation().reserved, 8 * MIB);
    give_back(&memory, blocks[3], MIB, 256, &stream).expect("handed out");
    give_back(&memory, blocks[5], MIB, 256, &stream).expect("handed out");
    // Two segments of 1 MiB go back, and come again as one of 2 MiB.
    memory
        .allocate(2 * MIB, 256, &stream)
        .expect("given back to the upstream");
    assert_eq!(memory.fragmentation().free, 0);
}

#[test]
fn statistics_count_what_went_through() {
    let (device, stream) = cpu();
    let memory = Statistics::new(DeviceMemory::new(&device));
    let one = memory.allocate(1000, 256, &stream).expect("memory");
    let two = memory.allocate(500, 256, &stream).expect("memory");
    give_back(&memory, one, 1000, 256, &stream).expect("handed out");
    give_back(&memory, one, 1000, 256, &stream).expect_err("freed twice");
    memory.allocate(0, 256, &stream).expect_err("no bytes");
    let counts = memory.counts();
    assert_eq!(
        (counts.allocations, counts.deallocations, counts.failures),
        (2, 1, 2)
    );
    assert_eq!(
        (counts.bytes, counts.peak_bytes, counts.total_bytes),
        (500, 1500, 1500)
    );
    give_back(&memory, two, 500, 256, &stream).expect("handed out");
    assert_eq!(memory.counts().bytes, 0);
}

#[test]
fn a_limit_is_kept_by_many_threads() {
    let (device, stream) = cpu();
    let memory = Limiting::new(DeviceMemory::new(&device), 10 * 256);
    let got = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..4 {
                    match memory.allocate(100, 256, &stream) {
                        Ok(_) => got.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert!(matches!(error, Error::LimitReached { limit: 2560, .. }));
                            0
                        }
                    };
                }
            });
        }
    });
    assert_eq!(
        (got.into_inner(), memory.used(), memory.limit()),
        (10, 2560, 2560)
    );
}

#[test]
fn tracking_tells_who_allocated_what_is_left() {
    let (device, stream) = cpu();
    let memory = Tracking::new(DeviceMemory::new(&device));
    let freed = memory.allocate(100, 256, &stream).expect("memory");
    let leaked = memory.allocate(4096, 256, &stream).expect("memory");
    give_back(&memory, freed, 100, 256, &stream).expect("handed out");
    give_back(&memory, leaked, 4095, 256, &stream).expect_err("other bytes");
    let report = memory.report();
    assert_eq!(report.0.len(), 1);
    assert_eq!(
        (report.0[0].pointer, report.0[0].bytes, report.0[0].number),
        (leaked, 4096, 1)
    );
    let text = report.to_string();
    assert!(text.starts_with("1 blocks of 4 KiB are live"), "{text}");
    assert!(
        text.contains("tracking_tells_who_allocated_what_is_left"),
        "{text}"
    );
}

/// A file in memory that its writer and a test share.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_log_is_a_trace() {
    let (device, stream) = cpu();
    let file = Shared::default();
    let memory = Logging::new(DeviceMemory::new(&device), file.clone());
    let one = memory.allocate(1000, 256, &stream).expect("memory");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            memory.allocate(5000, 4096, &stream).expect("memory");
            give_back(&memory, one, 1000, 256, &stream).expect("handed out");
            give_back(&memory, one, 1000, 256, &stream).expect_err("freed twice");
        });
    });
    memory.flush().expect("written");
    let text = String::from_utf8(file.0.lock().clone()).expect("text");
    let lines = "thread,operation,id,size,alignment\n0,malloc,0,1000,256\n1,malloc,1,5000,4096\n1,free,0,,\n";
    assert_eq!(text, lines);
    let trace = csv_format::read(text.as_bytes()).expect("a trace");
    assert_eq!(trace.operations().len(), 3);
}

/// A disk that is full.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("no space left"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_log_that_cannot_be_written_is_an_error() {
    let (device, stream) = cpu();
    let memory = Logging::new(DeviceMemory::new(&device), Full);
    memory
        .allocate(1000, 256, &stream)
        .expect("still in memory");
    let error = memory.flush().expect_err("nothing can be written");
    assert!(
        matches!(&error, Error::Log(text) if text.contains("no space left")),
        "{error}"
    );
}

#[test]
fn a_failure_can_be_helped() {
    let (device, stream) = cpu();
    let below = Arc::new(Limiting::new(DeviceMemory::new(&device), 4096));
    let (calls, kept) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let memory = OnFailure::new(below.clone(), |bytes| {
        assert_eq!(bytes, 3000);
        calls.fetch_add(1, Ordering::Relaxed);
        let Some(block) = kept.lock().pop() else {
            return false;
        };
        give_back(&below, block, 2000, 256, &stream).is_ok()
    });
    let block = memory.allocate(2000, 256, &stream).expect("room");
    kept.lock().push(block);
    memory.allocate(3000, 256, &stream).expect("room was made");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let error = memory
        .allocate(3000, 256, &stream)
        .expect_err("nothing is left to free");
    assert!(error.is_out_of_memory());
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[test]
fn a_fallback_takes_what_the_first_has_no_room_for() {
    let (device, stream) = cpu();
    let pool = BlockPool::new(DeviceMemory::new(&device), 4096, 2).expect("memory");
    let memory = Fallback::new(pool, DeviceMemory::new(&device)).expect("one device");
    let blocks = [4096, 4096, 4096, 100_000].map(|bytes| {
        let block = memory.allocate(bytes, 256, &stream).expect("memory");
        (block, bytes)
    });
    assert_eq!(
        (memory.first().live().blocks, memory.second().live().blocks),
        (2, 2)
    );
    for (block, bytes) in blocks {
        give_back(&memory, block, bytes, 256, &stream).expect("handed out");
        let twice = give_back(&memory, block, bytes, 256, &stream);
        assert!(matches!(twice, Err(Error::DoubleFree(..))), "{twice:?}");
    }
    assert_eq!(memory.live().blocks, 0);
}

#[test]
fn owned_values_are_given_back() {
    let (device, stream) = cpu();
    let memory = Arc::new(Caching::of(&device));
    {
        let mut values =
            DeviceVec::from_slice(memory.clone(), &stream, &[1_u32, 2, 3]).expect("memory");
        values.write(1, &[7, 8]).expect("within");
        assert_eq!(values.read(0, 3).expect("within"), [1, 7, 8]);
        let outside = values.read(2, 2);
        assert!(
            matches!(outside, Err(Error::OutOfBounds { length: 3, .. })),
            "{outside:?}"
        );
        values.write(usize::MAX, &[1]).expect_err("outside");
        let zeros = DeviceVec::<u64>::zeroed(memory.clone(), &stream, 1000).expect("memory");
        assert_eq!(zeros.read(0, 1000).expect("within"), vec![0; 1000]);
        let none = DeviceVec::<u64>::zeroed(memory.clone(), &stream, 0).expect("no memory");
        assert!(none.is_empty() && none.pointer().is_none());
        assert!(none.read(0, 0).expect("within").is_empty());
        let mut one = DeviceBox::new(memory.clone(), &stream, 5_u8).expect("memory");
        one.set(6).expect("there");
        assert_eq!(one.get().expect("there"), 6);
        assert_eq!(memory.live().blocks, 3);
    }
    assert_eq!(memory.live().blocks, 0);
}

#[test]
fn a_buffer_grows_and_shrinks_in_place() {
    let (device, stream) = cpu();
    let granule = device.granule().expect("a granule");
    let mut buffer = GrowableBuffer::<u32>::reserve(&device, 1 << 24).expect("addresses");
    assert_eq!(
        (buffer.len(), buffer.most(), buffer.mapped_bytes()),
        (0, 1 << 24, 0)
    );
    let address = buffer.pointer();
    buffer.grow(1000).expect("memory");
    buffer.write(&stream, 0, &[11]).expect("within");
    buffer.write(&stream, 999, &[22]).expect("within");
    buffer.write(&stream, 1000, &[33]).expect_err("outside");
    for length in [5000, 100_000, 1 << 22] {
        buffer.grow(length).expect("memory");
        buffer.write(&stream, length - 1, &[33]).expect("within");
    }
    assert_eq!(buffer.pointer(), address);
    assert_eq!(buffer.mapped_bytes(), 4 << 22);
    assert_eq!(buffer.read(&stream, 0, 1).expect("within"), [11]);
    buffer.shrink(1000).expect("unmapped");
    assert_eq!((buffer.len(), buffer.mapped_bytes()), (1000, granule));
    assert_eq!(buffer.read(&stream, 999, 1).expect("within"), [22]);
    buffer.read(&stream, 1000, 1).expect_err("outside");
    let refused = buffer.grow((1 << 24) + 1);
    assert!(
        matches!(refused, Err(Error::OutOfBounds { .. })),
        "{refused:?}"
    );
}

#[test]
fn what_is_configured_is_built() {
    let (device, stream) = cpu();
    let mut configuration = Configuration::default();
    for (name, value) in [
        ("upstream", "segments"),
        ("limit", "8MiB"),
        ("segment", "1MiB"),
        ("largest", "2MiB"),
    ] {
        configuration.set(name, value).expect("a good value");
    }
    let memory = configuration.build(&device).expect("good settings");
    let blocks = memory
        .allocate_batch(8, MIB, 256, &stream)
        .expect("the limit");
    let more = memory.allocate(MIB, 256, &stream);
    assert!(matches!(more, Err(Error::LimitReached { .. })), "{more:?}");
    for block in blocks {
        give_back(&memory, block, MIB, 256, &stream).expect("handed out");
    }
    let large = memory
        .allocate(4 * MIB, 256, &stream)
        .expect("given back first");
    give_back(&memory, large, 4 * MIB, 256, &stream).expect("handed out");
    // It is larger than what is kept.
    assert_eq!(memory.usage().kept, 0);
}

#[test]
fn a_limit_is_kept_whatever_the_memory_comes_from() {
    let (device, stream) = cpu();
    for upstream in Upstream::ALL {
        let mut configuration = Configuration::default();
        for (name, value) in [("upstream", upstream.name()), ("limit", "8MiB")] {
            configuration.set(name, value).expect("a good value");
        }
        let memory = configuration.build(&device).expect("good settings");
        let held = memory.allocate_batch(3, 2 * MIB, 256, &stream);
        let held = held.expect("below the limit");
        let more = memory.allocate_batch(2, 2 * MIB, 256, &stream);
        let error = more.expect_err("above the limit");
        assert!(error.is_out_of_memory(), "{upstream}: {error}");
        for block in held {
            give_back(&memory, block, 2 * MIB, 256, &stream).expect("handed out");
        }
    }
}

#[test]
fn a_driver_pool_keeps_its_threshold_and_counts() {
    let (device, stream) = cpu();
    let pool = DriverPool::new(&device).expect("a pool");
    pool.set_release_threshold(8 * MIB).expect("set");
    let blocks: Vec<_> = (0..8)
        .map(|_| pool.allocate(4 * MIB, 256, &stream).expect("memory"))
        .collect();
    for block in blocks {
        give_back(&pool, block, 4 * MIB, 256, &stream).expect("handed out");
    }
    let found = pool.statistics().expect("numbers");
    assert_eq!((found.used, found.used_high), (0, 32 * MIB));
    assert_eq!(
        (found.reserved, found.release_threshold),
        (8 * MIB, 8 * MIB)
    );
    assert!(found.reserved_high >= 32 * MIB);
    pool.reset_highs().expect("reset");
    pool.trim_to(2 * MIB).expect("trimmed");
    let found = pool.statistics().expect("numbers");
    assert_eq!((found.reserved, found.used_high), (2 * MIB, 0));
    assert_eq!(pool.trim().expect("trimmed"), 2 * MIB);
    assert!(DriverPool::with_most(&device, u64::MAX).is_err());
}

/// Requests that would take more memory of the device find what the cache keeps in other sizes.
#[test]
fn a_cache_gives_way_before_more_memory_is_taken() {
    let (device, stream) = cpu();
    let memory = Caching::of(&device);
    let hold = |bytes: u64, count| {
        let blocks = memory.allocate_batch(count, bytes, 256, &stream);
        for block in blocks.expect("memory") {
            give_back(&memory, block, bytes, 256, &stream).expect("handed out");
        }
    };
    hold(200 << 10, 300);
    let before = device.usage().peak_bytes;
    for bytes in (300 << 10..1000 << 10).step_by(50 << 10) {
        hold(bytes, usize::try_from(50 * MIB / bytes).expect("few"));
    }
    let after = device.usage().peak_bytes;
    assert!(after < before + before / 10, "{before} became {after}");
}

/// Of 512 MiB a 128th may be wasted: 4 MiB.
#[test]
fn a_large_block_serves_smaller_ones_as_long_as_little_is_wasted() {
    let (device, stream) = cpu();
    let remapping = Remapping::builder(&device).most(512 * MIB).build();
    let memory = Caching::new(Statistics::new(remapping.expect("addresses")));
    let allocate = |bytes, count| {
        let blocks = memory.allocate_batch(count, bytes, 256, &stream);
        blocks.expect("memory")
    };
    let free = |blocks: Vec<_>, bytes| {
        for block in blocks {
            let freed = give_back(&memory, block, bytes, 256, &stream);
            freed.expect("handed out");
        }
    };
    let large = allocate(6 * MIB, 6);
    free(large.clone(), 6 * MIB);
    let (before, smaller) = (memory.upstream().counts().allocations, 5 * MIB);
    let taken = allocate(smaller, 6);
    let again = taken.iter().filter(|block| large.contains(block)).count();
    assert_eq!(again, 4, "each wastes 1 MiB");
    assert_eq!(memory.upstream().counts().allocations, before + 2);
    // The allowance comes back with the blocks, whoever frees them.
    std::thread::scope(|scope| {
        scope.spawn(|| free(taken, smaller));
    });
    memory.trim().expect("trimmed");
    let large = allocate(6 * MIB, 4);
    free(large.clone(), 6 * MIB);
    let again = allocate(smaller, 4);
    assert!(again.iter().all(|block| large.contains(block)));
    // Little larger than half is too much.
    free(again, smaller);
    assert!(!large.contains(&allocate(3 * MIB, 1)[0]));
}

#[test]
fn a_nearly_full_memory_is_not_kept_by_caches() {
    let (device, stream) = cpu();
    let remapping = Remapping::builder(&device).most(64 * MIB).build();
    let memory = Caching::new(remapping.expect("addresses"));
    let held = memory.allocate(58 * MIB, 256, &stream).expect("memory");
    let keep = |bytes| {
        let block = memory.allocate(bytes, 256, &stream).expect("memory");
        give_back(&memory, block, bytes, 256, &stream).expect("handed out");
    };
    keep(MIB);
    assert_eq!(memory.usage().kept, MIB);
    // It would be within the share if there were more, but goes back before two more are taken.
    keep(3 * MIB);
    assert_eq!(memory.usage().kept, 3 * MIB);
    give_back(&memory, held, 58 * MIB, 256, &stream).expect("handed out");
}

#[test]
fn a_cache_that_is_in_use_can_be_made_to_keep_less() {
    let (device, stream) = cpu();
    let memory = Caching::new(Statistics::new(DeviceMemory::new(&device)));
    memory.set_bytes_per_thread(0);
    let block = memory.allocate(MIB, 256, &stream).expect("memory");
    give_back(&memory, block, MIB, 256, &stream).expect("handed out");
    let again = memory.allocate(MIB, 256, &stream).expect("memory");
    assert_eq!((again, memory.usage().hits), (block, 0));
}

#[test]
fn few_bytes_of_any_usual_alignment_are_small() {
    let (device, stream) = cpu();
    let of_device = || DeviceMemory::new(&device);
    let memory = BySize::new(128, of_device(), of_device()).expect("the same device");
    for alignment in [1, 128, 256] {
        let small = memory.allocate(128, alignment, &stream).expect("memory");
        let large = memory.allocate(129, alignment, &stream).expect("memory");
        assert_eq!(memory.small().live().bytes, 128);
        assert_eq!(memory.large().live().bytes, 129);
        for (block, bytes) in [(small, 128), (large, 129)] {
            give_back(&memory, block, bytes, alignment, &stream).expect("handed out");
        }
        assert_eq!(memory.small().live(), Live::default());
        assert_eq!(memory.large().live(), Live::default());
    }
}

#[test]
fn what_is_given_back_is_counted_once() {
    let (device, stream) = cpu();
    let remapping = || Arc::new(Remapping::new(&device).expect("addresses"));
    let by_size = |small: Arc<Remapping>, large| {
        BySize::new(32 << 10, Slab::new(small), large).expect("the same device")
    };
    let shared = remapping();
    let resources: [Box<dyn MemoryResource>; 6] = [
        Box::new(Segments::with_segments_of(remapping(), 2 * MIB)),
        Box::new(Segments::with_segments_of(
            DeviceMemory::new(&device),
            2 * MIB,
        )),
        Box::new(Slab::new(remapping())),
        Box::new(Caching::of(&device)),
        Box::new(by_size(shared.clone(), shared)),
        Box::new(by_size(remapping(), remapping())),
    ];
    for memory in resources {
        for bytes in [1000, 40 << 10] {
            let block = memory.allocate(bytes, 256, &stream).expect("memory");
            give_back(&memory, block, bytes, 256, &stream).expect("handed out");
        }
        let had = device.usage().bytes;
        let given = memory.trim().expect("trimmed");
        assert_eq!((given, device.usage().bytes), (had, 0), "{memory:?}");
    }
}

#[test]
fn each_allocation_is_a_hit_or_a_miss() {
    let (device, stream) = cpu();
    let memory = Caching::of(&device);
    let counts = || (memory.usage().hits, memory.usage().misses);
    // Large ones are looked for twice: with what they may waste, and before that without.
    for bytes in [1000, 3 * MIB] {
        let before = counts();
        let block = memory.allocate(bytes, 256, &stream).expect("memory");
        assert_eq!(counts(), (before.0, before.1 + 1), "{bytes} bytes");
        give_back(&memory, block, bytes, 256, &stream).expect("handed out");
        memory.allocate(bytes, 256, &stream).expect("memory");
        assert_eq!(counts(), (before.0 + 1, before.1 + 1), "{bytes} bytes");
    }
}

#[test]
fn blocks_that_others_allocated_are_not_counted() {
    let (device, stream) = cpu();
    let shared = Arc::new(DeviceMemory::new(&device));
    let limited = Limiting::new(shared.clone(), 4096);
    let counted = Statistics::new(shared.clone());
    let allocate = |from: &dyn MemoryResource| from.allocate(1000, 256, &stream).expect("memory");
    let (mut others, own) = (vec![], allocate(&limited));
    let counted_own = allocate(&counted);
    others.extend((0..4).map(|_| allocate(&shared)));
    for (index, block) in others.into_iter().enumerate() {
        let through: &dyn MemoryResource = if index < 2 { &limited } else { &counted };
        give_back(&through, block, 1000, 256, &stream).expect("of the same memory");
    }
    assert_eq!((limited.used(), counted.counts().bytes), (1024, 1000));
    give_back(&limited, own, 1001, 256, &stream).expect_err("other bytes");
    assert_eq!(limited.used(), 1024);
    give_back(&limited, own, 1000, 256, &stream).expect("handed out");
    give_back(&counted, counted_own, 1000, 256, &stream).expect("handed out");
    assert_eq!((limited.used(), counted.counts().bytes), (0, 0));
    assert_eq!(counted.counts().deallocations, 3);
}

#[test]
fn more_values_than_there_can_be_are_refused() {
    let (device, stream) = cpu();
    let memory = Arc::new(DeviceMemory::new(&device));
    for length in [usize::MAX, usize::MAX / 8, 1 << 60] {
        let refused = DeviceVec::<u64>::zeroed(memory.clone(), &stream, length);
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{length}");
    }
    // More than is copied at once.
    let length = 5_000_001;
    let zeroes = DeviceVec::<u64>::zeroed(memory.clone(), &stream, length).expect("memory");
    assert_eq!(zeroes.read(0, length).expect("read"), vec![0; length]);
    let nothing = DeviceVec::<u64>::zeroed(memory, &stream, 0).expect("no memory");
    assert!(nothing.is_empty());
}
