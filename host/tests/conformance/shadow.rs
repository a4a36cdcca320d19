//! Random sequences of calls against a list of what is handed out.

use crate::suite::content::{fill, is_intact};
use crate::suite::random::Random;
use crate::suite::table::{Made, Resource, Subject, give_back, live};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use scatterheap_host::resource::{DevicePointer, Error, MemoryResource};
use scatterheap_host::{Device, Stream};

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
        give_back(resource, block, bytes, alignment, stream).expect("handed out");
        self.freed = Some((block, bytes, alignment));
    }

    fn misuse(&self, resource: &Resource, index: usize, stream: &Stream) {
        if let Some((block, bytes, alignment)) = self.freed {
            let twice = give_back(resource, block, bytes, alignment, stream);
            assert!(twice.is_err(), "{block} was freed twice");
        }
        if let Some((block, bytes, alignment, _)) = self.blocks.get(index % 16) {
            let wrong = give_back(resource, *block, bytes + 1, *alignment, stream);
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

pub fn random_sequences_against_a_shadow(subject: &Subject, device: &Device) {
    let streams = [(); 3].map(|()| Stream::new(device).expect("a stream"));
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let sequences = proptest::collection::vec(step(), 1..120);
    let all = runner.run(&sequences, |steps| {
        run(subject, device, &streams, &steps);
        Ok(())
    });
    all.expect("as the shadow says");
}
