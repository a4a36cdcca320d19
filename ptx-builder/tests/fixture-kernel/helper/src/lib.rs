//! A path dependency of the fixture kernel: its sources must be watched too.
#![no_std]

/// The value that the thread with this index stores.
#[must_use]
pub fn value_of(index: u32) -> u32 {
    index + 1
}
