//! Snapshots in files: they come back as they were, and anything else is refused with the reason.

mod devices;

use devices::for_each_device;
use scatterheap::snapshot::SnapshotError;
use scatterheap::stress::{Settings, Workload, fill};
use scatterheap::{Device, Heap, Snapshot};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes before the head of a file.
const PREFIX: usize = 24;

/// A snapshot of a small heap that holds blocks.
fn used(device: &Device) -> Snapshot {
    let heap = Heap::builder(device).capacity(1 << 20).stripes(4).build();
    let heap = heap.expect("there is memory for the heap");
    let settings = Settings {
        threads: 500,
        ..Settings::for_workload(Workload::Mixed, &heap)
    };
    let filled = fill(&heap, &settings).expect("the heap can be used");
    let snapshot = heap.snapshot().expect("the heap can be read");
    filled.release().expect("the blocks can be freed");
    snapshot
}

fn bytes(snapshot: &Snapshot) -> Vec<u8> {
    snapshot.to_bytes().expect("memory takes it")
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn refused(bytes: &[u8]) -> SnapshotError {
    let error = Snapshot::from_bytes(bytes).expect_err("this should be refused");
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    error
}

/// The file with its checksum made right.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 4;
    let checksum = crc32fast::hash(&bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&checksum);
    bytes
}

/// The file with another head, whose lengths and checksum are right.
fn with_head(bytes: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    let length = u32::from_le_bytes(bytes[12..16].try_into().expect("four")) as usize;
    let (head, rest) = bytes[PREFIX..].split_at(length);
    let head = change(std::str::from_utf8(head).expect("UTF-8"));
    let length = u32::try_from(head.len()).expect("short");
    let parts = [
        &bytes[..12],
        &length.to_le_bytes(),
        &bytes[16..PREFIX],
        head.as_bytes(),
        rest,
    ];
    summed(parts.concat())
}

#[test]
fn what_was_saved_is_loaded() {
    for_each_device("what_was_saved_is_loaded", |device| {
        let (before, path) = (used(device), path("saved"));
        before.save(&path).expect("the directory is writable");
        let after = Snapshot::load(&path).expect("it was just saved");
        assert_eq!(after.origin(), before.origin());
        assert_eq!(after.metadata(), before.metadata());
        assert_eq!(after.check(), Ok(()));
        assert!(after.occupancy().used_blocks > 400);
        assert_eq!(after.origin().device, device.label());
        let length = fs::metadata(&path).expect("it is there").len();
        assert!(length < before.metadata().len() as u64 / 2, "{length}");
    });
}

#[test]
fn a_file_that_was_cut_is_refused_wherever_it_was_cut() {
    let whole = bytes(&used(&Device::cpu()));
    for length in (1..whole.len()).step_by(7).chain(1..200) {
        let error = refused(&whole[..length]);
        assert!(
            matches!(error, SnapshotError::TooShort),
            "{length}: {error}"
        );
    }
    assert!(matches!(refused(&[]), SnapshotError::NotASnapshot { .. }));
}

#[test]
fn any_flipped_bit_of_a_file_is_found() {
    let mut bytes = bytes(&used(&Device::cpu()));
    for bit in (0..8 * bytes.len()).step_by(31).chain(0..8 * 300) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        refused(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(Snapshot::from_bytes(&bytes).is_ok());
}

#[test]
fn what_is_no_snapshot_is_refused_with_the_reason() {
    let whole = bytes(&used(&Device::cpu()));
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    let longer = [&whole[..], b"more"].concat();
    assert!(matches!(
        refused(b"SCTRACE1 is a trace"),
        SnapshotError::NotASnapshot { found } if found == "SCTRACE1"
    ));
    assert!(matches!(
        refused(&changed(8, 1)),
        SnapshotError::Version { found: 1 }
    ));
    assert!(matches!(refused(&longer), SnapshotError::TooLong));
    let last = whole.len() - 1;
    let flipped = changed(last, !whole[last]);
    assert!(matches!(refused(&flipped), SnapshotError::Checksum));
}

#[test]
fn lengths_that_lie_are_refused_before_anything_is_allocated() {
    let whole = bytes(&used(&Device::cpu()));
    let mut head = whole.clone();
    head[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(
        refused(&summed(head)),
        SnapshotError::HeadLength { found: u32::MAX }
    ));
    for length in [u64::MAX, 1 << 60, 1 << 40] {
        let mut body = whole.clone();
        body[16..24].copy_from_slice(&length.to_le_bytes());
        assert!(matches!(refused(&summed(body)), SnapshotError::TooShort));
    }
    // The head and the body agree with the file, but the body is none of a heap of that capacity.
    let larger = with_head(&whole, |head| {
        let layout = scatterheap::heap::layout::Layout::new(1 << 40, 4).expect("in bounds");
        let mut value: serde_json::Value = serde_json::from_str(head).expect("JSON");
        value["capacity"] = layout.capacity.into();
        value["stripes"] = layout.stripes.into();
        value["metadata_bytes"] = layout.metadata_bytes.into();
        value.to_string()
    });
    assert!(matches!(
        refused(&larger),
        SnapshotError::MetadataLength { .. }
    ));
}

#[test]
fn heads_that_lie_are_refused() {
    let whole = bytes(&used(&Device::cpu()));
    let no_json = with_head(&whole, |head| head.replace('{', "["));
    assert!(matches!(refused(&no_json), SnapshotError::Head(_)));
    let other_flags = with_head(&whole, |head| head.replace("\"flags\":0", "\"flags\":1"));
    assert!(matches!(
        refused(&other_flags),
        SnapshotError::Contradiction
    ));
    let other_layout = with_head(&whole, |head| {
        head.replace("\"metadata_bytes\":", "\"metadata_bytes\":1")
    });
    assert!(matches!(
        refused(&other_layout),
        SnapshotError::OtherLayout { .. }
    ));
    let mut no_frame = whole.clone();
    let length = u64::from_le_bytes(whole[16..24].try_into().expect("eight"));
    let body = whole.len() - 4 - usize::try_from(length).expect("fits");
    no_frame[body] ^= 0xff;
    assert!(matches!(
        refused(&summed(no_frame)),
        SnapshotError::Unpack(_)
    ));
}

#[test]
fn a_file_that_cannot_be_written_leaves_what_was_there() {
    let snapshot = used(&Device::cpu());
    let missing = path("no-such-directory").join("file");
    let error = snapshot.save(&missing).expect_err("no directory");
    assert!(matches!(error, SnapshotError::Write { .. }));
    assert!(error.to_string().contains("no-such-directory"), "{error}");

    // A directory with something in it cannot be replaced by a file.
    let occupied = path("occupied");
    fs::create_dir_all(&occupied).expect("writable");
    fs::write(occupied.join("content"), "stays").expect("writable");
    assert!(snapshot.save(&occupied).is_err());
    let content = fs::read_to_string(occupied.join("content")).expect("readable");
    assert_eq!(content, "stays");
    let left: Vec<_> = fs::read_dir(path(""))
        .expect("readable")
        .flatten()
        .collect();
    let is_left = |entry: &fs::DirEntry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with(".scatterheap-")
    };
    assert!(
        !left.iter().any(is_left),
        "a temporary file was left behind"
    );

    let error = Snapshot::load(path("no-such-file")).expect_err("no file");
    assert!(matches!(error, SnapshotError::Open { .. }));
}
