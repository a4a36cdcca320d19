//! Settings of a cache.

use super::super::{Error, MAX_BYTES, MemoryResource, Result};
use super::{Caching, LARGEST};

/// Settings of a [`Caching`] resource.
#[derive(Clone, Debug)]
pub struct CachingBuilder<U> {
    upstream: U,
    largest: u64,
    bytes_per_thread: Option<u64>,
}

impl<U: MemoryResource> CachingBuilder<U> {
    pub(super) fn new(upstream: U) -> Self {
        Self {
            upstream,
            largest: LARGEST,
            bytes_per_thread: None,
        }
    }

    /// The largest blocks that are kept, in bytes: 1 GiB if nothing is said. Larger ones go back to
    /// the upstream at once.
    #[must_use]
    pub fn largest(mut self, bytes: u64) -> Self {
        self.largest = bytes;
        self
    }

    /// Bytes that a thread keeps for itself of each stream at most: 256 MiB if nothing is said, or a 32nd of the
    /// memory if that is more. What is more goes where all threads find it, and so does a block that is larger.
    #[must_use]
    pub fn bytes_per_thread(mut self, bytes: u64) -> Self {
        self.bytes_per_thread = Some(bytes);
        self
    }

    /// The resource, which keeps nothing yet.
    ///
    /// # Errors
    ///
    /// If a setting makes no sense.
    pub fn build(self) -> Result<Caching<U>> {
        if self.largest == 0 || self.largest > MAX_BYTES {
            return Err(Error::BadSettings {
                asked: format!("blocks of {} bytes at most in a cache", self.largest),
                advice: "use at least one, and at most 128 TiB",
            });
        }
        Ok(Caching::with(
            self.upstream,
            self.largest,
            self.bytes_per_thread,
        ))
    }
}
