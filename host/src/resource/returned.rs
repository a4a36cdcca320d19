//! What came of giving several blocks back to an upstream that may refuse any of them: all others go back, and then the first
//! error is given.

use super::{Error, Result};
use crate::device::Device;

/// Bytes that are back, and the first error.
#[derive(Debug, Default)]
pub(super) struct Returned {
    bytes: u64,
    first: Option<Error>,
}

impl Returned {
    /// Counts a block of `bytes` bytes of the device, of which the upstream said this. Whether that has handed it out still, so that it is to
    /// be kept: not if it is gone, as all that a lost device had.
    pub fn add(&mut self, bytes: u64, said: Result<()>, device: &Device) -> bool {
        let Err(error) = said else {
            self.bytes += bytes;
            return false;
        };
        let is_there = !error.is_of_a_block_that_is_gone() && !device.is_lost();
        self.note(error);
        is_there
    }

    /// Keeps an error, if it is the first.
    pub fn note(&mut self, error: Error) {
        self.first.get_or_insert(error);
    }

    /// The bytes that are back.
    ///
    /// # Errors
    ///
    /// The first, if there was one.
    pub fn end(self) -> Result<u64> {
        self.first.map_or(Ok(self.bytes), Err)
    }
}
