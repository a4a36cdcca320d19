//! How much may be kept: a share of what there is, and less when memory runs short.
//!
//! What is kept in one size cannot serve another one, so it is looked at whenever the upstream would have
//! to get more memory. What is kept beyond the share goes back then, the largest blocks first: they are
//! most of the bytes, and are asked for least often. When the device is nearly full nothing is kept then, and
//! threads keep less from then on, until there is room again.
//!
//! Large blocks have a share of their own, of the memory there is: they are few, so that little else would use
//! what they leave, and they may have to be stitched or got from the device if they are not kept.

use super::classes::{bytes_of, first_large};
use super::thread_cache::Batch;
use super::{Caching, MemoryResource, Result};
use crate::device::MemoryInfo;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The share of what the upstream handed out that may be kept when it needs more: one over this.
const SPARE_SHARE: u64 = 100;
/// As much may be kept in any case, so that threads that begin do not take from others what these are about
/// to use.
const LEAST_SHARE: u64 = 20 << 20;
/// The share of all memory that may be kept in large blocks: one over this.
const LARGE_SHARE: u64 = 8;
/// A thread may keep one over this of all memory, if that is more than the usual.
const THREAD_SHARE: u64 = 32;
/// How many times the share is so much that everything goes back.
const MUCH: u64 = 2;
/// A device is nearly full if less than one over this of its memory is free.
const FULL_SHARE: u64 = 10;
/// Threads keep one over this of what they may when the device is nearly full.
const PRESSED_SHARE: u64 = 8;

/// How often way is made by what was seen of the memory before it is looked at again, which takes longer than the
/// rest.
const LOOKS: u32 = 16;

/// What was seen of the upstream's memory.
#[derive(Debug, Default)]
pub(super) struct Seen {
    memory: Option<MemoryInfo>,
    /// How often it may be used again.
    left: u32,
}

impl Seen {
    fn memory(&mut self, upstream: &impl MemoryResource) -> Result<MemoryInfo> {
        if let Some(memory) = self.memory
            && self.left > 0
        {
            self.left -= 1;
            return Ok(memory);
        }
        let memory = upstream.memory()?;
        *self = Self {
            memory: Some(memory),
            left: LOOKS,
        };
        Ok(memory)
    }
}

/// Bytes that a thread may keep of each stream.
#[derive(Debug)]
pub(super) struct PerThread {
    usual: AtomicU64,
    now: AtomicU64,
    /// Whether it was set; else it may grow with the memory.
    is_set: AtomicBool,
}

impl PerThread {
    /// As it is set, else so many bytes at least.
    pub fn new(least: u64, set: Option<u64>) -> Self {
        let bytes = set.unwrap_or(least);
        Self {
            usual: AtomicU64::new(bytes),
            now: AtomicU64::new(bytes),
            is_set: AtomicBool::new(set.is_some()),
        }
    }

    /// There is so much memory in all.
    pub fn grow(&self, total: u64) {
        if self.is_set.load(Ordering::Relaxed) {
            return;
        }
        let share = total / THREAD_SHARE;
        let before = self.usual.fetch_max(share, Ordering::Relaxed);
        // If memory runs short meanwhile, that counts.
        let _changed = self.now.compare_exchange(
            before,
            share.max(before),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Whether it is less than usual.
    pub fn is_pressed(&self) -> bool {
        self.now() < self.usual.load(Ordering::Relaxed)
    }

    /// How much it is now.
    #[inline]
    pub fn now(&self) -> u64 {
        // Relaxed, here and below: a limit that changes a little later does no harm.
        self.now.load(Ordering::Relaxed)
    }

    pub fn set(&self, bytes: u64) {
        self.is_set.store(true, Ordering::Relaxed);
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
        let mut seen = self.moving.write();
        let kept = self.kept();
        if kept.iter().all(|bytes| *bytes == 0) {
            return Ok(false);
        }
        let memory = seen.memory(&self.upstream)?;
        self.bytes_per_thread.grow(memory.total);
        let drained = if memory.free < memory.total / FULL_SHARE {
            self.bytes_per_thread.shrink();
            self.drain()
        } else {
            self.bytes_per_thread.restore();
            // Relaxed: as in `request`.
            let share = (self.held.load(Ordering::Relaxed) / SPARE_SHARE).max(LEAST_SHARE);
            let (small, large) = kept.split_at(first_large().min(kept.len()));
            let mut drained = self.drain_classes(beyond(small, 0, share));
            let share = share.max(memory.total / LARGE_SHARE);
            drained.extend(self.drain_classes(beyond(large, small.len(), share)));
            drained
        };
        Ok(self.return_all(drained)? > 0)
    }

    /// Bytes that are kept of each class.
    fn kept(&self) -> Vec<u64> {
        let mut blocks = vec![0; self.shelves.len()];
        for class in self.stocked_shelves() {
            blocks[class] = self.shelves[class].lock().len() as u64;
        }
        for own in self.threads.iter() {
            own.0.lock().count(&mut blocks);
        }
        let bytes = |(class, blocks)| bytes_of(class) * blocks;
        blocks.into_iter().enumerate().map(bytes).collect()
    }

    /// Takes out what is kept of some classes.
    fn drain_classes(&self, classes: Range<usize>) -> Vec<Batch> {
        let mut batches = Vec::new();
        if classes.is_empty() {
            return batches;
        }
        for own in self.threads.iter() {
            batches.extend(own.0.lock().drain_classes(classes.clone()));
        }
        for class in self
            .stocked_shelves()
            .filter(|class| classes.contains(class))
        {
            batches.extend(self.clear_shelf(class));
        }
        batches
    }
}

/// The largest classes without which no more than half of a share is kept, if it is more than the share
/// now. The bytes are those of the classes from `first` on.
fn beyond(kept: &[u64], first: usize, share: u64) -> Range<usize> {
    let end = first + kept.len();
    let mut left: u64 = kept.iter().sum();
    if left <= share {
        return end..end;
    }
    // Much of it was freed at once. Small blocks of it lie everywhere, and would keep the large ones
    // from being merged.
    if left > share * MUCH {
        return first..end;
    }
    for (class, bytes) in kept.iter().enumerate().rev() {
        left -= bytes;
        if left <= share / 2 {
            return first + class..end;
        }
    }
    first..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_drained_until_half_of_the_share_is_left() {
        let kept = [10, 0, 30, 40, 0];
        for (share, first) in [(100, 5), (80, 5), (79, 2), (40, 2), (39, 0), (0, 0)] {
            assert_eq!(beyond(&kept, 0, share), first..5, "{share}");
            assert_eq!(beyond(&kept, 7, share), 7 + first..12, "{share}");
        }
    }
}
