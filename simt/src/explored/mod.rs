//! Interleaving explorers: loom (one lane a thread, weak memory) and shuttle (emulated warps,
//! random schedules, sequential consistency).

pub mod atomic;
pub mod emulation;
pub mod warp;
#[cfg(loom)]
mod weaken;

pub(crate) use emulation::{block_dim, block_index, grid_dim, sm_id, thread_index};

#[cfg(loom)]
pub(crate) fn yield_now() {
    loom::thread::yield_now();
}

#[cfg(shuttle)]
pub(crate) fn yield_now() {
    shuttle::thread::yield_now();
}

pub fn nanosleep(_nanoseconds: u32) {
    yield_now();
}

pub fn trap() -> ! {
    panic!("device code trapped")
}
