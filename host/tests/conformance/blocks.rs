//! Blocks, one by one: apart from each other, aligned, and only theirs who got them.

use crate::suite::content::{fill, is_intact};
use crate::suite::table::{Made, Subject, give_back, live};
use scatterheap_host::resource::{DevicePointer, Error, MemoryResource};
use scatterheap_host::{Device, Stream};
use std::collections::BTreeMap;

pub fn basic(subject: &Subject, device: &Device) {
    let Made { resource, .. } = subject.make(device);
    let stream = Stream::new(device).expect("a stream");
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
    assert_eq!(live(&resource), (sizes.len() as u64, sizes.iter().sum()));
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
        give_back(&resource, block, bytes, 256, &stream).expect("handed out");
    }
    assert_eq!(live(&resource), (0, 0));
    let whole = resource
        .allocate(subject.most_bytes, 256, &stream)
        .expect("memory");
    give_back(&resource, whole, subject.most_bytes, 256, &stream).expect("handed out");
}

pub fn alignment(subject: &Subject, device: &Device) {
    let Made { resource, .. } = subject.make(device);
    let stream = Stream::new(device).expect("a stream");
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
            give_back(&resource, block, bytes, alignment, &stream).expect("handed out");
        }
        alignment *= 2;
    }
    assert_eq!(live(&resource), (0, 0));
}

pub fn requests_that_make_no_sense(subject: &Subject, device: &Device) {
    let Made { resource, .. } = subject.make(device);
    let stream = Stream::new(device).expect("a stream");
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
    assert_eq!(live(&resource), (0, 0));
}

pub fn blocks_that_are_not_there_to_be_freed(subject: &Subject, device: &Device) {
    let Made { resource, .. } = subject.make(device);
    let stream = Stream::new(device).expect("a stream");
    let elsewhere = Stream::new(&Device::cpu_with_threads(3)).expect("a stream");
    let block = resource.allocate(1000, 256, &stream).expect("memory");
    fill(&stream, block, 1000, 1);
    let at = |offset: i64| {
        let address = block.address().wrapping_add_signed(offset);
        DevicePointer::new(address).expect("not null")
    };
    let free = |pointer, bytes, alignment| {
        let refused = give_back(&resource, pointer, bytes, alignment, &stream);
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
    let wrong = give_back(&resource, block, 1000, 256, &elsewhere);
    assert!(matches!(wrong, Err(Error::WrongDevice { .. })), "{wrong:?}");
    assert_eq!(live(&resource), (1, 1000));
    assert!(is_intact(&stream, block, 1000, 1));
    give_back(&resource, block, 1000, 1, &stream).expect("alignments up to 256 are the same");
    let error = free(block, 1000, 256);
    assert!(matches!(error, Error::DoubleFree(..)), "{error}");
    assert_eq!(live(&resource), (0, 0));
    let again = resource.allocate(1000, 256, &stream).expect("memory");
    let other = resource.allocate(1000, 256, &stream).expect("memory");
    assert_ne!(again, other);
}
