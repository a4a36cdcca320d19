//! Interleaving explorers: loom (one lane a thread, weak memory) and shuttle (emulated warps,
//! random schedules, sequential consistency).

pub mod atomic;
pub mod emulation;
pub mod warp;
#[cfg(loom)]
mod weaken;

use core::cell::Cell;
pub(crate) use emulation::{
    block_dim, block_index, block_number, grid_dim, grid_id, grid_threads, sm_id, thread_index,
};

#[cfg(loom)]
pub(crate) fn yield_now() {
    loom::thread::yield_now();
}

#[cfg(shuttle)]
pub(crate) fn yield_now() {
    shuttle::thread::yield_now();
}

pub fn give_turn() {
    // Not for loom: it would explore the order of all that goes before and after.
    #[cfg(shuttle)]
    yield_now();
}

pub fn nanosleep(_nanoseconds: u32) {
    yield_now();
}

/// A microsecond later than at the look before: no scheduling point, and the same whenever a
/// schedule is repeated.
pub fn now() -> u64 {
    // Of the test's own: an explorer runs all threads of an execution on one thread of the process, and other tests explore
    // on others.
    std::thread_local!(static TIME: Cell<u64> = const { Cell::new(0) });
    TIME.with(|time| time.replace(time.get() + 1000))
}

pub fn ticks() -> u64 {
    now()
}

pub fn trap() -> ! {
    panic!("device code trapped")
}
