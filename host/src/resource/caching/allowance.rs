//! How much larger than what was asked for large blocks may be, all of them together.
//!
//! Large blocks are few, and their sizes seldom come again. So one that is kept may serve a request that is
//! smaller by up to a third of it, though that wastes memory as long as it is handed out. What is wasted
//! by that is never more than a small share of the memory: a thread needs an *allowance* for it, which
//! it gets by chunks of what is left, and which comes back with the block.
//!
//! Invariant: what is left, the threads' allowances and the waste of blocks that are handed out are the share
//! together.

use super::classes::{first_large, reach, waste};
use super::{Caching, MemoryResource, Own};
use std::sync::atomic::{AtomicU64, Ordering};

/// The share of the memory that may be wasted: one over this.
const SHARE: u64 = 128;
/// A thread gets one over this of the share at once, if that is enough.
const CHUNKS: u64 = 64;

/// What threads may waste.
#[derive(Debug, Default)]
pub(super) struct Waste {
    left: AtomicU64,
    /// Bytes that a thread gets at once; 0 as long as the memory is not known.
    chunk: AtomicU64,
}

impl Waste {
    /// Says how much memory there is. Only the first time counts.
    pub fn set(&self, total: u64) {
        let chunk = (total / SHARE / CHUNKS).max(1);
        // Relaxed, here and below: numbers of their own, nothing is read through them.
        let first = self
            .chunk
            .compare_exchange(0, chunk, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() {
            self.left.fetch_add(total / SHARE, Ordering::Relaxed);
        }
    }

    fn chunk(&self) -> u64 {
        self.chunk.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> Option<u64> {
        let rest = |left: u64| left.checked_sub(bytes);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        taken.ok().map(|_| bytes)
    }

    /// Takes back what a thread does not need.
    pub fn put(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl<U: MemoryResource> Caching<U> {
    /// Gets the calling thread an allowance for a block that may be much larger than the class; whether it
    /// got one.
    pub(super) fn allow_waste(&self, own: &Own, class: usize) -> bool {
        if class < first_large() || self.bytes_per_thread.is_pressed() {
            return false;
        }
        if self.waste.chunk() == 0 {
            // Where it cannot be told nothing may be wasted.
            let total = self.upstream.memory().map_or(0, |memory| memory.total);
            self.waste.set(total);
            self.bytes_per_thread.grow(total);
        }
        let most = waste(class, reach(class));
        let mut cache = own.0.lock();
        if cache.allowance >= most {
            return false;
        }
        let missing = most - cache.allowance;
        let allowance = self.waste.take(missing.max(self.waste.chunk()));
        cache.allowance += allowance.unwrap_or(0);
        allowance.is_some()
    }

    /// Gives the calling thread back what a block that is freed wasted.
    #[cold]
    #[inline(never)]
    pub(super) fn recover_waste(&self, class: usize, beyond: u8) {
        let bytes = waste(class, usize::from(beyond));
        if bytes == 0 {
            return;
        }
        let mut cache = self.threads.own().0.lock();
        cache.allowance += bytes;
        let chunk = self.waste.chunk();
        if cache.allowance > 4 * chunk.max(bytes) {
            let spare = cache.allowance - chunk.max(bytes);
            cache.allowance -= spare;
            self.waste.put(spare);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_share_is_given_out() {
        let waste = Waste::default();
        assert_eq!(waste.take(1), None);
        waste.set(SHARE * 100);
        waste.set(SHARE * 1000);
        assert_eq!(waste.take(101), None);
        assert_eq!(waste.take(60), Some(60));
        assert_eq!(waste.take(60), None);
        waste.put(60);
        assert_eq!(waste.take(100), Some(100));
    }
}
