//! Every resource, and every adaptor around some, with what it promises.

pub use super::giving::give_back;
use scatterheap_host::Device;
use scatterheap_host::resource::{
    Arena, BlockPool, Buddy, BySize, Caching, Configuration, DeviceMemory, DriverPool, Fallback,
    Limiting, Live, Logging, MemoryResource, OnFailure, Remapping, Segments, Slab, Statistics,
    Tracking, Waiting,
};
use std::sync::Arc;

pub type Resource = Arc<dyn MemoryResource>;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Bytes that the upstream has: the system's memory is no test's to exhaust.
pub const UPSTREAM: u64 = 24 * MIB;

/// A resource under test.
pub struct Subject {
    pub name: String,
    /// Makes it, with memory from an upstream.
    make: Box<dyn Fn(Resource) -> Resource + Send + Sync>,
    /// The largest block, and the largest alignment.
    pub most_bytes: u64,
    pub most_alignment: u64,
    /// Bytes that it can hand out at least, in blocks of `unit` bytes.
    pub room: u64,
    pub unit: u64,
}

/// A resource and where its memory comes from.
pub struct Made {
    pub resource: Resource,
    pub upstream: Resource,
}

/// Blocks and bytes that are handed out.
pub fn live(resource: &Resource) -> (u64, u64) {
    let Live { blocks, bytes } = resource.live();
    (blocks, bytes)
}

impl Subject {
    pub fn make(&self, device: &Device) -> Made {
        let upstream: Resource = Arc::new(Limiting::new(DeviceMemory::new(device), UPSTREAM));
        Made {
            resource: (self.make)(upstream.clone()),
            upstream,
        }
    }
}

fn subject(
    name: &str,
    (most_bytes, most_alignment): (u64, u64),
    (room, unit): (u64, u64),
    make: impl Fn(Resource) -> Resource + Send + Sync + 'static,
) -> Subject {
    Subject {
        name: name.into(),
        make: Box::new(make),
        most_bytes,
        most_alignment,
        room,
        unit,
    }
}

fn resources() -> Vec<Subject> {
    vec![
        subject(
            "DeviceMemory",
            (8 * MIB, 4 * MIB),
            (24 * MIB, MIB),
            |upstream| upstream,
        ),
        subject(
            "DriverPool",
            (8 * MIB, 2 * MIB),
            (22 * MIB, 64 * KIB),
            |upstream| {
                let pool = DriverPool::new(upstream.device()).expect("a pool");
                Arc::new(Limiting::new(pool, UPSTREAM))
            },
        ),
        subject(
            "BlockPool",
            (12 * KIB, 4 * KIB),
            (192 * 12 * KIB, 12 * KIB),
            |upstream| Arc::new(BlockPool::new(upstream, 12 * KIB, 192).expect("memory")),
        ),
        subject(
            "Slab",
            (64 * KIB, 64 * KIB),
            (24 * MIB, 64 * KIB),
            |upstream| Arc::new(Slab::new(upstream)),
        ),
        subject(
            "Buddy",
            (4 * MIB, 2 * MIB),
            (6 * MIB, 64 * KIB),
            |upstream| Arc::new(Buddy::new(upstream, 6 * MIB + 768).expect("memory")),
        ),
        subject(
            "Arena",
            (8 * MIB, 2 * MIB),
            (24 * MIB, 64 * KIB),
            |upstream| Arc::new(Arena::new(upstream.device(), 24 * MIB).expect("addresses")),
        ),
        subject(
            "Segments",
            (8 * MIB, 4 * MIB),
            (24 * MIB, 64 * KIB),
            |upstream| Arc::new(Segments::with_segments_of(upstream, 2 * MIB)),
        ),
        subject(
            "Segments, large",
            (8 * MIB, 4 * MIB),
            (24 * MIB, 64 * KIB),
            |upstream| Arc::new(Segments::new(upstream)),
        ),
        subject(
            "Caching",
            (8 * MIB, 4 * MIB),
            (24 * MIB, 64 * KIB),
            |upstream| Arc::new(Caching::new(upstream)),
        ),
        subject(
            "Caching of Segments",
            (8 * MIB, 2 * MIB),
            (22 * MIB, 64 * KIB),
            |upstream| Arc::new(Caching::new(Segments::with_segments_of(upstream, 2 * MIB))),
        ),
        subject(
            "Caching, small",
            (8 * MIB, 2 * MIB),
            (22 * MIB, 64 * KIB),
            |upstream| {
                let upstream = Segments::with_segments_of(upstream, 2 * MIB);
                let builder = Caching::builder(upstream)
                    .largest(MIB)
                    .bytes_per_thread(64 * KIB);
                Arc::new(builder.build().expect("good settings"))
            },
        ),
    ]
}

/// Those whose memory is mapped where it is needed.
fn remapping_resources() -> Vec<Subject> {
    vec![
        subject(
            "Remapping",
            (8 * MIB, 4 * MIB),
            (24 * MIB, 64 * KIB),
            |upstream| {
                let builder = Remapping::builder(upstream.device()).most(UPSTREAM);
                Arc::new(builder.build().expect("addresses"))
            },
        ),
        subject(
            "Remapping, small",
            (8 * MIB, 4 * MIB),
            (24 * MIB, 64 * KIB),
            |upstream| {
                let builder = Remapping::builder(upstream.device()).granule(64 * KIB);
                Arc::new(builder.most(UPSTREAM).build().expect("addresses"))
            },
        ),
        subject(
            "BySize",
            (8 * MIB, 2 * MIB),
            (22 * MIB, 64 * KIB),
            |upstream| {
                let builder = Remapping::builder(upstream.device()).most(UPSTREAM);
                let large = Arc::new(builder.build().expect("addresses"));
                let small = Segments::with_segments_of(large.clone(), MIB);
                Arc::new(BySize::new(32 * KIB, small, large).expect("the same device"))
            },
        ),
        subject(
            "Configured",
            (8 * MIB, 2 * MIB),
            (20 * MIB, 64 * KIB),
            |upstream| {
                let mut configuration = Configuration::default();
                configuration.set("limit", "24MiB").expect("a good value");
                Arc::new(configuration.build(upstream.device()).expect("memory"))
            },
        ),
        subject(
            "Caching of Remapping",
            (8 * MIB, 2 * MIB),
            (22 * MIB, 64 * KIB),
            |upstream| {
                let builder = Remapping::builder(upstream.device()).most(UPSTREAM);
                Arc::new(Caching::new(builder.build().expect("addresses")))
            },
        ),
    ]
}

fn all_resources() -> Vec<Subject> {
    let mut all = resources();
    all.extend(remapping_resources());
    all
}

type Adaptor = fn(Resource) -> Resource;

fn adaptors() -> Vec<(&'static str, Adaptor)> {
    vec![
        ("Statistics", |below| Arc::new(Statistics::new(below))),
        ("Limiting", |below| Arc::new(Limiting::new(below, UPSTREAM))),
        ("Tracking", |below| {
            Arc::new(Tracking::without_backtraces(below))
        }),
        ("Logging", |below| {
            Arc::new(Logging::new(below, std::io::sink()))
        }),
        ("OnFailure", |below| {
            Arc::new(OnFailure::new(below, |_| false))
        }),
        ("Waiting", |below| Arc::new(Waiting::new(below))),
        ("Fallback", |below| {
            let little = Limiting::new(DeviceMemory::new(below.device()), 64 * KIB);
            let little = Segments::with_segments_of(little, 64 * KIB);
            Arc::new(Fallback::new(little, below).expect("the same device"))
        }),
    ]
}

/// All resources, and every adaptor around three of them.
pub fn subjects() -> Vec<Subject> {
    let mut subjects = all_resources();
    for (name, adaptor) in adaptors() {
        for below in all_resources() {
            if !["Buddy", "Segments", "Caching of Segments"].contains(&below.name.as_str()) {
                continue;
            }
            let make = below.make;
            subjects.push(Subject {
                name: format!("{name} of {}", below.name),
                make: Box::new(move |upstream| adaptor(make(upstream))),
                ..below
            });
        }
    }
    subjects
}
