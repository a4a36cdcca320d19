//! Where the calling thread stands in its block and grid (one dimension, but for [`block_number`] and [`grid_threads`]).

use crate::backend;

/// Index of the thread in its block.
#[inline(always)]
#[must_use]
pub fn thread_index() -> u32 {
    backend::thread_index()
}

/// Number of threads in a block.
#[inline(always)]
#[must_use]
pub fn block_dim() -> u32 {
    backend::block_dim()
}

/// Index of the block in the grid.
#[inline(always)]
#[must_use]
pub fn block_index() -> u32 {
    backend::block_index()
}

/// Number of the block in a grid of up to three dimensions, counted as the hardware starts them: x first.
#[inline(always)]
#[must_use]
pub fn block_number() -> u32 {
    backend::block_number()
}

/// Number of blocks in the grid's first dimension.
#[inline(always)]
#[must_use]
pub fn grid_dim() -> u32 {
    backend::grid_dim()
}

/// Index of the thread in a grid of one dimension.
#[inline(always)]
#[must_use]
pub fn index_1d() -> u32 {
    block_index() * block_dim() + thread_index()
}

/// Number of threads in a grid of up to three dimensions; the largest `u32` if they are more.
#[inline(always)]
#[must_use]
pub fn grid_threads() -> u32 {
    backend::grid_threads()
}

/// Number of the launch that the grid belongs to, modulo 2^32 (PTX `%gridid`). Launches that follow one another on a device have others, on the CPU too. A hint
/// only: a kernel of a CUDA graph has the same each time that the graph is launched.
#[inline(always)]
#[must_use]
pub fn grid_id() -> u32 {
    backend::grid_id()
}

/// Index of the streaming multiprocessor that runs the thread (PTX `%smid`); on the CPU the
/// index of the worker thread. A hint only: a thread may be moved, and numbers may have gaps.
#[inline(always)]
#[must_use]
pub fn sm_id() -> u32 {
    backend::sm_id()
}

/// Ends the whole launch with an error that the host sees (PTX `trap`); panics on the CPU.
#[inline(always)]
pub fn trap() -> ! {
    backend::trap()
}
