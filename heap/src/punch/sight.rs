//! What is noted of looks at slabs that were in vain.

use crate::hints::log2;

/// What is known of a slab before it is looked through. If that is in vain it is noted, so that nobody looks again who knows no more.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    /// How often slots of it may have been given to somebody. Else blocks that came since might be counted for those that went, and the slab be taken for the one that was here before.
    pub(super) given: u32,
    /// Units that its stripe may still draw, of which nobody counts how many were.
    pub(super) left: u32,
    /// Slots in use.
    pub(super) used: u32,
}

impl Sight {
    /// Of a number of units or slots, which are fewer.
    const LEFT: u64 = (1 << 24) - 1;

    /// The note of it: how often slots may have been given in the upper half, then the [power](Self::power), and units left in the lowest 24 bits.
    pub(super) fn note(self) -> u64 {
        u64::from(self.given) << 32
            | u64::from(self.power()) << 24
            | u64::from(self.left) & Self::LEFT
    }

    /// One more than the logarithm of the slots in use.
    fn power(self) -> u32 {
        log2(self.used) + 1
    }

    /// Whether a look may show more than what was noted of the one before: slots may have been given since, units were drawn, or fewer are in use than the power of two at or below what was.
    #[allow(clippy::verbose_bit_mask, reason = "the power, and not its zeroes")]
    pub(super) fn may_show_more_than(self, noted: u64) -> bool {
        noted >> 32 != u64::from(self.given)
            || noted & Self::LEFT != u64::from(self.left)
            || u64::from(self.power()) < noted >> 24 & 0xff
            || noted >> 24 & 0xff == 0
    }
}
