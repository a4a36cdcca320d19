//! The share of a class that the warps of some blocks of a grid draw from.

use crate::heap::Core;
use crate::ticket::Ticket;
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering};

/// A stripe's word.
///
/// The stripes of all classes that a block of a grid has lie side by side, in a *row* of their own cache lines: a warp that wants many classes draws
/// from a few sectors, and not from a cache line for each. Blocks that have other stripes share no line with it: false sharing is dear in L2.
#[repr(C)]
pub struct Stripe {
    word: DeviceAtomicU64,
}

/// A row begins at a multiple of so many words of 8 bytes, four cache lines: rows of eleven lines, as the 176 classes of a large heap need, wait longer for each other
/// (measured in `docs/experiments.md`).
pub(crate) const ROW_WORDS: u32 = 64;

impl Stripe {
    /// A stripe of `class` without a slab.
    #[must_use]
    pub fn empty(class: u32) -> Self {
        Self {
            word: DeviceAtomicU64::new(Ticket::empty(class).0),
        }
    }

    /// Draws `count` units; gives the word before.
    #[inline(always)]
    pub fn draw(&self, count: u32) -> Ticket {
        // Acquire: pairs with `publish`, so the page entries that the refill wrote are seen by
        // the drawer, and by whomever it hands the block to.
        Ticket(
            self.word
                .fetch_add(Ticket::drawing(count), Ordering::Acquire),
        )
    }

    /// The word as it is now.
    pub fn look(&self) -> Ticket {
        // Relaxed: `draw`, `detach` and `take` acquire, and who decides on NULL has a fence after its search.
        Ticket(self.word.load(Ordering::Relaxed))
    }

    /// Notes that units were drawn while blocks were freed.
    pub(crate) fn note_churn(&self) {
        // Relaxed: a hint, of whatever slab the stripe has.
        self.word.fetch_or(Ticket(0).churned().0, Ordering::Relaxed);
    }

    /// Forgets that. If it is noted again at the same time that is forgotten too, until a rewinding fails once more.
    pub(crate) fn forget_churn(&self) {
        // Relaxed: as in `note_churn`.
        self.word
            .fetch_and(!Ticket(0).churned().0, Ordering::Relaxed);
    }

    /// Notes that the slab is crowded, until it is offered anew.
    pub(crate) fn note_crowded(&self) {
        // Relaxed: a hint, of whatever slab the stripe has.
        self.word.fetch_or(Ticket(0).crowded().0, Ordering::Relaxed);
    }

    /// Replaces the word. Only the crosser may do this, which had a fence that releases since it made or announced what the word tells of.
    pub fn publish(&self, ticket: Ticket) {
        // Relaxed, after the fence: to `draw`, `detach` and `take`, and to the fences after a `look`.
        self.word.store(ticket.0, Ordering::Relaxed);
    }

    /// Makes the caller the stripe's crosser, which rewinds its slab, if its word is still `seen`, which must not have fewer than no
    /// units left.
    ///
    /// # Errors
    ///
    /// The word as it is, if it is another.
    pub fn take(&self, seen: Ticket) -> Result<(), Ticket> {
        // Acquire: pairs with `publish`. Nothing is released: the slab stays with the stripe.
        self.word
            .compare_exchange(
                seen.0,
                seen.rewinding().0,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map(drop)
            .map_err(Ticket)
    }

    /// Empties the stripe, one of `class`, if its word is still `seen`, but for what is a hint, which must not have fewer
    /// than no units left; true if it was.
    pub fn detach(&self, class: u32, seen: Ticket) -> bool {
        let empty = Ticket::empty(class).following(seen);
        let mut word = seen;
        // That a hint changes is no reason to leave the slab: who searches may find nothing else.
        while word.without_hints() == seen.without_hints() {
            // AcqRel: as `look` and `publish`.
            match self
                .word
                .compare_exchange(word.0, empty.0, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = Ticket(now),
            }
        }
        false
    }
}

/// What is noted of a row, alone on its cache line: one more than the number of the last launch in which units of the row's stripes were seen to be drawn
/// while blocks were freed (`heap/src/packed.rs`); or 0.
#[repr(C, align(128))]
pub struct ChurnNote(DeviceAtomicU32);

impl ChurnNote {
    /// Of no launch.
    pub(crate) fn none() -> Self {
        Self(DeviceAtomicU32::new(0))
    }

    /// Notes that it was so in the launch of that number.
    pub fn write(&self, launch: u32) {
        // Relaxed: a hint.
        self.0.store(launch.wrapping_add(1), Ordering::Relaxed);
    }

    /// What was noted.
    #[inline(always)]
    pub(crate) fn read(&self) -> Churned {
        // Relaxed: a hint.
        Churned(self.0.load(Ordering::Relaxed))
    }
}

/// What a [`ChurnNote`] says.
#[derive(Clone, Copy)]
pub(crate) struct Churned(u32);

impl Churned {
    /// Whether it is of the launch of that number.
    #[inline(always)]
    pub(crate) fn is_in(self, launch: u32) -> bool {
        self.0 == launch.wrapping_add(1)
    }
}

/// How many stripes a class has.
#[derive(Clone, Copy)]
pub(crate) struct Stripes {
    pub(crate) count: u32,
    /// 2^32 divided by their number, rounded up, modulo 2^32.
    step: u32,
}

impl Stripes {
    /// `2^log2` stripes.
    pub fn power_of_two(log2: u32) -> Self {
        Self::stepping(1 << log2, 1_u32.wrapping_shl(log2.wrapping_neg()))
    }

    /// `count` stripes, 1 at least, of which the [step](Self::step_of) is known.
    #[inline(always)]
    pub fn stepping(count: u32, step: u32) -> Self {
        Self { count, step }
    }

    /// The step of `count` stripes, 1 or more.
    pub const fn step_of(count: u32) -> u32 {
        // Of one it is 2^32.
        (u32::MAX / count).wrapping_add(1)
    }

    /// Which of them a block of a grid has: one after the other, round all of them.
    ///
    /// It is the remainder of the block's number, got by two multiplications (Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019),
    /// for numbers below 2^32 / count^2. After that the rounding is felt, by which now and then a stripe is passed over; it is one of them for every number.
    #[inline(always)]
    pub fn of(self, block: u32) -> u32 {
        let part = block.wrapping_mul(self.step);
        ((u64::from(part) * u64::from(self.count)) >> 32) as u32
    }

    /// The one that comes `ahead`, fewer than there are, after another, round all of them.
    pub fn after(self, index: u32, ahead: u32) -> u32 {
        self.round(index + ahead)
    }

    /// `index` of fewer than twice as many.
    #[inline(always)]
    fn round(self, index: u32) -> u32 {
        index.min(index.wrapping_sub(self.count))
    }
}

/// Stripes that a search looks at at once.
pub(crate) const AT_ONCE: u32 = 4;

impl Core {
    /// The words of several stripes of a class from one on, round its stripes, and of none where there are fewer. One wait for
    /// the memory.
    #[inline(always)]
    pub(crate) fn look_at_stripes(&self, class: u32, from: u32) -> [Ticket; AT_ONCE as usize] {
        let stripes = self.stripes_of(class);
        let look = |ahead| {
            if ahead < stripes.count {
                self.stripe(class, stripes.after(from, ahead)).look()
            } else {
                Ticket::empty(class)
            }
        };
        [look(0), look(1), look(2), look(3)]
    }
}

/// Bits of those of several of which something is true.
#[inline(always)]
pub(crate) fn which<T>(seen: [T; AT_ONCE as usize], is_true: impl Fn(T) -> bool) -> u32 {
    let bit = |(index, seen): (u32, T)| u32::from(is_true(seen)) << index;
    (0..).zip(seen).map(bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(any(loom, shuttle)))]
    #[test]
    fn hints_do_not_keep_a_stripe_from_being_emptied() {
        let (stripe, word) = (Stripe::empty(3), Ticket::new(3, 5, 1, 0, 9));
        for seen in [word, word.churned(), word.crowded()] {
            stripe.publish(word.churned());
            assert!(stripe.detach(3, seen), "{seen:?}");
            assert!(!stripe.look().has_slab());
        }
        // Somebody drew.
        stripe.publish(word.with_left(8).churned());
        assert!(!stripe.detach(3, word));
        assert_eq!(stripe.look(), word.with_left(8).churned());
    }

    #[test]
    fn blocks_have_stripes_one_after_the_other() {
        for count in 1..=255_u32 {
            let stripes = Stripes::stepping(count, Stripes::step_of(count));
            let exact = (1_u64 << 32) / u64::from(count * count);
            for block in (0..5000).chain((0..1 << 20).step_by(977)) {
                if u64::from(block) < exact {
                    assert_eq!(stripes.of(block), block % count, "{block} of {count}");
                }
            }
            for block in (0..u32::MAX).step_by(0x0123_4567).chain([u32::MAX]) {
                assert!(stripes.of(block) < count, "{block} of {count}");
            }
        }
    }

    #[test]
    fn powers_of_two_are_stepped_through_too() {
        for log2 in 0..8 {
            let stripes = Stripes::power_of_two(log2);
            assert_eq!(stripes.count, 1 << log2);
            for block in (0..1000).chain([u32::MAX]) {
                assert_eq!(
                    stripes.of(block),
                    block % (1 << log2),
                    "{block} of 2^{log2}"
                );
            }
        }
    }

    #[test]
    fn a_round_comes_to_every_stripe() {
        for count in [1, 2, 3, 4, 100, 128, 132, 255] {
            let stripes = Stripes::stepping(count, Stripes::step_of(count));
            for from in 0..count {
                let mut round: Vec<_> = (0..count).map(|step| stripes.after(from, step)).collect();
                round.sort_unstable();
                assert!(round.into_iter().eq(0..count), "{count} from {from}");
            }
        }
    }
}
