//! What a player leaves in its blocks: who it is, and when it was there.

use crate::sizes::mix;

/// Bits of a round and of a launch.
pub const ROUND_BITS: u32 = 20;
/// Bits of a thread.
pub const THREAD_BITS: u32 = 24;

/// A launch, a thread and a round in one word that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp of a round.
    #[must_use]
    pub const fn new(launch: u64, thread: u64, round: u64) -> Self {
        Self(((launch << THREAD_BITS | thread) << ROUND_BITS) | (round + 1))
    }

    /// The stamp of a word, if it is one.
    #[must_use]
    pub const fn of(word: u64) -> Option<Self> {
        if word & ((1 << ROUND_BITS) - 1) == 0 {
            None
        } else {
            Some(Self(word))
        }
    }

    /// As a word.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The word that is left beside it, which tells it from any other.
    #[must_use]
    pub const fn companion(self) -> u64 {
        mix(self.0)
    }

    /// The launch.
    #[must_use]
    pub const fn launch(self) -> u64 {
        self.0 >> (THREAD_BITS + ROUND_BITS)
    }

    /// The thread.
    #[must_use]
    pub const fn thread(self) -> u64 {
        self.0 >> ROUND_BITS & ((1 << THREAD_BITS) - 1)
    }

    /// The round.
    #[must_use]
    pub const fn round(self) -> u64 {
        (self.0 & ((1 << ROUND_BITS) - 1)) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_tells_who_and_when() {
        for (launch, thread, round) in [(0, 0, 0), (7, 1, 2), (1 << 19, (1 << 24) - 1, 1 << 19)] {
            let stamp = Stamp::of(Stamp::new(launch, thread, round).word()).expect("not empty");
            assert_eq!(
                (stamp.launch(), stamp.thread(), stamp.round()),
                (launch, thread, round)
            );
        }
        assert_eq!(Stamp::of(0), None);
    }
}
