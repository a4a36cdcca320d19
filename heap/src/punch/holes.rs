//! Which pages of a slab are empty.

use crate::slab::Slab;

/// At least this part of the pages that may be holes are.
const LEAST_SHARE: u32 = 4;
/// Pages of a slab, from its first on, that may be holes. What is drawn first lies behind them.
pub(super) const MOST_HOLES: u32 = 256;

/// Which pages of a slab are holes, counted from its first.
#[derive(Clone, Copy)]
pub(super) struct Holes([u32; (MOST_HOLES / u32::BITS) as usize]);

impl Holes {
    pub(super) const NONE: Self = Self([0; (MOST_HOLES / u32::BITS) as usize]);

    /// Those from `first` on and before `end`.
    pub(super) fn between(first: u32, end: u32) -> Self {
        let mut holes = Self::NONE;
        for (index, word) in (0..).zip(&mut holes.0) {
            let begin = index * u32::BITS;
            let below = |page: u32| {
                let bits = page.saturating_sub(begin);
                1_u32.checked_shl(bits).map_or(u32::MAX, |next| next - 1)
            };
            *word = below(end) & !below(first);
        }
        holes
    }

    /// Pages from `first` to `last` are none.
    pub(super) fn fill(&mut self, first: u32, last: u32) {
        for page in first..=last.min(MOST_HOLES) {
            if let Some(word) = self.0.get_mut((page / u32::BITS) as usize) {
                *word &= !(1 << (page % u32::BITS));
            }
        }
    }

    pub(super) fn has(&self, page: u32) -> bool {
        let word = self.0.get((page / u32::BITS) as usize);
        word.is_some_and(|word| word >> (page % u32::BITS) & 1 != 0)
    }

    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether so many pages of a slab are holes that it is worth it to punch these.
    pub(super) fn are_enough(&self, slab: Slab) -> bool {
        self.count() >= (slab.pages().min(MOST_HOLES) / LEAST_SHARE).max(1)
    }
}
