//! What every resource and every adaptor promises: one table of resources, each case for all of them,
//! on the CPU and, with the feature `cuda`, on the first GPU.

#![cfg(target_os = "linux")]

#[path = "conformance/content.rs"]
mod content;
#[path = "conformance/devices.rs"]
mod devices;
#[path = "conformance/kernel.rs"]
mod kernel;
#[path = "conformance/random.rs"]
mod random;
#[path = "conformance/table.rs"]
mod table;

use content::{fill, is_intact};
use kernel::slow_write;
use proptest::prelude::*;
use random::Random;
use scatterheap_host::resource::{DevicePointer, Error, GrowableBuffer, Live, MemoryResource};
use scatterheap_host::{Device, Stream};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use table::{Made, Resource, Subject, subjects};

/// Runs a case for every resource on every device.
fn for_each(case: impl Fn(&Subject, &Device, Made)) {
    for device in devices::devices() {
        for subject in subjects() {
            eprintln!("{} on {}", subject.name, device.label());
            case(&subject, &device, subject.make(&device));
        }
    }
}

fn live(resource: &Resource) -> (u64, u64) {
    let Live { blocks, bytes } = resource.live();
    (blocks, bytes)
}

#[test]
fn basic() {
    for_each(|subject, device, made| {
        let (resource, stream) = (&made.resource, Stream::new(device).expect("a stream"));
        assert!(resource.device().is_same(device));
        let sizes = [
            1,
            8,
            255,
            256,
            257,
            1000,
            4096,
            subject.unit,
            subject.most_bytes,
        ];
        let sizes = sizes.map(|bytes| bytes.min(subject.most_bytes / 2));
        let mut blocks = BTreeMap::new();
        for (seed, bytes) in sizes.into_iter().enumerate() {
            let block = resource.allocate(bytes, 256, &stream).expect("memory");
            fill(&stream, block, bytes, seed as u64);
            blocks.insert(block, (bytes, seed as u64));
        }
        assert_eq!(live(resource), (sizes.len() as u64, sizes.iter().sum()));
        let ends = blocks
            .iter()
            .map(|(block, (bytes, _))| block.address() + bytes);
        let begins = blocks.keys().skip(1).map(|block| block.address());
        assert!(
            ends.zip(begins).all(|(end, begin)| end <= begin),
            "{blocks:?}"
        );
        for (block, (bytes, seed)) in blocks {
            assert!(is_intact(&stream, block, bytes, seed));
            resource
                .deallocate(block, bytes, 256, &stream)
                .expect("handed out");
        }
        assert_eq!(live(resource), (0, 0));
        let whole = resource
            .allocate(subject.most_bytes, 256, &stream)
            .expect("memory");
        resource
            .deallocate(whole, subject.most_bytes, 256, &stream)
            .expect("handed out");
    });
}

#[test]
fn alignment() {
    for_each(|subject, device, made| {
        let (resource, stream) = (&made.resource, Stream::new(device).expect("a stream"));
        let mut alignment = 1;
        while alignment <= subject.most_alignment {
            let bytes = 100 + alignment / 16;
            let bytes = bytes.min(subject.most_bytes);
            let blocks = [(); 2].map(|()| {
                let block = resource
                    .allocate(bytes, alignment, &stream)
                    .expect("memory");
                assert!(block.address().is_multiple_of(alignment.max(256)));
                fill(&stream, block, bytes, alignment);
                block
            });
            for block in blocks {
                assert!(is_intact(&stream, block, bytes, alignment));
                resource
                    .deallocate(block, bytes, alignment, &stream)
                    .expect("handed out");
            }
            alignment *= 2;
        }
        assert_eq!(live(resource), (0, 0));
    });
}

#[test]
fn requests_that_make_no_sense() {
    for_each(|_, device, made| {
        let (resource, stream) = (&made.resource, Stream::new(device).expect("a stream"));
        let elsewhere = Stream::new(&Device::cpu_with_threads(3)).expect("a stream");
        let refused = |bytes, alignment| {
            let refused = resource.allocate(bytes, alignment, &stream);
            refused.expect_err("makes no sense")
        };
        assert!(matches!(
            refused(0, 256),
            Error::ZeroBytes | Error::LimitReached { .. }
        ));
        for alignment in [0, 3, 257, u64::MAX] {
            assert!(matches!(refused(100, alignment), Error::BadAlignment(_)));
        }
        for bytes in [1 << 46, 1 << 63, u64::MAX] {
            let error = refused(bytes, 256);
            assert!(
                error.is_out_of_memory() || matches!(error, Error::TooLarge { .. }),
                "{error}"
            );
        }
        for alignment in [1 << 46, 1 << 63] {
            let error = refused(256, alignment);
            let too_large = matches!(error, Error::AlignmentTooLarge { .. });
            assert!(error.is_out_of_memory() || too_large, "{error}");
        }
        let wrong = resource.allocate(256, 256, &elsewhere);
        assert!(matches!(wrong, Err(Error::WrongDevice { .. })), "{wrong:?}");
        assert_eq!(live(resource), (0, 0));
    });
}

#[test]
fn blocks_that_are_not_there_to_be_freed() {
    for_each(|_, device, made| {
        let (resource, stream) = (&made.resource, Stream::new(device).expect("a stream"));
        let elsewhere = Stream::new(&Device::cpu_with_threads(3)).expect("a stream");
        let block = resource.allocate(1000, 256, &stream).expect("memory");
        fill(&stream, block, 1000, 1);
        let at = |offset: i64| {
            let address = block.address().wrapping_add_signed(offset);
            DevicePointer::new(address).expect("not null")
        };
        let free = |pointer, bytes, alignment| {
            let refused = resource.deallocate(pointer, bytes, alignment, &stream);
            refused.expect_err("is not there to be freed")
        };
        for bytes in [1, 999, 1001, 4096, 1 << 40] {
            assert!(matches!(free(block, bytes, 256), Error::WrongSize { .. }));
        }
        assert!(matches!(free(block, 1000, 512), Error::WrongSize { .. }));
        assert!(matches!(free(block, 0, 256), Error::ZeroBytes));
        assert!(matches!(free(block, 1000, 7), Error::BadAlignment(7)));
        for foreign in [at(1), at(256), at(-256), at(1 << 40), at(1 << 60)] {
            let error = free(foreign, 1000, 256);
            assert!(matches!(error, Error::ForeignPointer(..)), "{error}");
        }
        let wrong = resource.deallocate(block, 1000, 256, &elsewhere);
        assert!(matches!(wrong, Err(Error::WrongDevice { .. })), "{wrong:?}");
        assert_eq!(live(resource), (1, 1000));
        assert!(is_intact(&stream, block, 1000, 1));
        resource
            .deallocate(block, 1000, 1, &stream)
            .expect("alignments up to 256 are the same");
        let error = free(block, 1000, 256);
        assert!(matches!(error, Error::DoubleFree(..)), "{error}");
        assert_eq!(live(resource), (0, 0));
        let again = resource.allocate(1000, 256, &stream).expect("memory");
        let other = resource.allocate(1000, 256, &stream).expect("memory");
        assert_ne!(again, other);
    });
}

/// Allocates blocks until there is no more.
fn exhaust(resource: &Resource, bytes: u64, stream: &Stream) -> Vec<DevicePointer> {
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

#[test]
fn growth_exhaustion_and_recovery() {
    for_each(|subject, device, made| {
        // The system's memory is no test's to exhaust.
        let (resource, stream) = (&made.resource, Stream::new(device).expect("a stream"));
        let mut before = 0;
        for _ in 0..3 {
            let blocks = exhaust(resource, subject.unit, &stream);
            let bytes = blocks.len() as u64 * subject.unit;
            assert!(bytes >= subject.room, "{bytes} of {}", subject.room);
            assert!(bytes >= before, "{bytes} after {before}");
            before = bytes;
            for block in blocks {
                resource
                    .deallocate(block, subject.unit, 256, &stream)
                    .expect("handed out");
            }
        }
        // Memory of one size serves any other.
        if subject.name != "BlockPool" {
            let large = subject.most_bytes;
            let block = resource
                .allocate(large, 256, &stream)
                .expect("merged, or given back");
            resource
                .deallocate(block, large, 256, &stream)
                .expect("handed out");
        }
        assert_eq!(live(resource), (0, 0));
    });
}

#[test]
fn trimmed_and_dropped_resources_give_their_memory_back() {
    for_each(|subject, device, made| {
        let Made { resource, upstream } = made;
        let stream = Stream::new(device).expect("a stream");
        let other = Stream::new(device).expect("a stream");
        let owns_itself = subject.name.starts_with("DeviceMemory");
        let bytes = 5000.min(subject.most_bytes);
        let mut blocks: Vec<_> = (0..20)
            .map(|_| resource.allocate(bytes, 256, &stream).expect("memory"))
            .collect();
        for block in blocks.drain(7..) {
            resource
                .deallocate(block, bytes, 256, &other)
                .expect("handed out");
        }
        resource.trim().expect("trimmed");
        assert_eq!(live(&resource), (7, 7 * bytes));
        for block in blocks.drain(3..) {
            fill(&stream, block, bytes, 5);
            assert!(is_intact(&stream, block, bytes, 5));
            resource
                .deallocate(block, bytes, 256, &other)
                .expect("handed out");
        }
        assert_eq!(live(&resource), (3, 3 * bytes));
        drop(resource);
        assert_eq!(upstream.live().blocks, if owns_itself { 3 } else { 0 });
    });
}

/// What is freed, trimmed, shrunk or dropped is not taken from under a kernel that uses it.
#[test]
fn memory_is_not_given_back_under_work_that_runs() {
    for_each(|subject, device, made| {
        let Made { resource, upstream } = made;
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
            resource
                .deallocate(*block, subject.unit, 256, stream)
                .expect("handed out");
        }
        resource.trim().expect("trimmed");
        for (block, stream) in &blocks[..2] {
            slow_write(stream, *block, 256, 2, 5_000_000);
        }
        drop((resource, upstream));
        device.synchronize().expect("no fault");
    });
}

#[test]
fn a_growable_buffer_is_not_given_back_under_work_that_runs() {
    for device in devices::devices() {
        let stream = Stream::new(&device).expect("a stream");
        let mut buffer = GrowableBuffer::<u32>::reserve(&device, 1 << 26).expect("addresses");
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
}

#[test]
fn many_threads() {
    for_each(|subject, device, made| {
        let resource = &made.resource;
        let most = (subject.most_bytes / 8).min(subject.room / 128);
        let (exchange, allocated) = (Mutex::new(Vec::new()), AtomicU64::new(0));
        let streams: Vec<_> = (0..3)
            .map(|_| Stream::new(device).expect("a stream"))
            .collect();
        let rounds = if device.is_gpu() { 60 } else { 300 };
        std::thread::scope(|scope| {
            for number in 0..8_u64 {
                let (exchange, allocated, streams) = (&exchange, &allocated, &streams);
                scope.spawn(move || {
                    let mut random = Random(number);
                    for _ in 0..rounds {
                        let stream = &streams[(random.next() % 3) as usize];
                        let (bytes, seed) = (random.size(most), random.next());
                        let alignment = 1 << random.below(10);
                        let block = match resource.allocate(bytes, alignment, stream) {
                            Ok(block) => block,
                            Err(error) => {
                                // An arena does not use again what lies below others.
                                assert!(error.is_out_of_memory(), "{error}");
                                continue;
                            }
                        };
                        // Relaxed: only counts.
                        allocated.fetch_add(1, Ordering::Relaxed);
                        fill(stream, block, bytes, seed);
                        let mut shared = exchange.lock().expect("no panic");
                        shared.push((block, bytes, alignment, seed));
                        if shared.len() < 24 {
                            continue;
                        }
                        let index = (random.next() % 24) as usize;
                        let (block, bytes, alignment, seed) = shared.swap_remove(index);
                        drop(shared);
                        assert!(is_intact(stream, block, bytes, seed));
                        resource
                            .deallocate(block, bytes, alignment, stream)
                            .expect("handed out");
                    }
                });
            }
        });
        let expected = if subject.name == "Arena" {
            24
        } else {
            8 * rounds
        };
        assert!(allocated.into_inner() >= expected);
        let left = exchange.into_inner().expect("no panic");
        let bytes = left.iter().map(|(_, bytes, ..)| bytes).sum();
        assert_eq!(live(resource), (left.len() as u64, bytes));
        for (block, bytes, alignment, _) in left {
            resource
                .deallocate(block, bytes, alignment, &streams[0])
                .expect("handed out");
        }
        assert_eq!(live(resource), (0, 0));
    });
}

#[test]
fn more_streams_than_a_resource_tells_apart() {
    for_each(|_, device, made| {
        let resource = &made.resource;
        let streams: Vec<_> = (0..80)
            .map(|_| Stream::new(device).expect("a stream"))
            .collect();
        let mut blocks = Vec::new();
        for (index, stream) in streams.iter().enumerate() {
            blocks.push(resource.allocate(3000, 256, stream).expect("memory"));
            if index % 2 == 1 {
                let other = &streams[79 - index];
                let block = blocks.swap_remove(0);
                resource
                    .deallocate(block, 3000, 256, other)
                    .expect("handed out");
            }
        }
        assert_eq!(live(resource).0, blocks.len() as u64);
        for (block, stream) in blocks.into_iter().zip(&streams) {
            resource
                .deallocate(block, 3000, 256, stream)
                .expect("handed out");
        }
        assert_eq!(live(resource), (0, 0));
    });
}

/// A block is freed on a stream whose kernel still writes to it, and allocated on another, whose
/// kernel writes something else. The first must not write last. All memory is taken, so that there
/// is no other place for the second block.
#[test]
fn a_block_is_not_used_again_before_the_work_on_it_is_done() {
    for_each(|subject, device, made| {
        let resource = &made.resource;
        let streams = [(); 2].map(|()| Stream::new(device).expect("a stream"));
        let [slow, fast] = &streams;
        let blocks = exhaust(resource, subject.unit, slow);
        let (bytes, mut block) = (subject.unit, blocks[blocks.len() - 1]);
        for value in 1..5 {
            let (taker, giver) = if value % 2 == 0 {
                (slow, fast)
            } else {
                (fast, slow)
            };
            slow_write(giver, block, 256, 77, 20_000_000);
            resource
                .deallocate(block, bytes, 256, giver)
                .expect("handed out");
            let again = resource.allocate(bytes, 256, taker).expect("there is one");
            // The system's allocator may have another place.
            let may_move =
                ["DeviceMemory", "DriverPool", "Caching"].contains(&subject.name.as_str());
            assert!(again == block || may_move, "there is one block only");
            slow_write(taker, again, 256, value, 0);
            device.synchronize().expect("no fault");
            // SAFETY: the block is handed out.
            let memory = unsafe { device.adopt(again.address(), bytes) };
            assert_eq!(memory.read::<u32>(0, 256).expect("within"), [value; 256]);
            block = again;
        }
    });
}

/// What a random sequence does next.
#[derive(Clone, Debug)]
enum Step {
    Allocate {
        size: u64,
        alignment: u32,
        stream: usize,
    },
    Deallocate {
        index: usize,
        stream: usize,
    },
    Misuse {
        index: usize,
    },
    Trim,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u64>(), 0..13_u32, 0..3_usize).prop_map(|(size, alignment, stream)| {
            Step::Allocate { size, alignment, stream }
        }),
        5 => (any::<usize>(), 0..3_usize).prop_map(|(index, stream)| {
            Step::Deallocate { index, stream }
        }),
        1 => any::<usize>().prop_map(|index| Step::Misuse { index }),
        1 => Just(Step::Trim),
    ]
}

/// What is handed out, as a list.
struct Shadow {
    blocks: Vec<(DevicePointer, u64, u64, u64)>,
    freed: Option<(DevicePointer, u64, u64)>,
}

impl Shadow {
    fn allocate(&mut self, resource: &Resource, bytes: u64, alignment: u64, stream: &Stream) {
        let block = match resource.allocate(bytes, alignment, stream) {
            Ok(block) => block,
            Err(error) => {
                assert!(error.is_out_of_memory(), "{error}");
                return;
            }
        };
        assert!(block.address().is_multiple_of(alignment.max(256)));
        let end = block.address() + bytes;
        for (other, other_bytes, ..) in &self.blocks {
            let apart = end <= other.address() || other.address() + other_bytes <= block.address();
            assert!(apart, "{block} of {bytes} and {other} of {other_bytes}");
        }
        let seed = self.blocks.len() as u64 ^ block.address();
        fill(stream, block, bytes, seed);
        self.freed = self.freed.filter(|(freed, ..)| *freed != block);
        self.blocks.push((block, bytes, alignment, seed));
    }

    fn deallocate(&mut self, resource: &Resource, index: usize, stream: &Stream) {
        if self.blocks.is_empty() {
            return;
        }
        let (block, bytes, alignment, seed) = self.blocks.swap_remove(index % self.blocks.len());
        assert!(is_intact(stream, block, bytes, seed));
        resource
            .deallocate(block, bytes, alignment, stream)
            .expect("handed out");
        self.freed = Some((block, bytes, alignment));
    }

    fn misuse(&self, resource: &Resource, index: usize, stream: &Stream) {
        if let Some((block, bytes, alignment)) = self.freed {
            let twice = resource.deallocate(block, bytes, alignment, stream);
            assert!(twice.is_err(), "{block} was freed twice");
        }
        if let Some((block, bytes, alignment, _)) = self.blocks.get(index % 16) {
            let wrong = resource.deallocate(*block, bytes + 1, *alignment, stream);
            assert!(matches!(wrong, Err(Error::WrongSize { .. })), "{wrong:?}");
        }
    }

    fn check(&self, resource: &Resource) {
        let bytes = self.blocks.iter().map(|(_, bytes, ..)| bytes).sum();
        assert_eq!(live(resource), (self.blocks.len() as u64, bytes));
    }
}

fn run(subject: &Subject, device: &Device, streams: &[Stream], steps: &[Step]) {
    let Made { resource, upstream } = subject.make(device);
    let mut shadow = Shadow {
        blocks: Vec::new(),
        freed: None,
    };
    for step in steps {
        match step {
            Step::Allocate {
                size,
                alignment,
                stream,
            } => {
                let bytes = Random(*size).size(subject.most_bytes);
                let alignment = (1 << alignment).min(subject.most_alignment);
                shadow.allocate(&resource, bytes, alignment, &streams[*stream]);
            }
            Step::Deallocate { index, stream } => {
                shadow.deallocate(&resource, *index, &streams[*stream]);
            }
            Step::Misuse { index } => shadow.misuse(&resource, *index, &streams[0]),
            Step::Trim => {
                resource.trim().expect("trimmed");
            }
        }
    }
    shadow.check(&resource);
    for (block, bytes, _, seed) in &shadow.blocks {
        assert!(is_intact(&streams[0], *block, *bytes, *seed));
    }
    drop(resource);
    let owns_itself = subject.name == "DeviceMemory";
    assert_eq!(
        upstream.live().blocks == 0,
        !owns_itself || shadow.blocks.is_empty()
    );
}

#[test]
fn random_sequences_against_a_shadow() {
    let (devices, subjects) = (devices::devices(), subjects());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let sequences = proptest::collection::vec(step(), 1..120);
    let all = runner.run(&sequences, |steps| {
        for device in &devices {
            let streams: Vec<_> = (0..3)
                .map(|_| Stream::new(device).expect("a stream"))
                .collect();
            for subject in &subjects {
                run(subject, device, &streams, &steps);
            }
        }
        Ok(())
    });
    all.expect("as the shadow says");
}
