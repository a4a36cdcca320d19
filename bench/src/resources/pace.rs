//! When a part of a measurement is over: looked up on the clock so seldom that a fast allocator is not disturbed, and
//! so often that a slow one stops soon.

use std::time::{Duration, Instant};

/// Operations between two looks at most: a look costs some tens of nanoseconds, so less than a fifth of one each.
const LONGEST: u64 = 256;
/// The share of its time that a part may spend between two looks: one over this.
const SHARE: u32 = 64;

/// The time of a part, which begins when this is made.
#[derive(Debug)]
pub(super) struct Pace {
    begin: Instant,
    limit: Duration,
    last: Instant,
    stride: u64,
    left: u64,
}

impl Pace {
    pub fn new(limit: Duration) -> Self {
        let begin = Instant::now();
        Self {
            begin,
            limit,
            last: begin,
            stride: 1,
            left: 1,
        }
    }

    /// Counts an operation; whether the time is over.
    #[inline]
    pub fn is_over(&mut self) -> bool {
        self.left -= 1;
        self.left == 0 && self.look()
    }

    /// Looks at the clock, and says when to look again: after twice as many operations, or half if they
    /// took long.
    #[cold]
    fn look(&mut self) -> bool {
        let now = Instant::now();
        self.stride = if now - self.last > self.limit / SHARE {
            (self.stride / 2).max(1)
        } else {
            (self.stride * 2).min(LONGEST)
        };
        self.left = self.stride;
        self.last = now;
        now - self.begin >= self.limit
    }

    /// How long it has been.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Gives it so much time from its beginning on.
    pub fn extend(&mut self, limit: Duration) {
        self.limit = limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_operations_stop_soon_and_fast_ones_are_looked_at_seldom() {
        let limit = Duration::from_millis(100);
        let mut pace = Pace::new(limit);
        while !pace.is_over() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // A few operations late at most, each of which a loaded machine may take long for.
        assert!(pace.elapsed() < limit * 3, "{:?}", pace.elapsed());

        let mut pace = Pace::new(Duration::from_hours(1));
        assert!((0..1_000_000).all(|_| !pace.is_over()));
        assert_eq!(pace.stride, LONGEST);
    }
}
