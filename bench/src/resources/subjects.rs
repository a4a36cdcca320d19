//! Who is measured.

use super::scenario::Scenario;
use scatterheap_host::Device;
use scatterheap_host::resource::{
    Arena, BlockPool, Buddy, Caching, Configuration, DeviceMemory, DriverPool, Limiting,
    MemoryResource, Remapping, Result, Segments, Slab,
};
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A resource that is measured.
pub struct Subject {
    /// Its name in tables.
    pub name: &'static str,
    /// Whether it can do what a scenario asks.
    pub fits: fn(&Scenario) -> bool,
    make: fn(&Device, u64, u64) -> Result<Made>,
}

/// A resource, and how to ask for the most memory that it held if the device does not know.
pub struct Made {
    pub resource: Arc<dyn MemoryResource>,
    pub reserved: Option<Arc<DriverPool>>,
}

impl Subject {
    /// Makes it, for so many threads.
    pub(super) fn make(&self, device: &Device, scenario: &Scenario, threads: u64) -> Result<Made> {
        let limit = match scenario.capacity {
            0 => u64::MAX,
            capacity => capacity * threads,
        };
        // Room for what cannot grow.
        let room = (scenario.peak() * threads * 2).next_power_of_two().max(MIB);
        (self.make)(device, limit, room)
    }
}

fn made(resource: impl MemoryResource + 'static) -> Made {
    Made {
        resource: Arc::new(resource),
        reserved: None,
    }
}

fn memory(device: &Device, limit: u64) -> Limiting<DeviceMemory> {
    Limiting::new(DeviceMemory::new(device), limit)
}

fn remapping(device: &Device, limit: u64) -> Result<Remapping> {
    let builder = Remapping::builder(device);
    match limit {
        u64::MAX => builder.build(),
        _ => builder.most(limit).build(),
    }
}

fn default(device: &Device, limit: u64) -> Result<Made> {
    let mut configuration = Configuration::default();
    if limit < u64::MAX {
        configuration.set("limit", &limit.to_string())?;
    }
    Ok(made(configuration.build(device)?))
}

fn pool(device: &Device, limit: u64) -> Result<Made> {
    let pool = Arc::new(DriverPool::new(device)?);
    pool.set_release_threshold(u64::MAX)?;
    Ok(Made {
        resource: Arc::new(Limiting::new(pool.clone(), limit)),
        reserved: device.is_gpu().then_some(pool),
    })
}

fn any(_: &Scenario) -> bool {
    true
}

fn one_size(scenario: &Scenario) -> bool {
    ["same_size", "one_mib"].contains(&scenario.name)
}

/// All that can be measured, the default one first.
#[must_use]
pub fn subjects(device: &Device) -> Vec<Subject> {
    // What a GPU's driver does the system does on the CPU.
    let (pooled, plain) = if device.is_gpu() {
        ("driver_async", "cuda_malloc")
    } else {
        ("emulated_pool", "system_malloc")
    };
    let subject = |name, fits, make| Subject { name, fits, make };
    vec![
        subject("scatterheap", any, |device, limit, _| {
            default(device, limit)
        }),
        subject("caching_segments", any, |device, limit, _| {
            Ok(made(Caching::new(Segments::new(memory(device, limit)))))
        }),
        subject("remapping", any, |device, limit, _| {
            Ok(made(remapping(device, limit)?))
        }),
        subject("segments", any, |device, limit, _| {
            Ok(made(Segments::new(memory(device, limit))))
        }),
        subject(
            "buddy",
            |scenario| scenario.capacity == 0,
            |device, _, room| Ok(made(Buddy::new(DeviceMemory::new(device), room)?)),
        ),
        subject(
            "slab",
            |scenario| scenario.name == "same_size",
            |device, limit, _| Ok(made(Slab::new(memory(device, limit)))),
        ),
        subject("block_pool", one_size, |device, limit, room| {
            let (block, memory) = (MIB.min(room), memory(device, limit));
            let count = (room / block).max(KIB);
            Ok(made(BlockPool::new(memory, block, count)?))
        }),
        subject("arena", one_size, |device, _, room| {
            Ok(made(Arena::new(device, room)?))
        }),
        subject(pooled, any, |device, limit, _| pool(device, limit)),
        subject(plain, any, |device, limit, _| {
            Ok(made(memory(device, limit)))
        }),
    ]
}
