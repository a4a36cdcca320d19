//! The lane that a task of the explorer stands for.
//!
//! Under shuttle, [`run_warp`] runs 1 to 32 lanes of one warp as tasks; under loom each thread is
//! a warp of one lane.

#[cfg(shuttle)]
pub use super::warp::run_warp;

#[cfg(loom)]
loom::thread_local! {
    static SM: std::cell::Cell<u32> = std::cell::Cell::new(0);
}
#[cfg(shuttle)]
shuttle::thread_local! {
    static SM: std::cell::Cell<u32> = std::cell::Cell::new(0);
}

/// Lets the calling task stand for a thread of streaming multiprocessor `sm`.
pub fn set_sm_id(sm: u32) {
    SM.with(|cell| cell.set(sm));
}

pub(crate) fn sm_id() -> u32 {
    SM.with(std::cell::Cell::get)
}

pub(crate) fn thread_index() -> u32 {
    super::warp::lane_id()
}

pub(crate) fn block_dim() -> u32 {
    crate::warp::LANES
}

pub(crate) fn block_index() -> u32 {
    0
}

pub(crate) fn grid_dim() -> u32 {
    1
}
