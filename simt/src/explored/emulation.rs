//! The lane that a task of the explorer stands for.
//!
//! Under shuttle, [`run_warp`] runs 1 to 32 lanes of one warp as tasks; under loom each thread is
//! a warp of one lane.

#[cfg(shuttle)]
pub use super::warp::run_warp;
#[cfg(shuttle)]
use shuttle::rand::Rng;

/// Where a task stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
    block: u32,
    sm: u32,
}

const FIRST: Place = Place { block: 0, sm: 0 };

#[cfg(loom)]
loom::thread_local! {
    static PLACE: std::cell::Cell<Place> = std::cell::Cell::new(FIRST);
}
#[cfg(shuttle)]
shuttle::thread_local! {
    static PLACE: std::cell::Cell<Place> = std::cell::Cell::new(FIRST);
}

/// Lets the calling task stand for a thread of block `block`, on the streaming multiprocessor of the same number.
pub fn set_block(block: u32) {
    set_place(Place { block, sm: block });
}

/// Lets the calling task stand for a thread on streaming multiprocessor `sm`, of the same block as before.
pub fn set_sm_id(sm: u32) {
    set_place(Place { sm, ..place() });
}

pub(super) fn place() -> Place {
    PLACE.with(std::cell::Cell::get)
}

pub(super) fn set_place(place: Place) {
    PLACE.with(|cell| cell.set(place));
}

pub(crate) fn sm_id() -> u32 {
    place().sm
}

pub(crate) fn block_number() -> u32 {
    place().block
}

pub(crate) fn thread_index() -> u32 {
    super::warp::lane_id()
}

pub(crate) fn block_dim() -> u32 {
    crate::warp::LANES
}

pub(crate) fn block_index() -> u32 {
    block_number()
}

pub(crate) fn grid_dim() -> u32 {
    1
}

pub(crate) fn grid_threads() -> u32 {
    grid_dim() * block_dim()
}

/// All that is explored is one launch. But under shuttle it seems another now and then: what is noted of a launch is only a hint, and must do no harm in the
/// next.
pub(crate) fn grid_id() -> u32 {
    #[cfg(shuttle)]
    return u32::from(shuttle::rand::thread_rng().gen_ratio(1, 4));
    #[cfg(loom)]
    0
}
