//! Calls out of the fast paths.
//!
//! ptxas gives a kernel as many registers as the deepest call path under it needs. Called
//! directly, the slow paths would cost every kernel that calls `malloc` 130 registers, and with
//! them three quarters of its warps; under a limit, ptxas spills on the fast path instead, where
//! each acquire throws what was spilled out of the cache. So on a GPU the slow paths are called
//! through pointers that the compiler cannot see through: they keep the registers that the caller
//! needs themselves, on the stack, where a refill does not notice. What is measured is in
//! `docs/performance.md`.
//!
//! To ptxas such a call may be to any function of the same arguments. So what itself calls through
//! pointers must not have the arguments of what it calls: ptxas would see a recursion, and no longer know
//! the stack that a kernel needs.
//!
//! Elsewhere these are plain calls.

use crate::entry::Entry;
use crate::heap::{Core, Heap, Mark};
use crate::malloc::Wish;
use crate::slab::Slab;
use crate::ticket::Ticket;

/// The function behind a pointer, in a way that the compiler does not know which it is.
#[inline(always)]
fn opaque<F: Copy>(function: &'static F) -> F {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: a reference is valid for reads.
        unsafe { core::ptr::read_volatile(function) }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    *function
}

/// Defines a cold call of a method of the heap's core.
macro_rules! cold {
    ($name:ident: $method:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        #[inline(always)]
        pub(crate) fn $name(heap: &Heap, $($argument: $type),*) $(-> $result)? {
            fn call(heap: &Core, $($argument: $type),*) $(-> $result)? {
                heap.$method($($argument),*)
            }
            static CALL: fn(&Core, $($type),*) $(-> $result)? = call;
            opaque(&CALL)(heap.core(), $($argument),*)
        }
    };
}

cold!(draw: draw_beyond(wish: Wish, index: u32, count: u32, drawn: Ticket, attempt: u32) -> Ticket);
cold!(malloc_again: malloc_again(wish: Wish, bytes: u64, drawn: Ticket) -> *mut u8);
cold!(give_back: give_back_units(ticket: Ticket, count: u32));
cold!(malloc_run: malloc_run(mark: Mark, bytes: u64, alignment: u64) -> *mut u8);
cold!(change_state: change_state(slab: Slab, before: u32, after: u32));
cold!(free_other: free_other(mark: Mark, page: u32, entry: Entry, address: u64));
cold!(hardened_malloc: hardened_malloc(mark: Mark, bytes: u64, alignment: u64, site: u32, zero: bool) -> *mut u8);
cold!(hardened_free: hardened_free(address: u64, mark: Mark));
cold!(hardened_realloc: hardened_realloc(address: u64, bytes: u64, mark: Mark) -> *mut u8);
cold!(hardened_usable_size: hardened_usable_size(mark: Mark, address: u64) -> u64);
cold!(refuse: refuse(mark: Mark, address: u64));
cold!(refuse_in_slab: refuse_in_slab(page: u32, entry: Entry, address: u64));
