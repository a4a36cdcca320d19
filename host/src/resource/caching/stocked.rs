//! Which shelves have something, so that empty ones need not be looked at.
//!
//! Invariant: a bit is changed under the lock of its shelf only, and says then whether that has blocks.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each shelf.
#[derive(Debug)]
pub(super) struct Stocked(Box<[AtomicU64]>);

impl Stocked {
    /// All are empty.
    pub fn new(shelves: usize) -> Self {
        Self(
            (0..shelves.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
        )
    }

    /// Says of a shelf whether it has blocks. The caller has its lock.
    pub fn set(&self, class: usize, has_some: bool) {
        let (word, bit) = (&self.0[class / 64], 1 << (class % 64));
        // Relaxed, here and below: the blocks are found under the shelf's lock. Who does not see the bit yet
        // comes as if it came before them.
        if has_some {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// The first from `first` to `last` that has blocks.
    pub fn next(&self, first: usize, last: usize) -> Option<usize> {
        let mut class = first;
        while class <= last {
            let bits = self.0.get(class / 64)?.load(Ordering::Relaxed) >> (class % 64);
            if bits > 0 {
                class += bits.trailing_zeros() as usize;
                return (class <= last).then_some(class);
            }
            class = (class / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_is_found_across_words() {
        let stocked = Stocked::new(200);
        assert_eq!(stocked.next(0, 199), None);
        stocked.set(130, true);
        stocked.set(63, true);
        assert_eq!(stocked.next(0, 62), None);
        assert_eq!(stocked.next(0, 199), Some(63));
        assert_eq!(stocked.next(64, 199), Some(130));
        assert_eq!(stocked.next(131, 500), None);
        stocked.set(63, false);
        assert_eq!(stocked.next(0, 199), Some(130));
    }
}
