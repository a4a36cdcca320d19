//! The file that the recorder fills while a program runs.
//!
//! It is a [`RawHeader`] and then [`RawRecord`]s, in the machine's own byte order: it is converted where it was made,
//! and then deleted. The recorder maps the whole file, claims records by counting [`RawHeader::claimed`] up, and writes
//! a record's kind last; so whatever way the program ends, what was recorded is in the file, and a record that was
//! claimed but not finished has kind 0.
//!
//! The order of the records is the order of the claims. A free and the first half of a realloc are claimed *before* the
//! real call, everything else *after* it; so when an address is used again, the record of its free comes first.

use bytemuck::{Pod, Zeroable};

/// The first bytes of a recording; the digit is the format's version.
pub const MAGIC: [u8; 8] = *b"SCRAWTR1";

/// A record of a finished `malloc`, or of an allocation with an alignment.
pub const MALLOC: u32 = 1;
/// A record of a finished `calloc`.
pub const CALLOC: u32 = 2;
/// A record of a `free` that is about to happen.
pub const FREE: u32 = 3;
/// A record of a `realloc` that is about to happen: the old address and the new size.
pub const REALLOC_BEGIN: u32 = 4;
/// A record of a finished `realloc`, by the same thread as the last `REALLOC_BEGIN`: the new address (0 if it failed, or
/// if the new size was 0 and the object was freed) and the new size.
pub const REALLOC_END: u32 = 5;

/// The start of a recording.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct RawHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// The process that records, as the operating system numbers it.
    pub process: u32,
    /// Zero.
    pub padding: u32,
    /// How many records were claimed. It keeps counting when the file is full.
    pub claimed: u64,
    /// How many records the file has room for.
    pub capacity: u64,
}

/// One call, or half of one.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct RawRecord {
    /// The object's address.
    pub address: u64,
    /// The requested size in bytes.
    pub size: u64,
    /// The requested alignment in bytes.
    pub alignment: u32,
    /// A number that is this thread's alone. [`convert`](fn@crate::convert) gives others, in order.
    pub thread: u32,
    /// One of the constants of this module; 0 if the record was not finished.
    pub kind: u32,
    /// Zero.
    pub padding: u32,
}
