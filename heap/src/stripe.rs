//! The share of a class that the warps of one multiprocessor draw from.

use crate::heap::Core;
use crate::ticket::Ticket;
use simt::atomic::{DeviceAtomicU64, Ordering};

/// A stripe's word, alone on its cache line: false sharing is dear in L2.
#[repr(C, align(128))]
pub struct Stripe {
    word: DeviceAtomicU64,
}

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

    /// Replaces the word. Only the crosser may do this.
    pub fn publish(&self, ticket: Ticket) {
        // Release: pairs with `draw`, `detach` and `take`, and with the fences after a `look`.
        self.word.store(ticket.0, Ordering::Release);
    }

    /// [`publish`](Self::publish) by who had a fence that releases since what it publishes.
    pub fn publish_after_fence(&self, ticket: Ticket) {
        // Relaxed, after the fence: as in `publish`.
        self.word.store(ticket.0, Ordering::Relaxed);
    }

    /// Makes the caller the stripe's crosser, which rewinds its slab, if its word is still `seen`, which must not have fewer than no
    /// units left; true if it was.
    pub fn take(&self, seen: Ticket) -> bool {
        // Acquire: pairs with `publish`. Nothing is released: the slab stays with the stripe.
        self.word
            .compare_exchange(
                seen.0,
                seen.rewinding().0,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Empties the stripe, one of `class`, if its word is still `seen`, which must not have fewer
    /// than no units left; true if it was.
    pub fn detach(&self, class: u32, seen: Ticket) -> bool {
        let empty = Ticket::empty(class).following(seen);
        // AcqRel: as `look` and `publish`.
        self.word
            .compare_exchange(seen.0, empty.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// How many stripes a class has.
#[derive(Clone, Copy)]
pub(crate) struct Stripes {
    pub(crate) count: u32,
    /// The least number of the kind `2^n - 1` that all of them fit.
    mask: u32,
}

impl Stripes {
    /// `count` stripes, 1 at least.
    pub fn new(count: u32) -> Self {
        Self::within(count, 32 - (count - 1).leading_zeros())
    }

    /// The same, of at most `2^log2` and more than half as many.
    #[inline(always)]
    pub fn within(count: u32, log2: u32) -> Self {
        Self {
            count,
            mask: 1_u32.wrapping_shl(log2).wrapping_sub(1),
        }
    }

    /// Which of them a multiprocessor has: one of its own, if there are enough.
    #[inline(always)]
    pub fn of(self, multiprocessor: u32) -> u32 {
        self.round(multiprocessor & self.mask)
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

/// Bits of those of several words of which something is true.
#[inline(always)]
pub(crate) fn which(words: [Ticket; AT_ONCE as usize], is_true: impl Fn(Ticket) -> bool) -> u32 {
    let bit = |(index, word): (u32, Ticket)| u32::from(is_true(word)) << index;
    (0..).zip(words).map(bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_multiprocessor_has_a_stripe_of_its_own_if_there_are_enough() {
        for count in 1..=255 {
            let stripes = Stripes::new(count);
            assert!((0..count).all(|number| stripes.of(number) == number));
            assert!((count..1000).all(|number| stripes.of(number) < count));
        }
    }

    #[test]
    fn a_round_comes_to_every_stripe() {
        for count in [1, 2, 3, 4, 100, 128, 132, 255] {
            let stripes = Stripes::new(count);
            for from in 0..count {
                let mut round: Vec<_> = (0..count).map(|step| stripes.after(from, step)).collect();
                round.sort_unstable();
                assert!(round.into_iter().eq(0..count), "{count} from {from}");
            }
        }
    }
}
