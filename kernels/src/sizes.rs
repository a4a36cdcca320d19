//! Which sizes the threads of a stress kernel ask for.

use bytemuck::{Pod, Zeroable};

/// Sizes from `least` to `most` bytes, evenly spread by a hash of the thread and the round.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Sizes {
    /// Smallest size in bytes, at least 1.
    pub least: u64,
    /// Largest size in bytes.
    pub most: u64,
    /// Different seeds give different sizes to the same thread and round.
    pub seed: u64,
}

impl Sizes {
    /// The size that thread `thread` asks for in round `round`.
    #[inline]
    #[must_use]
    pub fn of(&self, thread: u64, round: u64) -> u64 {
        let range = self.most - self.least + 1;
        let hash = mix(self.seed ^ mix(thread << 20 ^ round));
        // The upper half of hash * range, without division.
        self.least + ((u128::from(hash) * u128::from(range)) >> 64) as u64
    }
}

/// Spreads a number over 64 bits (the finaliser of `SplitMix64`).
#[inline]
#[must_use]
pub const fn mix(number: u64) -> u64 {
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_cover_their_range() {
        let sizes = Sizes {
            least: 3,
            most: 6,
            seed: 1,
        };
        let mut seen = [0; 8];
        for thread in 0..1000 {
            seen[usize::try_from(sizes.of(thread, 5)).expect("small")] += 1;
        }
        assert_eq!((seen[2], seen[7]), (0, 0));
        assert!(
            seen[3..7].iter().all(|count| (200..300).contains(count)),
            "{seen:?}"
        );
    }
}
