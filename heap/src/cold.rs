//! Calls out of the fast paths.
//!
//! A function that is compiled to be linked has registers of its own, and its caller keeps what it needs
//! itself; so the slow paths are functions that are never inlined, and cost the fast ones little but the call. Where ptxas
//! compiles a module as a whole instead, a kernel that calls `malloc` has as many registers as
//! the deepest of these calls needs, or, under a limit, spills. What is measured is in `docs/experiments.md`.

use crate::entry::Entry;
use crate::free::Rest;
use crate::heap::{Heap, Mark};
use crate::malloc::Wish;
use crate::places::Claimed;
use crate::slab::{Slab, SlabState};
use crate::ticket::Ticket;

/// Defines a cold call of a method of the heap's core.
macro_rules! cold {
    ($name:ident: $method:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "a structure would lie in memory")]
        pub(crate) fn $name(heap: &Heap, $($argument: $type),*) $(-> $result)? {
            heap.core().$method($($argument),*)
        }
    };
}

cold!(malloc_beyond: malloc_beyond(wish: Wish, bytes: u64, lanes: u32, group: u32, drawn: Ticket, won: u32) -> *mut u8);
cold!(malloc_of_warp_beyond: malloc_of_warp_beyond(wish: Wish, bytes: u64, group: u32, drawn: Ticket, won: u32, rest: Claimed) -> *mut u8);
cold!(draw: draw_beyond(wish: Wish, index: u32, count: u32, drawn: Ticket) -> Ticket);
cold!(give_back_units: give_back_units(drawn: Ticket, count: u32));
cold!(complete_packed: complete_packed(drawn: Ticket, count: u32, claimed: Claimed) -> Claimed);
cold!(malloc_classes: malloc_classes(through: Wish, bytes: u64, group: u32, drawn: Ticket) -> *mut u8);
cold!(malloc_rarer: malloc_rarer(mark: Mark, bytes: u64, alignment: u64, site: u32) -> *mut u8);
cold!(change_state: change_state(slab: Slab, was_hidden: bool, used: u32));
cold!(free_rest: free_rest(rest: Rest, lanes: u32, mark: Mark, address: u64, head: u32, entry: Entry, bit: u32, word: u32, bits: u32));
cold!(note_if_thinned: note_if_thinned(slab: Slab, used: u32));
cold!(look_after: look_after(slab: Slab, state: &SlabState, used: u32, few: bool));
cold!(look_at_large: look_at_large(slab: Slab, state: &SlabState, used: u32));
cold!(free_rarer: free_rarer(mark: Mark, address: u64));
cold!(free_no_slot: free_no_slot(mark: Mark, address: u64));
cold!(free_alone: free_alone(address: u64));
cold!(hardened_malloc: hardened_malloc(mark: Mark, bytes: u64, alignment: u64, site: u32, zero: bool) -> *mut u8);
cold!(hardened_realloc: hardened_realloc(address: u64, bytes: u64, mark: Mark) -> *mut u8);
cold!(hardened_usable_size: hardened_usable_size(mark: Mark, address: u64) -> u64);
cold!(refuse: refuse(mark: Mark, address: u64));
cold!(free_some: free_some(head: u32, entry: Entry, taken: u32, bits: u32, bit: u32, address: u64));
