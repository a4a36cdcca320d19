//! Taking a slab of a class that is listed: one with room, or any, if nothing else is left.
//!
//! What is seen of a listed slab is a guess: who takes its page out of the set owns it. Searches begin apart, and each time elsewhere, so that they do not find the same. What is known of a
//! slab lies in three places, each of which is found by the one before: a word of the set's summary, one of the set, and the page's entry with the slab's word. A stripe waits for who looks, so it looks at
//! several slabs at once.

use crate::entry::Entry;
use crate::heap::Core;
use crate::obtain::{GOLDEN, share_of, warp_number};
use crate::page_set::{PageSet, WORD_PAGES};
use crate::pages::first_from;
use crate::slab::{Slab, room};
use simt::atomic::Ordering;
use simt::time;

/// Words of the set that are looked at together, and of each a slab.
const AT_ONCE: usize = 4;

/// By how many pages it is further to the slab of a word at the next look.
const TURN: u32 = 23;

/// No page.
const NONE: u32 = u32::MAX;

/// A listed slab, as it looks.
#[derive(Clone, Copy)]
struct Seen {
    page: u32,
    /// Its free slots, or 0 if these are too few.
    room: u32,
}

impl Core {
    /// Takes one of a few listed slabs of a class, if one has room. So many `times` a slab of each of [`AT_ONCE`] words is looked at, or of those of them that one word of the summary shows, and the one with the most free slots is taken.
    #[inline(never)]
    pub(crate) fn take_roomy(&self, class: u32, times: u32) -> Option<Slab> {
        let listed = self.listed(class);
        let sixteenths = self.sixteenths_wanted();
        let (start, mut turn) = where_to_begin(&listed);
        let (mut from, mut left) = (start, times);
        while left > 0 {
            let Some((first, mut shown)) = listed.next_shown(from) else {
                if from == 0 {
                    return None;
                }
                // Once more from the front.
                from = 0;
                continue;
            };
            time::give_turn();
            left -= 1;
            turn += TURN;
            let end = (first + u64::BITS).min(listed.word_count());
            let indices = [(); AT_ONCE].map(|()| {
                let index = first + shown.trailing_zeros();
                shown &= shown.wrapping_sub(1);
                index
            });
            // Of words that are not shown the last one is read instead: there is one wait for all.
            let words = indices.map(|index| (index, listed.look(index.min(end - 1))));
            let pages = words.map(|(index, word)| {
                if word != 0 && index < end {
                    index * WORD_PAGES + first_from(word, turn)
                } else {
                    NONE
                }
            });
            let seen = self.look_at_listed(class, pages, sixteenths);
            for (index, word) in words {
                if word == 0 && index < end {
                    // Else all who search look at it.
                    self.tidy_listed(class, index);
                }
            }
            let slab = self.take_roomiest(class, seen);
            if slab.is_some() {
                return slab;
            }
            let [.., last] = indices;
            from = last.min(end - 1) + 1;
        }
        None
    }

    /// How the slabs of a class look that are listed at some pages; where there is none ([`NONE`]), like one without room.
    #[inline(always)]
    fn look_at_listed(
        &self,
        class: u32,
        pages: [u32; AT_ONCE],
        sixteenths: u32,
    ) -> [Seen; AT_ONCE] {
        let empty = Entry::slab(class, 0).marked(self.mark());
        let lowest = pages.into_iter().fold(NONE, u32::min);
        if lowest == NONE {
            return pages.map(|page| Seen { page, room: 0 });
        }
        let looks = pages.map(|page| {
            // Of another one where there is none: one wait for all, and not of a page that all who search would read.
            let place = if page == NONE { lowest } else { page };
            // Relaxed: a guess. Installed meanwhile, a slab has no room.
            let entry = self.entry(place).load(Ordering::Relaxed);
            (
                page,
                Entry(entry),
                self.usage(place).load(Ordering::Relaxed),
            )
        });
        let page_shift = u32::from(self.page_shift);
        looks.map(|(page, entry, usage)| {
            // By the slab's first page: that another of its pages is listed is damage, which who takes any slab clears.
            let is_slab = page != NONE && entry.is_like(empty) && entry.head(page) == page;
            Seen {
                page,
                room: if is_slab {
                    room(entry.slots(page_shift), usage, sixteenths)
                } else {
                    0
                },
            }
        })
    }

    /// Takes that of some slabs that has the most room, if one has any.
    #[inline(always)]
    fn take_roomiest(&self, class: u32, mut seen: [Seen; AT_ONCE]) -> Option<Slab> {
        loop {
            let none = Seen { page: 0, room: 0 };
            let roomier =
                |best: Seen, other: Seen| if other.room > best.room { other } else { best };
            let best = seen.into_iter().fold(none, roomier);
            if best.room == 0 {
                return None;
            }
            let (slab, _) = self.take_listed_at(class, best.page);
            if slab.is_some() {
                return slab;
            }
            seen = seen.map(|other| {
                let is_gone = other.page == best.page;
                Seen {
                    room: if is_gone { 0 } else { other.room },
                    ..other
                }
            });
        }
    }

    /// Takes any listed slab of a class.
    #[inline(never)]
    pub(crate) fn take_any(&self, class: u32) -> Option<Slab> {
        let listed = self.listed(class);
        let (start, turn) = where_to_begin(&listed);
        let (mut from, mut end) = (start, listed.word_count());
        loop {
            let Some(index) = listed.next_word(from).filter(|index| *index < end) else {
                // Once more from the front, up to where the search began.
                if start == 0 || end == start {
                    return None;
                }
                (from, end) = (0, start);
                continue;
            };
            time::give_turn();
            // A guess: who takes a page verifies it.
            let mut word = listed.look(index).rotate_right(turn);
            if word == 0 {
                self.tidy_listed(class, index);
            }
            while word != 0 {
                let page = index * WORD_PAGES + (word.trailing_zeros() + turn) % WORD_PAGES;
                word &= word - 1;
                let (slab, others) = self.take_listed_at(class, page);
                if slab.is_some() {
                    return slab;
                }
                word &= others.rotate_right(turn);
            }
            from = index + 1;
        }
    }

    /// Takes the slab that was seen listed at a page, if it still is. Gives also what else the page's word has.
    #[inline(always)]
    fn take_listed_at(&self, class: u32, page: u32) -> (Option<Slab>, u64) {
        let listed = self.listed(class);
        let (taken, others) = listed.remove_if_shown(page);
        if !taken {
            return (None, others);
        }
        if others == 0 {
            // Else all who search look at the word.
            self.tidy_listed(class, page / WORD_PAGES);
        }
        let slab = self.slab_of_class(class, page);
        if slab.is_none() {
            // It was never listed: the bit is damage, and gone.
            self.report_damage(class);
            listed.settle(1);
        }
        (slab, others)
    }

    /// Clears the summary bit over an empty word of the listed slabs of a class, if it is set. Out of line, for what lives here would need registers in all that search.
    #[inline(never)]
    fn tidy_listed(&self, class: u32, index: u32) {
        self.listed(class).tidy_if_shown(index);
    }

    /// How many sixteenths of a listed slab must be free to be preferred to fresh pages: most if there
    /// are plenty, and the fewer pages are left, the fewer; one less than sixteenths of all pages are free, and one where pages are scarce. Slabs that nobody refills from drain and
    /// become pages again. (While blocks of all sizes are replaced again and again, the pages that a heap has free tend to where one more is wanted here.)
    fn sixteenths_wanted(&self) -> u32 {
        // Relaxed: a hint.
        let free = self.free_pages().count();
        let sixteenths = free / (self.admitted_hint() / 16).max(1);
        sixteenths.saturating_sub(1).clamp(1, 12)
    }
}

/// With which word of a class's listed slabs the calling thread begins to look, and with which page of each: where other warps do not, nor this one the last time.
fn where_to_begin(listed: &PageSet) -> (u32, u32) {
    // The product spreads.
    let place = warp_number()
        // Relaxed: a hint.
        .wrapping_add(listed.epoch(Ordering::Relaxed))
        .wrapping_mul(GOLDEN);
    (
        share_of(place, listed.word_count()),
        (place >> 8) % WORD_PAGES,
    )
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::class::class_of;
    use crate::simulated::host_heap::HostHeap;
    use simt::emulation::{Position, set_position};
    use std::collections::HashSet;

    /// Bytes of the blocks.
    const BYTES: u32 = 64;
    /// Slots of the slabs that are used here, at least: one of them is less than a sixteenth.
    const SLOTS: u32 = 32;
    /// How often listed slabs are looked at.
    const LOOKS: u32 = 8;

    /// A full heap of 1 MiB.
    struct Full {
        host: HostHeap,
        blocks: Vec<u64>,
    }

    impl Full {
        fn new() -> Self {
            let host = HostHeap::new(1 << 20, 1, 0);
            let obtain = || host.heap().malloc(BYTES.into()) as u64;
            let blocks =
                std::iter::from_fn(|| Some(obtain()).filter(|block| *block != 0)).collect();
            Self { host, blocks }
        }

        fn core(&self) -> &Core {
            self.host.heap().core()
        }

        /// Its slabs of [`SLOTS`] or more, but for that of the stripe.
        fn slabs(&self) -> Vec<Slab> {
            let core = self.core();
            let class = class_of(BYTES);
            let of_stripe = core.stripe(class, 0).look().page();
            (0..core.layout().page_count)
                .filter(|page| *page != of_stripe)
                .filter_map(|page| core.slab_of_class(class, page))
                .filter(|slab| core.slots(*slab) >= SLOTS)
                .collect()
        }

        /// Frees so many blocks of a slab: it is listed then.
        fn free(&self, slab: Slab, count: u32) {
            let heap = self.host.heap();
            let page = |block: u64| (block - heap.base()) >> heap.core().page_shift;
            let pages = u64::from(slab.page())..u64::from(slab.page() + slab.pages());
            let inside = self
                .blocks
                .iter()
                .filter(|block| pages.contains(&page(**block)));
            for block in inside.take(count as usize) {
                // SAFETY: the tests free what was obtained, once.
                unsafe { heap.free(*block as *mut u8) };
            }
        }
    }

    #[test]
    fn the_slab_with_the_most_room_of_a_few_is_taken() {
        let full = Full::new();
        let core = full.core();
        let class = class_of(BYTES);
        let slabs = full.slabs();
        let [little, more, most] = [(0, 4), (1, 9), (2, 30)].map(|(index, count)| {
            full.free(slabs[index], count);
            slabs[index].page()
        });
        let take = || {
            let seen = core.look_at_listed(class, [most, NONE, little, more], 1);
            core.take_roomiest(class, seen).map(Slab::page)
        };
        let taken = [(); 4].map(|()| take());
        assert_eq!(taken, [Some(most), Some(more), Some(little), None]);
    }

    #[test]
    fn another_page_of_a_slab_looks_like_none() {
        let full = Full::new();
        let core = full.core();
        let slab = full.slabs()[0];
        assert!(slab.pages() > 1);
        full.free(slab, SLOTS / 2);
        let pages = [slab.page() + 1, slab.page(), NONE, NONE];
        let seen = core.look_at_listed(class_of(BYTES), pages, 1);
        assert_eq!(seen.map(|seen| seen.room > 0), [false, true, false, false]);
    }

    #[test]
    fn words_that_only_damage_shows_are_not_looked_at() {
        // Searches begin elsewhere.
        for block_index in 0..8 {
            let full = Full::new();
            let core = full.core();
            let listed = core.listed(class_of(BYTES));
            let slab = full.slabs()[0];
            full.free(slab, SLOTS / 2);
            assert!(listed.word_count() < u64::BITS);
            listed.raise_all(0, u64::MAX << listed.word_count());
            set_position(Position {
                block_index,
                ..Position::default()
            });
            let found = core.take_roomy(slab.class(), 1);
            set_position(Position::default());
            assert_eq!(found.map(Slab::page), Some(slab.page()), "{block_index}");
        }
    }

    #[test]
    fn who_looks_for_room_leaves_slabs_with_little_of_it_to_who_wants_any() {
        let full = Full::new();
        let core = full.core();
        let class = class_of(BYTES);
        let (mut roomy, mut others) = (HashSet::new(), HashSet::new());
        for (number, slab) in full.slabs().into_iter().enumerate() {
            let is_roomy = number.is_multiple_of(3);
            full.free(slab, if is_roomy { core.slots(slab) / 4 } else { 1 });
            let kind = if is_roomy { &mut roomy } else { &mut others };
            kind.insert(slab.page());
        }
        assert!(!roomy.is_empty() && others.len() > roomy.len());
        let taken = |take: &dyn Fn() -> Option<Slab>| -> HashSet<u32> {
            std::iter::from_fn(take).map(Slab::page).collect()
        };
        let with_room = taken(&|| core.take_roomy(class, LOOKS));
        assert!(!with_room.is_empty() && with_room.is_subset(&roomy));
        let any = taken(&|| core.take_any(class));
        assert_eq!(any.len(), roomy.len() + others.len() - with_room.len());
        assert_eq!(&any | &with_room, &roomy | &others);
    }
}
