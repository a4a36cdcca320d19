//! Litmus tests of the promise that what a thread did to a block before `free` is seen by the next
//! owner after `malloc`.
//!
//! Threads play in *cells*: tiny heaps with hardly more room than their players need, so that a player
//! gets what another has just freed. A round of a player is: take a block, compare it with what its last
//! owners left ([`cell`]), leave a stamp in it, free it. Freeing one's own and then taking another's is
//! also the pattern of store buffering: two players that get each other's blocks must each see what the other
//! wrote before its free.
//!
//! Nobody waits for anybody, so players need not run at once.

pub mod cell;
mod player;
pub mod stamp;
pub mod tally;

use bytemuck::{Pod, Zeroable};
use cell::Cells;
use heap::{Heap, Share};
use player::Player;
use simt::{kernel, thread};
use stamp::Stamp;
use tally::{LitmusCount, LitmusCounts};

/// Sizes that a variant's requests choose from.
pub const SIZES: usize = 4;

/// What a thread did in a round. Written plainly before the round's free, and so seen by who gets
/// the block.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Record {
    /// The stamp left in the block that was freed; 0 if there was none.
    pub left: u64,
    /// The stamp that another thread of this launch had left in it; 0 if none had.
    pub found: u64,
}

/// Arguments of [`Play`] and [`CountCrossings`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct LitmusArguments {
    /// The cells.
    pub cells: Cells,
    /// Address of `threads * rounds` [`Record`]s, thread after thread.
    pub records: u64,
    /// Address of the tally.
    pub tally: u64,
    /// Threads that play: cells times players times width.
    pub threads: u64,
    /// Rounds of each, fewer than 2^20.
    pub rounds: u64,
    /// Number of the launch, fewer than 2^20.
    pub launch: u64,
    /// Bytes of requests, multiples of 16.
    pub sizes: [u64; SIZES],
    /// Players of a cell.
    pub players: u64,
    /// Lanes of a player.
    pub width: u64,
    /// Whether players of one cell lie far apart in the grid, and not side by side.
    pub apart: u64,
    /// Lanes of a warp call `malloc` in this many turns.
    pub malloc_turns: u64,
    /// Lanes of a warp call `free` in this many turns.
    pub free_turns: u64,
    /// Whether blocks also go through `realloc`.
    pub resize: u64,
    /// Whether players pause between rounds, so that others come in where few run at once.
    pub pause: u64,
    /// If not 0, one round of this many leaves a wrong word in its block: so tests see that it is noticed.
    pub lie: u64,
}

impl LitmusArguments {
    /// The cell that a thread plays in.
    fn cell_of(&self, thread: u64) -> u64 {
        let unit = thread / self.width;
        if self.apart == 0 {
            unit / self.players
        } else {
            unit % (self.threads / self.width / self.players)
        }
    }

    /// The record of a thread's round.
    ///
    /// # Safety
    ///
    /// Both must be below their number, and the records as the arguments say.
    unsafe fn record(&self, thread: u64, round: u64) -> *mut Record {
        // SAFETY: as the caller promises.
        unsafe { (self.records as *mut Record).add((thread * self.rounds + round) as usize) }
    }
}

/// Arguments of [`Prepare`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct PrepareArguments {
    /// The cells, whose heads the host has written.
    pub cells: Cells,
    /// Number of cells; the grid has as many threads or more.
    pub count: u64,
    /// Bytes of a block that is taken once and kept, so that there is less room.
    pub kept_run: u64,
    /// Bytes of the blocks that are taken and kept beside that.
    pub kept_slot: u64,
    /// How many of them.
    pub kept_slots: u64,
    /// Address of the tally.
    pub tally: u64,
}

kernel! {
    /// Every thread makes a cell's heap empty, and takes what nobody is to have.
    pub struct Prepare = "scatterheap_kernel_litmus_prepare";
    fn body(arguments: &PrepareArguments) {
        let cell = u64::from(thread::index_1d());
        if cell >= arguments.count {
            return;
        }
        let mut counts = LitmusCounts::default();
        // SAFETY: the host wrote the head of each cell's heap, for memory that nobody uses.
        unsafe {
            let heap: &Heap = arguments.cells.heap(cell);
            heap.initialise(Share { index: 0, count: 1 });
            for kept in 0..=arguments.kept_slots {
                let bytes = if kept == 0 { arguments.kept_run } else { arguments.kept_slot };
                counts.add(LitmusCount::Unprepared, u64::from(heap.malloc(bytes).is_null()));
            }
            counts.report(arguments.tally);
        }
    }
}

kernel! {
    /// Every thread plays its rounds.
    pub struct Play = "scatterheap_kernel_litmus_play";
    fn body(arguments: &LitmusArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.threads {
            return;
        }
        // SAFETY: the host gave cells that are prepared, records and a tally.
        unsafe {
            let mut player = Player::new(arguments, thread);
            for round in 0..arguments.rounds {
                player.play(round);
            }
            player.counts.report(arguments.tally);
        }
    }
}

kernel! {
    /// Counts the pairs of rounds in which two threads freed a block each and then got each other's.
    pub struct CountCrossings = "scatterheap_kernel_litmus_count_crossings";
    fn body(arguments: &LitmusArguments) {
        let thread = u64::from(thread::index_1d());
        if thread >= arguments.threads {
            return;
        }
        let mut counts = LitmusCounts::default();
        for round in 1..arguments.rounds {
            // SAFETY: `Play` has written every record of these threads, and its stamps name threads and
            // rounds of this launch.
            unsafe {
                let left = arguments.record(thread, round - 1).read().left;
                let found = Stamp::of(arguments.record(thread, round).read().found);
                let crosses = |found: Stamp| {
                    let after = found.round() + 1;
                    after < arguments.rounds && arguments.record(found.thread(), after).read().found == left
                };
                // Each pair is seen from both sides, and counted from one.
                let counted = found.is_some_and(|found| left != 0 && found.thread() > thread && crosses(found));
                counts.add(LitmusCount::Crossings, u64::from(counted));
            }
        }
        // SAFETY: the host gave a tally.
        unsafe { counts.report(arguments.tally) };
    }
}
