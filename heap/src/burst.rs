//! What a burst does while another refills its stripe: it waits, as all do, and where that takes long it helps itself elsewhere.
//!
//! Where pages are scarce memory is in pieces, and a launch that wants more of each stripe than a word of pages has all stripes refilled again and again, with less each time. Some
//! get a large slab and some a small one, so some have much left when others have nothing, and a launch would end with the few whose slabs were the smallest, one refill after the other.
//! So who waits draws from a stripe that has much. Not where one slab can serve a launch: there each stripe comes to have its own, which the launch uses up just so, and none would if others drew from it.

use crate::heap::Core;
use crate::hints::warps_of_stripe;
use crate::obtain::{GOLDEN, share_of, warp_number};
use crate::refill::await_refill;
use crate::stripe::{Stripe, which};
use crate::ticket::Ticket;

/// How often a burst looks elsewhere while it waits, after which it searches for itself where hardly any page is free, or few are for a class of few stripes: what is found there are single pages, or less
/// than a few warps want, and those that wait for the same stripe would search one after another.
const TURNS: u32 = if cfg!(shuttle) { 1 } else { 7 };
/// Looks at its stripe before and after each.
const LOOKS: u32 = if cfg!(shuttle) { 1 } else { 8 };
/// A stripe has much if what is left of its slab would serve so many bursts.
const BURSTS_LEFT: u32 = if cfg!(shuttle) { 1 } else { 4 };

impl Core {
    /// What a burst of `count` lanes finds for itself, which hardly waits for its stripe where few pages are free (see [`search_for_group`](Self::search_for_group)): units of another stripe, or of a slab of its own; none if its stripe
    /// has units again, or there is nothing. Out of line as a whole, for what lives here would need registers in all that wait.
    #[cold]
    #[inline(never)]
    pub(crate) fn search_as_burst(&self, stripe: &Stripe, class: u32, count: u32) -> Ticket {
        if await_refill(stripe, LOOKS) {
            return Ticket::empty(class);
        }
        let shares = self.shares_stripes(class, count);
        for turn in 0..TURNS {
            if shares {
                let found = self.draw_from_another(class, count, turn);
                if found.left() > 0 {
                    return found;
                }
            }
            if await_refill(stripe, LOOKS) {
                return Ticket::empty(class);
            }
        }
        self.search_for_group(class, count)
    }

    /// Whether bursts of `count` lanes draw from each other's stripes. (Under shuttle always: no heap has as many pages there.)
    fn shares_stripes(&self, class: u32, count: u32) -> bool {
        let wanted = count * warps_of_stripe(self.stripes_of(class).count);
        cfg!(shuttle) || self.outlasts_slabs(class, wanted) && self.are_pages_scarce()
    }

    /// Draws from one of a few stripes of a class that has much, if one has: other stripes for each warp, and each turn. Who draws the last of a slab is its stripe's crosser, as anybody, though other groups of
    /// its warp may be waiting by now: it waits for nobody, and seldom is, since more was left than it wants.
    #[inline(never)]
    fn draw_from_another(&self, class: u32, count: u32, turn: u32) -> Ticket {
        let stripes = self.stripes_of(class);
        let place = (warp_number() ^ turn << 24).wrapping_mul(GOLDEN);
        let from = share_of(place, stripes.count);
        let has_much = which(self.look_at_stripes(class, from), |seen| {
            seen.left() >= (BURSTS_LEFT * count).cast_signed()
        });
        if has_much == 0 {
            return Ticket::empty(class);
        }
        let index = stripes.after(from, has_much.trailing_zeros());
        self.draw_from_stripe(class, self.stripe(class, index), count)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::class::class_of;
    use crate::group::{Misses, malloc_group};
    use crate::page_set::WORD_PAGES;
    use crate::refill::ticket_slab;
    use crate::simulated::host_heap::HostHeap;
    use simt::emulation::{Position, set_position};
    use simt::warp::LANES;

    const BYTES: u32 = 2048;
    const STRIPES: u32 = 4;

    /// Lets the calling thread be one of a block in a grid of blocks of 256 threads.
    fn become_one_of(block_index: u32, grid_dim: u32) {
        set_position(Position {
            block_dim: 256,
            block_index,
            grid_dim,
            ..Position::default()
        });
    }

    /// How many units a burst draws from the stripe of another block while its own is refilled, in a launch that wants so many words of pages of each stripe, after so many MiB of 1,024 were taken; and how many
    /// the other's stripe had.
    fn drawn_elsewhere(words: u32, mebibytes_taken: u64) -> (u32, u32) {
        let host = HostHeap::new(1 << 30, STRIPES, 0);
        let (heap, class) = (host.heap(), class_of(BYTES));
        let blocks = words * STRIPES * (WORD_PAGES << heap.page_shift) / BYTES / 256;
        assert!(!heap.malloc(mebibytes_taken << 20).is_null());
        become_one_of(1, blocks);
        let burst = malloc_group(heap, BYTES, LANES as usize, &mut Misses::default());
        assert!(burst.iter().all(|block| *block != 0));
        let (core, stripes) = (heap.core(), heap.stripes_of(class));
        let [own, other] = [0, 1].map(|block| heap.stripe(class, stripes.of(block)));
        become_one_of(0, blocks);
        // Whoever draws first of an empty stripe is its crosser.
        assert_eq!(own.draw(LANES).left(), 0);
        let before = other.look();
        let found = core.search_as_burst(own, class, LANES);
        let drawn = before.units_left() - other.look().units_left();
        assert_eq!(found.left() > 0, drawn > 0);
        assert!(drawn == 0 || found.is_of_slab_of(before) && found.left() == before.left());
        set_position(Position::default());
        (drawn, before.units_left())
    }

    #[test]
    fn nothing_is_drawn_from_a_damaged_stripe() {
        let host = HostHeap::new(1 << 30, STRIPES, 0);
        let (heap, class) = (host.heap(), class_of(16));
        assert!(!heap.malloc(16).is_null());
        let (core, stripe) = (heap.core(), host.stripe(class));
        let word = stripe.look();
        let too_many = core.slots(ticket_slab(word)) + 1;
        for damaged in [
            word.with_left(too_many.cast_signed()),
            Ticket::new(class + 1, word.page(), word.order(), 0, word.left()),
        ] {
            stripe.publish(damaged);
            assert!(core.draw_from_another(class, LANES, 0).left() <= 0);
            assert!(!stripe.look().has_slab());
        }
        stripe.publish(word);
        assert_eq!(core.draw_from_another(class, LANES, 0).left(), word.left());
    }

    #[test]
    fn bursts_share_stripes_where_no_slab_lasts_a_launch() {
        // Pages are scarce from 832 MiB on.
        for (words, mebibytes, shares) in [(2, 900, true), (2, 700, false), (1, 900, false)] {
            let (drawn, had) = drawn_elsewhere(words, mebibytes);
            let expected = if shares { LANES } else { 0 };
            assert_eq!(drawn, expected, "{words} {mebibytes}: of {had}");
        }
    }
}
