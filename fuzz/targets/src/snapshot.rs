//! `snapshot`: bytes as the copy of a heap's metadata, and everything that a snapshot offers.
//!
//! Random bytes are no heap. So a heap is made and used, and its metadata are then damaged in places of
//! the input's choice; or only their head, which never changes, is taken, and all else is the input's.

use crate::operations::copy;
use crate::program::{Shape, operation};
use crate::shadow_model::{Operation, Shadow, index};
use arbitrary::{Result, Unstructured};
use heap_core::Core;
use heap_core::inspect::{MAX_VIOLATIONS, Snapshot};
use heap_core::layout::Layout;

/// Heaps are small, so that damage does not miss.
const LARGEST_HEAP: u64 = 256 << 10;
/// Places that are damaged at most.
const MOST_DAMAGE: usize = 64;

/// Reads the metadata that the bytes are, or that are made of them.
///
/// # Panics
/// The snapshot does not as it must.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    // Fewer bytes than the mode wants leave nothing to do.
    let _short: Result<()> = match kind % 4 {
        0 => {
            read(rest.to_vec());
            Ok(())
        }
        1 => replaced(&mut Unstructured::new(rest)),
        _ => damaged(&mut Unstructured::new(rest)),
    };
}

/// A heap whose head is right, and nothing else.
fn replaced(bytes: &mut Unstructured<'_>) -> Result<()> {
    let host = bytes.arbitrary::<Shape>()?.at_most(LARGEST_HEAP).build();
    let mut metadata = copy(host.heap());
    let content = bytes.peek_bytes(bytes.len()).unwrap_or_default();
    if !content.is_empty() {
        let body = &mut metadata[size_of::<Core>()..];
        for (byte, new) in body.iter_mut().zip(content.iter().cycle()) {
            *byte = *new;
        }
    }
    read(metadata);
    Ok(())
}

/// A heap that was used, and then damaged here and there.
fn damaged(bytes: &mut Unstructured<'_>) -> Result<()> {
    let shape = bytes.arbitrary::<Shape>()?.at_most(LARGEST_HEAP);
    let host = shape.build();
    // SAFETY: nobody uses it yet.
    let stale = unsafe { host.reset() };
    let mut shadow = Shadow::new(host.heap(), stale);
    shadow.apply(&Operation::StandIn(0));
    for _ in 0..bytes.arbitrary::<u8>()? {
        shadow.apply(&operation(bytes, shape)?);
    }
    let sound = copy(host.heap());
    let mut metadata = sound.clone();
    for _ in 0..MOST_DAMAGE {
        if bytes.is_empty() {
            break;
        }
        damage(bytes, &mut metadata, host.heap().layout())?;
    }
    if metadata == sound {
        let snapshot = Snapshot::new(sound).expect("a heap");
        assert_eq!(snapshot.check(), Ok(()));
        assert_eq!(snapshot.live().count(), shadow.live().count());
    } else {
        read(metadata);
    }
    Ok(())
}

/// Changes a bit, a byte, a word or the length.
fn damage(bytes: &mut Unstructured<'_>, metadata: &mut Vec<u8>, layout: &Layout) -> Result<()> {
    if metadata.is_empty() {
        return Ok(());
    }
    let kind: u8 = bytes.arbitrary()?;
    let place = usize::try_from(bytes.arbitrary::<u32>()?).expect("fits") % metadata.len();
    match kind {
        0..60 => metadata[place] ^= 1 << (kind % 8),
        60..100 => metadata[place] = bytes.arbitrary()?,
        100..110 => metadata[place % size_of::<Core>()..][..1].fill(bytes.arbitrary()?),
        110..115 => metadata.truncate(place),
        115..120 => metadata.extend(std::iter::repeat_n(kind, place % 64)),
        _ => {
            let starts = arrays(layout);
            let start = starts[usize::from(kind) % starts.len()];
            let word = start + place % (metadata.len().saturating_sub(start) / 8).clamp(1, 256) * 8;
            let value = word_value(bytes)?.to_le_bytes();
            if let Some(word) = metadata.get_mut(word..word + 8) {
                word.copy_from_slice(&value);
            }
        }
    }
    Ok(())
}

/// A value at an edge of what words mean, or any.
fn word_value(bytes: &mut Unstructured<'_>) -> Result<u64> {
    let kind: u8 = bytes.arbitrary()?;
    Ok(match kind {
        0 => 0,
        1 => u64::MAX,
        2..66 => 1 << (kind - 2),
        66..130 => u64::MAX >> (kind - 66),
        130..194 => u64::MAX << (kind - 130),
        _ => bytes.arbitrary()?,
    })
}

/// Where the arrays of the metadata begin.
fn arrays(layout: &Layout) -> [usize; 10] {
    let at = layout.offsets;
    [
        at.globals,
        at.classes,
        at.counters,
        at.set_states,
        at.set_summaries,
        at.set_words,
        at.stripes,
        at.entries,
        at.slabs,
        at.slot_words,
    ]
    .map(index)
}

/// Asks a snapshot for everything.
fn read(metadata: Vec<u8>) {
    let snapshot = match Snapshot::new(metadata) {
        Ok(snapshot) => snapshot,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(!format!("{snapshot:?}").is_empty());
    let layout = *snapshot.layout();
    let violations = snapshot.violations();
    assert!(violations.len() <= MAX_VIOLATIONS);
    assert_eq!(snapshot.check().err(), violations.first().copied());
    for violation in &violations {
        assert!(!violation.to_string().contains('\n'));
    }
    // Blocks lie in the heap one after the other, so there are no more than fit.
    let (mut end, mut blocks, mut bytes) = (snapshot.base(), 0, 0);
    for block in snapshot.live() {
        assert!(block.address >= end && block.bytes > 0, "{block:?}");
        end = block.address + block.bytes;
        assert!(end <= snapshot.base() + layout.capacity, "{block:?}");
        blocks += 1;
        bytes += block.bytes;
    }
    assert_eq!(snapshot.is_empty(), blocks == 0);
    assert_eq!(
        snapshot.leaks().iter().map(|leak| leak.blocks).sum::<u64>(),
        blocks
    );
    assert_eq!(snapshot.page_map().len(), snapshot.page_count() as usize);
    let occupancy = snapshot.occupancy();
    assert_eq!(
        (occupancy.used_blocks, occupancy.used_bytes),
        (blocks, bytes)
    );
    let pages = occupancy.pages;
    assert_eq!(
        pages.free + pages.in_slabs + pages.in_runs + pages.lost,
        u64::from(snapshot.page_count())
    );
    assert!((0.0..=1.0).contains(&occupancy.external_fragmentation));
    assert!(
        occupancy
            .internal_fragmentation
            .is_none_or(|share| (0.0..=1.0).contains(&share))
    );
}
