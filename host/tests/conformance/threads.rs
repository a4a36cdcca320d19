//! Many threads at once, which free each other's blocks.

use crate::suite::content::{fill, is_intact};
use crate::suite::random::Random;
use crate::suite::table::{Made, Resource, Subject, give_back, live};
use scatterheap_host::resource::{DevicePointer, MemoryResource};
use scatterheap_host::{Device, Stream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks that wait to be freed by whoever comes, with their bytes, alignments and seeds.
type Exchange = Mutex<Vec<(DevicePointer, u64, u64, u64)>>;

/// What the threads share.
struct Shared<'a> {
    resource: &'a Resource,
    streams: &'a [Stream],
    /// The largest block.
    most: u64,
    exchange: Exchange,
    /// How many blocks were handed out.
    allocated: AtomicU64,
}

impl Shared<'_> {
    /// One round of a thread: a block more, and if there are many then one less.
    fn round(&self, random: &mut Random) {
        let stream = &self.streams[(random.next() % 3) as usize];
        let (bytes, seed) = (random.size(self.most), random.next());
        let alignment = 1 << random.below(10);
        let block = match self.resource.allocate(bytes, alignment, stream) {
            Ok(block) => block,
            Err(error) => {
                // An arena does not use again what lies below others.
                assert!(error.is_out_of_memory(), "{error}");
                return;
            }
        };
        // Relaxed: only counts.
        self.allocated.fetch_add(1, Ordering::Relaxed);
        fill(stream, block, bytes, seed);
        let mut exchange = self.exchange.lock().expect("no panic");
        exchange.push((block, bytes, alignment, seed));
        if exchange.len() < 24 {
            return;
        }
        let index = (random.next() % 24) as usize;
        let (block, bytes, alignment, seed) = exchange.swap_remove(index);
        drop(exchange);
        assert!(is_intact(stream, block, bytes, seed));
        give_back(self.resource, block, bytes, alignment, stream).expect("handed out");
    }
}

pub fn many_threads(subject: &Subject, device: &Device) {
    let Made { resource, .. } = subject.make(device);
    let streams = [(); 3].map(|()| Stream::new(device).expect("a stream"));
    let shared = Shared {
        resource: &resource,
        streams: &streams,
        most: (subject.most_bytes / 8).min(subject.room / 128),
        exchange: Mutex::new(Vec::new()),
        allocated: AtomicU64::new(0),
    };
    let rounds = if device.is_gpu() { 60 } else { 300 };
    std::thread::scope(|scope| {
        for number in 0..8_u64 {
            let shared = &shared;
            scope.spawn(move || {
                let mut random = Random(number);
                for _ in 0..rounds {
                    shared.round(&mut random);
                }
            });
        }
    });
    let expected = if subject.name == "Arena" {
        24
    } else {
        8 * rounds
    };
    assert!(shared.allocated.into_inner() >= expected);
    let left = shared.exchange.into_inner().expect("no panic");
    let bytes = left.iter().map(|(_, bytes, ..)| bytes).sum();
    assert_eq!(live(&resource), (left.len() as u64, bytes));
    for (block, bytes, alignment, _) in left {
        give_back(&resource, block, bytes, alignment, &streams[0]).expect("handed out");
    }
    assert_eq!(live(&resource), (0, 0));
}
