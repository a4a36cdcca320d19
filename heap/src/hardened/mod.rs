//! Modes that find what a plain heap cannot, for programs under suspicion. A heap has them from
//! when it is made.
//!
//! The fast paths see by a word of the handle that a heap has modes (of `malloc` it is the limit of what they serve), and then come here, out of
//! line. Here the plain paths are called, out of line too: what they promise holds for slots and
//! runs as ever, and metadata stay apart from user memory.
//!
//! # Frames
//!
//! In all modes but [`ZERO`](Hardening::ZERO) and [`TRAP`](Hardening::TRAP), a slot or run is *framed*:
//!
//! ```text
//! | header, 16 bytes | gap, if aligned to more | bytes asked for | tail |
//! ^ slot                                       ^ the user's pointer       ^ slot's end
//! ```
//!
//! The header tells the bytes asked for, the distance from the slot to the user's pointer, a site,
//! and whether the block is live or freed; a *seal* over all of that and the slot's address shows
//! whether it was written over. Only the thread whose atomic turns the seal from live to freed
//! frees the block. So a second free is refused before it comes to the bitmap, at any time until
//! the slot is handed out again.

mod block;
mod fill;
mod frame;
mod header;
mod modes;
mod quarantine;

pub use header::Header;
pub use modes::{Hardening, UnknownMode};

/// What freed memory is filled with.
pub const POISON: u8 = 0xdb;
/// What gaps and tails are filled with.
pub const CANARY: u8 = 0xca;
/// Bytes of a tail at least, where the heap has red zones.
pub const LEAST_TAIL: u64 = 8;
