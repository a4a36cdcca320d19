//! The position in the grid that the calling OS thread stands for.

use std::cell::Cell;

/// A thread's position in a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Index of the thread in its block.
    pub thread_index: u32,
    /// Threads in a block.
    pub block_dim: u32,
    /// Index of the block in the grid.
    pub block_index: u32,
    /// Blocks in the grid.
    pub grid_dim: u32,
    /// Number of the launch.
    pub grid_id: u32,
    /// Stands for the streaming multiprocessor: the index of the worker thread.
    pub sm_id: u32,
}

thread_local! {
    static POSITION: Cell<Position> = const {
        Cell::new(Position { thread_index: 0, block_dim: 1, block_index: 0, grid_dim: 1, grid_id: 0, sm_id: 0 })
    };
}

/// Lets the calling OS thread stand for `position` until the next call.
pub fn set_position(position: Position) {
    POSITION.set(position);
}

pub(crate) fn thread_index() -> u32 {
    POSITION.get().thread_index
}

pub(crate) fn block_dim() -> u32 {
    POSITION.get().block_dim
}

pub(crate) fn block_index() -> u32 {
    POSITION.get().block_index
}

pub(crate) fn block_number() -> u32 {
    block_index()
}

pub(crate) fn grid_dim() -> u32 {
    POSITION.get().grid_dim
}

pub(crate) fn grid_threads() -> u32 {
    grid_dim().saturating_mul(block_dim())
}

pub(crate) fn grid_id() -> u32 {
    POSITION.get().grid_id
}

pub(crate) fn sm_id() -> u32 {
    POSITION.get().sm_id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_saturates() {
        for (grid_dim, block_dim, threads) in [
            (7, 256, 7 * 256),
            ((1 << 24) - 1, 256, u32::MAX - 255),
            (1 << 24, 256, u32::MAX),
            ((1 << 31) - 1, 1024, u32::MAX),
        ] {
            set_position(Position {
                block_dim,
                grid_dim,
                ..Position::default()
            });
            assert_eq!(grid_threads(), threads);
        }
    }
}
