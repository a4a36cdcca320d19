//! The CPU: an OS thread runs one lane at a time, and takes a grid's indices one after another.

pub mod atomic;
pub mod emulation;
pub(crate) use crate::single_lane as warp;
use std::sync::OnceLock;
use std::time::Instant;

pub(crate) use emulation::{
    block_dim, block_index, block_number, grid_dim, grid_id, grid_threads, sm_id, thread_index,
};

#[inline(always)]
pub fn give_turn() {}

#[inline(always)]
pub fn nanosleep(_nanoseconds: u32) {
    std::thread::yield_now();
}

pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

#[inline(always)]
pub fn ticks() -> u64 {
    now()
}

#[cold]
pub fn trap() -> ! {
    panic!("device code trapped")
}
