//! How much may be kept: a share of what there is, and less when memory runs short.
//!
//! What is kept in one size cannot serve another one, so it is looked at whenever the upstream would have
//! to get more memory. What is kept beyond the share goes back then, the largest blocks first: they are
//! most of the bytes, and are asked for least often. When the device is nearly full nothing is kept then, and
//! threads keep less from then on, until there is room again.

use super::classes::bytes_of;
use super::thread_cache::Batch;
use super::{Caching, MemoryResource, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// The share of what the upstream handed out that may be kept when it needs more: one over this.
const SPARE_SHARE: u64 = 64;
/// A device is nearly full if less than one over this of its memory is free.
const FULL_SHARE: u64 = 10;
/// Threads keep one over this of what they may when the device is nearly full.
const PRESSED_SHARE: u64 = 8;

/// Bytes that a thread may keep of each stream.
#[derive(Debug)]
pub(super) struct PerThread {
    usual: AtomicU64,
    now: AtomicU64,
}

impl PerThread {
    pub fn new(bytes: u64) -> Self {
        Self {
            usual: AtomicU64::new(bytes),
            now: AtomicU64::new(bytes),
        }
    }

    /// How much it is now.
    #[inline]
    pub fn now(&self) -> u64 {
        // Relaxed, here and below: a limit that changes a little later does no harm.
        self.now.load(Ordering::Relaxed)
    }

    pub fn set(&self, bytes: u64) {
        self.usual.store(bytes, Ordering::Relaxed);
        self.now.store(bytes, Ordering::Relaxed);
    }

    /// Memory runs short.
    pub fn shrink(&self) {
        let usual = self.usual.load(Ordering::Relaxed);
        self.now.store(usual / PRESSED_SHARE, Ordering::Relaxed);
    }

    /// There is room again.
    pub fn restore(&self) {
        self.now
            .store(self.usual.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl<U: MemoryResource> Caching<U> {
    /// Gives back what is kept beyond the share; whether there was something.
    #[cold]
    pub(super) fn make_way(&self) -> Result<bool> {
        let _alone = self.moving.write();
        let kept = self.kept();
        let all: u64 = kept.iter().sum();
        let memory = self.upstream.memory()?;
        let share = if memory.free < memory.total / FULL_SHARE {
            self.bytes_per_thread.shrink();
            0
        } else {
            self.bytes_per_thread.restore();
            // Relaxed: as in `request`.
            self.held.load(Ordering::Relaxed) / SPARE_SHARE
        };
        if all <= share {
            return Ok(false);
        }
        let batches = self.drain_from(class_to_drain(&kept, all, share / 2));
        Ok(self.return_all(batches)? > 0)
    }

    /// Bytes that are kept of each class.
    fn kept(&self) -> Vec<u64> {
        let count = |shelf: &parking_lot::Mutex<super::Shelf>| shelf.lock().len() as u64;
        let mut blocks: Vec<_> = self.shelves.iter().map(count).collect();
        for own in &self.threads {
            own.0.lock().count(&mut blocks);
        }
        let bytes = |(class, blocks)| bytes_of(class) * blocks;
        blocks.into_iter().enumerate().map(bytes).collect()
    }

    /// Takes out what is kept of a class and of all larger ones.
    fn drain_from(&self, first: usize) -> Vec<Batch> {
        let mut batches = Vec::new();
        for own in &self.threads {
            batches.extend(own.0.lock().drain_from(first));
        }
        for (class, shelf) in self.shelves.iter().enumerate().skip(first) {
            batches.extend(shelf.lock().drain(class));
        }
        batches
    }
}

/// The largest class without which, and without all larger ones, no more than `share` bytes are kept.
fn class_to_drain(kept: &[u64], mut all: u64, share: u64) -> usize {
    for (class, bytes) in kept.iter().enumerate().rev() {
        all -= bytes;
        if all <= share {
            return class;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_drained_until_the_share_is_left() {
        let kept = [10, 0, 30, 40, 0];
        for (share, class) in [(100, 4), (80, 4), (79, 3), (40, 3), (39, 2), (9, 0)] {
            assert_eq!(class_to_drain(&kept, 80, share), class, "{share}");
        }
    }
}
