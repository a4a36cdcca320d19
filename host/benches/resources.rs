//! Nanoseconds of a hot pair: allocate, then deallocate, of one size again and again; with one thread,
//! and with many that each do so.
//!
//! `cargo bench -p scatterheap-host` runs on the CPU, and with `--features cuda` on the first GPU too.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion};
use scatterheap_host::resource::{
    BlockPool, Buddy, Caching, DeviceMemory, DriverPool, MemoryResource, Remapping, Segments, Slab,
    Statistics,
};
use scatterheap_host::{Device, Stream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

type Resources = Vec<(&'static str, Box<dyn MemoryResource>)>;

fn resources(device: &Device) -> Resources {
    let memory = || DeviceMemory::new(device);
    vec![
        ("caching", Box::new(Caching::of(device))),
        (
            "statistics of caching",
            Box::new(Statistics::new(Caching::of(device))),
        ),
        ("segments", Box::new(Segments::new(memory()))),
        (
            "remapping",
            Box::new(Remapping::new(device).expect("addresses")),
        ),
        (
            "driver pool",
            Box::new(DriverPool::new(device).expect("a pool")),
        ),
        ("slab", Box::new(Slab::new(memory()))),
        (
            "buddy",
            Box::new(Buddy::new(memory(), 256 * MIB).expect("memory")),
        ),
        (
            "block pool",
            Box::new(BlockPool::new(memory(), 64 * KIB, 1024).expect("memory")),
        ),
        ("device", Box::new(memory())),
    ]
}

fn pairs(resource: &dyn MemoryResource, bytes: u64, stream: &Stream, count: u64) {
    for _ in 0..count {
        let block = resource.allocate(bytes, 256, stream).expect("memory");
        // SAFETY: just allocated, and nothing uses it.
        let freed = unsafe { resource.deallocate(block, bytes, 256, stream) };
        freed.expect("handed out");
    }
}

/// Time of `count` pairs of each of `threads` threads, which begin together.
fn time(resource: &dyn MemoryResource, bytes: u64, streams: &[Stream], count: u64) -> Duration {
    if let [stream] = streams {
        let begin = Instant::now();
        pairs(resource, bytes, stream, count);
        return begin.elapsed();
    }
    let barrier = Barrier::new(streams.len());
    std::thread::scope(|scope| {
        let spawn = |stream| {
            let barrier = &barrier;
            scope.spawn(move || {
                pairs(resource, bytes, stream, 100);
                barrier.wait();
                let begin = Instant::now();
                pairs(resource, bytes, stream, count);
                begin.elapsed()
            })
        };
        let threads: Vec<_> = streams.iter().map(spawn).collect();
        let times = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        times.max().unwrap_or_default()
    })
}

fn bench(group: &mut BenchmarkGroup<'_, WallTime>, device: &Device, threads: usize) {
    let streams: Vec<_> = (0..threads)
        .map(|_| Stream::new(device).expect("a stream"))
        .collect();
    for (name, resource) in resources(device) {
        for (label, bytes) in [
            ("256 B", 256),
            ("64 KiB", 64 * KIB),
            ("1 MiB", MIB),
            ("32 MiB", 32 * MIB),
        ] {
            let holds = match name {
                "slab" | "block pool" => 64 * KIB,
                "device" if threads > 1 => 0,
                "buddy" => 8 * MIB,
                _ => 32 * MIB,
            };
            if bytes <= holds {
                group.bench_function(BenchmarkId::new(name, label), |bencher| {
                    bencher.iter_custom(|count| time(&*resource, bytes, &streams, count));
                });
            }
        }
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
        .configure_from_args();
    let devices = [
        Some(Device::cpu()),
        #[cfg(feature = "cuda")]
        Device::cuda(0, &[]).ok(),
    ];
    for device in devices.into_iter().flatten() {
        for threads in [1, 2, 16] {
            let name = format!("pair on {}, threads {threads}", device.label());
            bench(&mut criterion.benchmark_group(name), &device, threads);
        }
    }
    criterion.final_summary();
}
