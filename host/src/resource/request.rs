//! What all resources check of a call before anything else, and how they round.

use super::{Error, Result};
use crate::device::{Device, Stream};

/// Every block begins at a multiple of this many bytes, and has a multiple of it.
pub const DEFAULT_ALIGNMENT: u64 = 256;

/// The most bytes of one block, and the largest alignment.
pub const MAX_BYTES: u64 = 1 << 47;

/// Checks a size and an alignment; the alignment to use.
#[inline]
pub(super) fn check(resource: &'static str, bytes: u64, alignment: u64) -> Result<u64> {
    if bytes == 0 {
        return Err(Error::ZeroBytes);
    }
    if !alignment.is_power_of_two() {
        return Err(Error::BadAlignment(alignment));
    }
    if bytes > MAX_BYTES || alignment > MAX_BYTES {
        return Err(too_large(resource, bytes, alignment));
    }
    Ok(alignment.max(DEFAULT_ALIGNMENT))
}

#[cold]
fn too_large(resource: &'static str, bytes: u64, alignment: u64) -> Error {
    let most = MAX_BYTES;
    if bytes > most {
        return Error::TooLarge {
            resource,
            asked: bytes,
            most,
        };
    }
    Error::AlignmentTooLarge {
        resource,
        asked: alignment,
        most,
    }
}

/// Checks that a stream is of the resource's device.
#[inline]
pub(super) fn check_stream(device: &Device, stream: &Stream) -> Result<()> {
    if device.is_same(stream.device()) {
        return Ok(());
    }
    Err(wrong_device(device, stream.device()))
}

#[cold]
pub(super) fn wrong_device(device: &Device, other: &Device) -> Error {
    Error::WrongDevice {
        resource: device.label(),
        stream: other.label(),
    }
}

/// Bytes that a block takes: a multiple of [`DEFAULT_ALIGNMENT`]. The bytes were checked.
#[inline]
pub(super) fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(DEFAULT_ALIGNMENT)
}
