//! The word of a stripe: which slab it hands out, and how much of it is left.
//!
//! | bits | field |
//! |---|---|
//! | 0–17 | first page of the slab, or [`NO_PAGE`] |
//! | 18–21 | order of the slab |
//! | 22–29 | class |
//! | 30 | whether so much is alive of the slab that slots are not packed (`heap/src/packed.rs`): a hint |
//! | 31 | whether the row's [note](crate::stripe::ChurnNote) is to be looked at, by which slots may be packed: a hint |
//! | 32–34 | density: a unit spans `2^density` slots; 7 while the slab is rewound |
//! | 35–38 | generation, raised by each refill and each rewinding |
//! | 39–63 | units left, signed |
//!
//! A group of `count` lanes draws by subtracting `count` from the units left, which are the top
//! bits, so a borrow falls off the end and the other fields never change. It owns the units from
//! `left - count` to `left`. Exactly one group, or one thread that rewinds, takes `left` from zero or more to below zero: the
//! *crosser*, which alone refills the stripe. The 25 bits bear 2^24 failed draws between two
//! refills, far more than lanes can be in flight.

/// Page number that stands for "no slab". Heaps have at most [`crate::layout::MAX_PAGES`] pages.
pub const NO_PAGE: u32 = (1 << 18) - 1;

const ORDER_SHIFT: u32 = 18;
const CLASS_SHIFT: u32 = 22;
const CROWDED: u64 = 1 << 30;
const CHURNED: u64 = 1 << 31;
const DENSITY_SHIFT: u32 = 32;
const GENERATION_SHIFT: u32 = 35;
const LEFT_SHIFT: u32 = 39;
/// Units that a stripe under refill lacks, so that nobody can draw from it.
const REFILLING_LEFT: i32 = -1;

/// Slots of a slab, its lowest, among which those that are packed lie (`heap/src/packed.rs`): a power of two, and a word of the bitmap or more.
pub const PACKED_SLOTS: u32 = if cfg!(any(loom, shuttle)) { 32 } else { 128 };

/// Density of a stripe whose slab is being rewound: more than any other.
const REWINDING: u32 = 7;

/// A stripe's word, or what one draw from it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "fields are masked to their widths"
)]
impl Ticket {
    /// The request cannot be met. No stripe ever holds this word.
    pub const EXHAUSTED: Self = Self(u64::MAX);

    /// A stripe that has `left` units of a slab.
    #[must_use]
    pub const fn new(class: u32, page: u32, order: u32, density: u32, left: i32) -> Self {
        Self(
            page as u64
                | (order as u64) << ORDER_SHIFT
                | (class as u64) << CLASS_SHIFT
                | (density as u64) << DENSITY_SHIFT
                | (left as u64) << LEFT_SHIFT,
        )
    }

    /// A stripe without a slab: the next to draw from it refills it.
    #[must_use]
    pub const fn empty(class: u32) -> Self {
        Self::new(class, NO_PAGE, 0, 0, 0)
    }

    /// A stripe without a slab that its crosser refills.
    #[must_use]
    pub const fn refilling(class: u32) -> Self {
        Self::new(class, NO_PAGE, 0, 0, REFILLING_LEFT)
    }

    /// The same slab, which the stripe's crosser rewinds.
    #[must_use]
    pub const fn rewinding(self) -> Self {
        Self(self.with_left(REFILLING_LEFT).0 | (REWINDING as u64) << DENSITY_SHIFT)
    }

    /// The same units, but too much is alive of the slab for slots to be packed.
    #[must_use]
    pub const fn crowded(self) -> Self {
        Self(self.0 | CROWDED)
    }

    /// The same units, of a slab of which it is not known that it is crowded.
    #[must_use]
    pub const fn not_crowded(self) -> Self {
        Self(self.0 & !CROWDED)
    }

    /// Whether too much is alive for slots to be packed.
    #[inline(always)]
    #[must_use]
    pub const fn is_crowded(self) -> bool {
        self.0 & CROWDED != 0
    }

    /// The same units, which others drew while blocks were freed, in some launch.
    #[must_use]
    pub const fn churned(self) -> Self {
        Self(self.0 | CHURNED)
    }

    /// Whether units were drawn while blocks were freed, in some launch.
    #[inline(always)]
    #[must_use]
    pub const fn is_churned(self) -> bool {
        self.0 & CHURNED != 0
    }

    /// The same units, without what is but a hint.
    #[must_use]
    pub const fn without_hints(self) -> Self {
        Self(self.0 & !(CROWDED | CHURNED))
    }

    /// Whether the slab is being rewound.
    #[must_use]
    pub const fn is_rewinding(self) -> bool {
        self.has_slab() && self.left() < 0 && self.density() == REWINDING
    }

    /// The same word, of the generation after `before`'s.
    #[must_use]
    pub const fn following(self, before: Self) -> Self {
        const GENERATION: u64 = 15 << GENERATION_SHIFT;
        let next = before.0.wrapping_add(1 << GENERATION_SHIFT);
        Self(self.0 & !GENERATION | next & GENERATION)
    }

    /// The same slab with `left` units left.
    #[must_use]
    pub const fn with_left(self, left: i32) -> Self {
        Self(self.0 & ((1 << LEFT_SHIFT) - 1) | (left as u64) << LEFT_SHIFT)
    }

    /// The same slab with `count` units less, or none.
    #[must_use]
    pub const fn without(self, count: u32) -> Self {
        let left = self.left() - count as i32;
        self.with_left(if left < 0 { 0 } else { left })
    }

    /// What to add to a stripe's word to draw `count` units.
    #[inline(always)]
    #[must_use]
    pub const fn drawing(count: u32) -> u64 {
        (count as u64).wrapping_neg() << LEFT_SHIFT
    }

    /// Units left.
    #[inline(always)]
    #[must_use]
    pub const fn left(self) -> i32 {
        // Of the upper half alone: a shuffle gives halves.
        ((self.0 >> 32) as i32) >> (LEFT_SHIFT - 32)
    }

    /// The same, but none where it is fewer.
    #[inline(always)]
    #[must_use]
    pub const fn units_left(self) -> u32 {
        if self.left() < 0 {
            0
        } else {
            self.left().cast_unsigned()
        }
    }

    /// First page of the slab, or [`NO_PAGE`].
    #[inline(always)]
    #[must_use]
    pub const fn page(self) -> u32 {
        self.0 as u32 & NO_PAGE
    }

    /// Whether the stripe has a slab.
    #[inline(always)]
    #[must_use]
    pub const fn has_slab(self) -> bool {
        self.page() != NO_PAGE
    }

    /// Binary logarithm of the slab's pages.
    #[inline(always)]
    #[must_use]
    pub const fn order(self) -> u32 {
        self.0 as u32 >> ORDER_SHIFT & 15
    }

    /// Binary logarithm of the slots that a unit spans; of a damaged word it may be more than that of a word of the bitmap.
    #[inline(always)]
    #[must_use]
    pub const fn density(self) -> u32 {
        (self.0 >> DENSITY_SHIFT) as u32 & 7
    }

    /// Whether there were units left, and each is a slot.
    #[inline(always)]
    #[must_use]
    pub const fn is_of_slots(self) -> bool {
        self.left() > 0 && self.density() == 0
    }

    /// Whether there were units left, and each spans several slots.
    #[inline(always)]
    #[must_use]
    pub const fn is_spread(self) -> bool {
        self.left() > 0 && self.density() != 0
    }

    /// Whether there were `count` units left, and what is drawn is a row of as many slots.
    #[inline(always)]
    #[must_use]
    pub const fn has_row(self, count: u32) -> bool {
        // Not `&&`, of which two branches would be made.
        (self.left() >= count as i32) & (self.density() == 0)
    }

    /// How many of `units` of a slab of `slots` slots are offered, where each is a slot. Of a large slab as many as whole warps can draw: then the
    /// row of a whole warp lies in one word of the bitmap, and takes one atomic to be claimed and one to be freed. What is left over is
    /// found when memory is scarce.
    #[must_use]
    pub const fn offered(units: u32, slots: u32) -> u32 {
        // Of so many slots 31 are few.
        const MANY: u32 = 1 << 12;
        if slots < MANY { units } else { units & !31 }
    }

    /// Of a group of `count` lanes that drew: the first of its units, and how many there are.
    #[inline(always)]
    #[must_use]
    pub const fn row(self, count: u32) -> (u32, u32) {
        let first = self.left() - count as i32;
        if first < 0 {
            (0, self.left() as u32)
        } else {
            (first as u32, count)
        }
    }

    /// Whether both words are of the same slab and draw the same number of slots by a unit.
    #[inline(always)]
    #[must_use]
    pub const fn is_of_slab_of(self, other: Self) -> bool {
        (self.0 ^ other.0) & ((1 << GENERATION_SHIFT) - 1) & !(CROWDED | CHURNED) == 0
    }

    /// How often the stripe was refilled or its slab rewound, modulo 16.
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 >> GENERATION_SHIFT) as u32 & 15
    }

    /// Class of the slab.
    #[inline(always)]
    #[must_use]
    pub const fn class(self) -> u32 {
        self.0 as u32 >> CLASS_SHIFT & 0xff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_changes_only_the_units_left() {
        let mut word = Ticket::new(77, 131_071, 8, 5, 40).following(Ticket::new(0, 0, 0, 0, 0));
        for expected in [40, 8, -24, -56] {
            assert_eq!(word.left(), expected);
            assert_eq!(
                (word.class(), word.page(), word.order(), word.density()),
                (77, 131_071, 8, 5)
            );
            word = Ticket(word.0.wrapping_add(Ticket::drawing(32)));
        }
    }

    #[test]
    fn generations_wrap_and_touch_nothing_else() {
        let mut word = Ticket::new(3, 5, 1, 2, 9);
        for _ in 0..100 {
            let next = Ticket::new(3, 5, 1, 2, 9).following(word);
            assert_ne!(next, word);
            assert_eq!((next.left(), next.class(), next.page()), (9, 3, 5));
            word = next;
        }
    }

    #[test]
    fn hints_change_nothing_else() {
        let word = Ticket::new(77, 4096, 8, 0, 40).following(Ticket::new(0, 0, 0, 0, 0));
        assert!(!word.is_crowded() && !word.is_churned());
        let (crowded, churned) = (word.crowded(), word.churned());
        assert!(crowded.is_crowded() && churned.is_churned());
        assert_eq!(
            (crowded.not_crowded(), churned.not_crowded()),
            (word, churned)
        );
        let both = crowded.churned();
        assert_eq!(both.without_hints(), word);
        assert!(both.has_row(1) && both.is_of_slab_of(word));
        assert_eq!((both.page(), both.order()), (4096, 8));
        assert_eq!((both.class(), both.left()), (77, 40));
        assert!(both.rewinding().is_rewinding());
    }

    #[test]
    fn exhausted_is_no_stripes_word() {
        assert!(!Ticket::EXHAUSTED.has_slab());
        assert_ne!(
            Ticket::EXHAUSTED,
            Ticket::refilling(255).following(Ticket(14 << GENERATION_SHIFT))
        );
    }
}
