//! A small generator of numbers, the same in each run.

/// Numbers from a seed: a multiply and an xorshift (`SplitMix64`).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A size of 1 to `most` bytes, small ones as likely as large ones.
    pub fn size(&mut self, most: u64) -> u64 {
        let power = self.below(u64::from(most.ilog2()) + 1);
        (1 + self.below(2 << power)).min(most)
    }
}
