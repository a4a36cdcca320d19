//! The CPU: an OS thread runs one lane at a time, and takes a grid's indices one after another.

pub mod atomic;
pub mod emulation;
pub(crate) use crate::single_lane as warp;

pub(crate) use emulation::{block_dim, block_index, grid_dim, sm_id, thread_index};

#[inline(always)]
pub fn nanosleep(_nanoseconds: u32) {
    std::thread::yield_now();
}

#[cold]
pub fn trap() -> ! {
    panic!("device code trapped")
}
