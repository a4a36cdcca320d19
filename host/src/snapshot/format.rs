//! Snapshots as bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 4 | [`VERSION`], little endian as all numbers |
//! | 4 | length of the head |
//! | 8 | length of the body |
//! | … | the head: the [`Origin`] and the heap's shape, as JSON |
//! | … | the body: the heap's metadata, as an LZ4 frame |
//! | 4 | CRC-32 of everything before |
//!
//! A reader takes no length's word for it: bytes are read as far as there are any, and metadata
//! are unpacked as far as the body reaches and no further than a heap of the head's capacity has.
//! LZ4 makes at most 255 bytes of one, so a small hostile file asks for little memory.

use super::{Origin, Snapshot, SnapshotError};
use heap_core::inspect;
use heap_core::layout::Layout;
use lz4_flex::frame::{FrameDecoder, FrameEncoder};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// The first bytes of a file.
pub(super) const MAGIC: [u8; 8] = *b"SCTRSNAP";
/// The version of the format.
pub const VERSION: u32 = 9;

/// Bytes before the head.
const PREFIX_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 4;
/// A head has a few hundred bytes; names of devices are not longer than this.
const MAX_HEAD_BYTES: u32 = 1 << 16;

/// The head. The shape is told twice, here for people and programs that do not read metadata.
#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(flatten)]
    origin: Origin,
    /// Bytes that the heap can allocate.
    capacity: u64,
    /// Stripes of a class.
    stripes: u32,
    /// Flags that the heap was made with.
    flags: u32,
    /// Length of the metadata in bytes.
    metadata_bytes: u64,
}

impl Snapshot {
    /// The snapshot in the format of its files.
    ///
    /// # Errors
    ///
    /// None that is known: writing to memory does not fail.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let layout = self.layout();
        let head = serde_json::to_vec(&Head {
            origin: self.origin.clone(),
            capacity: layout.capacity,
            stripes: layout.stripes,
            flags: self.flags(),
            metadata_bytes: layout.metadata_bytes,
        })?;
        let mut body = FrameEncoder::new(Vec::new());
        body.write_all(self.metadata())?;
        let body = body.finish()?;

        let mut bytes = Vec::with_capacity(PREFIX_BYTES + head.len() + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        let head_length = u32::try_from(head.len()).map_err(io::Error::other)?;
        bytes.extend_from_slice(&head_length.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        Ok(bytes)
    }

    /// The snapshot in `bytes`, which [`to_bytes`](Self::to_bytes) gave.
    ///
    /// # Errors
    ///
    /// If they are anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotError> {
        Self::read(bytes)
    }

    /// Reads a snapshot up to the end.
    pub(super) fn read(mut reader: impl Read) -> Result<Self, SnapshotError> {
        let mut bytes = Vec::new();
        let mut read_up_to = |length: u64, bytes: &mut Vec<u8>| {
            let missing = length.saturating_sub(bytes.len() as u64);
            let limited = reader.by_ref().take(missing).read_to_end(bytes);
            limited.map_err(SnapshotError::Read)
        };
        read_up_to(PREFIX_BYTES as u64, &mut bytes)?;
        let (head, body) = lengths(&bytes)?;
        let length = (PREFIX_BYTES + CHECKSUM_BYTES) as u64 + u64::from(head);
        let length = length.saturating_add(body);
        // One more, to see whether the file ends there.
        read_up_to(length.saturating_add(1), &mut bytes)?;
        let content = content(&bytes, length)?;

        let (head, body) = content.split_at(head as usize);
        let head: Head = serde_json::from_slice(head).map_err(SnapshotError::Head)?;
        let metadata = unpack(&head, body)?;
        let content = inspect::Snapshot::new(metadata).map_err(SnapshotError::Metadata)?;
        let layout = content.layout();
        if (layout.capacity, layout.stripes, content.flags())
            != (head.capacity, head.stripes, head.flags)
        {
            return Err(SnapshotError::Contradiction);
        }
        Ok(Self {
            content,
            origin: head.origin,
        })
    }
}

/// Lengths of the head and of the body, told by the first bytes of a file.
fn lengths(bytes: &[u8]) -> Result<(u32, u64), SnapshotError> {
    if !bytes.starts_with(&MAGIC) {
        let beginning = &bytes[..bytes.len().min(MAGIC.len())];
        if MAGIC.starts_with(beginning) && !beginning.is_empty() {
            return Err(SnapshotError::TooShort);
        }
        return Err(SnapshotError::NotASnapshot {
            found: String::from_utf8_lossy(beginning).into_owned(),
        });
    }
    let Some((_, [a, b, c, d, head @ ..])) = bytes.split_at_checked(MAGIC.len()) else {
        return Err(SnapshotError::TooShort);
    };
    let version = u32::from_le_bytes([*a, *b, *c, *d]);
    if version != VERSION {
        return Err(SnapshotError::Version { found: version });
    }
    let Some((head, body)) = head.split_first_chunk() else {
        return Err(SnapshotError::TooShort);
    };
    let body = body.try_into().map_err(|_| SnapshotError::TooShort)?;
    let (head, body) = (u32::from_le_bytes(*head), u64::from_le_bytes(body));
    if head > MAX_HEAD_BYTES {
        return Err(SnapshotError::HeadLength { found: head });
    }
    Ok((head, body))
}

/// What is between the prefix and the checksum of a file that is to be `length` bytes long.
fn content(bytes: &[u8], length: u64) -> Result<&[u8], SnapshotError> {
    if (bytes.len() as u64) < length {
        return Err(SnapshotError::TooShort);
    }
    if bytes.len() as u64 > length {
        return Err(SnapshotError::TooLong);
    }
    let (before, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if crc32fast::hash(before).to_le_bytes() != checksum {
        return Err(SnapshotError::Checksum);
    }
    Ok(&before[PREFIX_BYTES..])
}

/// The metadata, as many as a heap of the head's shape has.
fn unpack(head: &Head, body: &[u8]) -> Result<Vec<u8>, SnapshotError> {
    let layout = Layout::new(head.capacity, head.stripes);
    if layout.map(|layout| layout.metadata_bytes) != Ok(head.metadata_bytes) {
        return Err(SnapshotError::OtherLayout {
            version: head.origin.version.clone(),
        });
    }
    let mut metadata = Vec::new();
    // One more, to see whether they end there.
    let mut decoder = FrameDecoder::new(body).take(head.metadata_bytes.saturating_add(1));
    decoder
        .read_to_end(&mut metadata)
        .map_err(SnapshotError::Unpack)?;
    if metadata.len() as u64 != head.metadata_bytes {
        return Err(SnapshotError::MetadataLength {
            expected: head.metadata_bytes,
        });
    }
    Ok(metadata)
}
