//! A thread that plays in a cell.

use super::cell::{Cell, Left};
use super::stamp::Stamp;
use super::tally::{LitmusCount, LitmusCounts};
use super::{LitmusArguments, Record, SIZES};
use crate::sizes::mix;
use simt::time::nanosleep;
use simt::warp;

/// A player, and what it counted.
pub(super) struct Player<'a> {
    arguments: &'a LitmusArguments,
    thread: u64,
    lane: u64,
    cell: Cell,
    pub counts: LitmusCounts,
}

impl<'a> Player<'a> {
    /// # Safety
    ///
    /// The arguments must be valid, and `thread` the caller.
    pub unsafe fn new(arguments: &'a LitmusArguments, thread: u64) -> Self {
        Self {
            arguments,
            thread,
            lane: u64::from(warp::lane_id()),
            // SAFETY: the host has prepared the cells.
            cell: unsafe { Cell::new(&arguments.cells, arguments.cell_of(thread)) },
            counts: LitmusCounts::default(),
        }
    }

    /// Takes a block, compares it, stamps it and frees it.
    ///
    /// # Safety
    ///
    /// The round must be below the number of rounds, and none be played twice.
    pub unsafe fn play(&mut self, round: u64) {
        let arguments = self.arguments;
        let stamp = Stamp::new(arguments.launch, self.thread, round);
        let draw = mix(stamp.word());
        let size = |draw: u64| arguments.sizes[(draw % SIZES as u64) as usize];
        let mut bytes = size(draw);
        let mut block = self.take(bytes);
        self.counts.add(LitmusCount::Tries, 1);
        let mut record = Record::default();
        // SAFETY: the block is this player's, and the record its own.
        unsafe {
            if block.is_null() {
                self.counts.add(LitmusCount::Nulls, 1);
            } else {
                record = Record {
                    left: stamp.word(),
                    found: self.enter(block, bytes, 0),
                };
                self.counts
                    .add(LitmusCount::Meetings, u64::from(record.found != 0));
                let lie = arguments.lie != 0 && round.is_multiple_of(arguments.lie);
                self.cell.stamp(block, bytes, stamp, lie);
            }
            // Plainly, and before the free: whoever gets the block sees it.
            arguments.record(self.thread, round).write(record);
            if arguments.resize != 0 && !block.is_null() {
                (block, bytes) = self.resize(block, bytes, size(draw >> 8), stamp);
            }
            if arguments.pause != 0 && draw >> 32 & 1 == 0 {
                // With the block: others must take another one.
                nanosleep(20);
            }
            self.give(block, bytes);
        }
        if arguments.pause != 0 {
            nanosleep(20);
        }
    }

    /// Calls `malloc` when it is the lane's turn.
    fn take(&self, bytes: u64) -> *mut u8 {
        let turns = self.arguments.malloc_turns;
        let mut block = core::ptr::null_mut();
        for turn in 0..turns {
            if self.lane % turns == turn {
                block = self.cell.heap.malloc(bytes);
            }
        }
        block
    }

    /// Calls `free` when it is the lane's turn.
    ///
    /// # Safety
    ///
    /// The block must be this player's, or NULL.
    unsafe fn give(&self, block: *mut u8, bytes: u64) {
        let turns = self.arguments.free_turns;
        // SAFETY: as the caller promises.
        unsafe {
            if !block.is_null() {
                self.cell.leave(block, bytes);
            }
            for turn in 0..turns {
                if self.lane % turns == turn {
                    self.cell.heap.free(block);
                }
            }
        }
    }

    /// # Safety
    ///
    /// The block must be this player's, of `bytes` bytes.
    unsafe fn enter(&mut self, block: *mut u8, bytes: u64, skip: u64) -> u64 {
        let arguments = self.arguments;
        let left = Left {
            launch: arguments.launch,
            thread: self.thread,
            skip,
        };
        // SAFETY: stamps of this launch name a record, which its thread has written before; else as the
        // caller promises.
        unsafe {
            let elsewhere =
                |stamp: Stamp| arguments.record(stamp.thread(), stamp.round()).read().left;
            let counts = &mut self.counts;
            self.cell.enter(block, bytes, &left, elsewhere, counts)
        }
    }

    /// Puts a stamped block through `realloc`, and stamps what is new of it. Gives the block and its size.
    ///
    /// # Safety
    ///
    /// The block must be this player's, of `bytes` bytes, stamped.
    unsafe fn resize(
        &mut self,
        block: *mut u8,
        bytes: u64,
        new_bytes: u64,
        stamp: Stamp,
    ) -> (*mut u8, u64) {
        // SAFETY: as the caller promises; the old block is another's as soon as it is moved.
        unsafe {
            self.cell.leave(block, bytes);
            // The slot may be larger than the request: of a full heap any will do.
            let usable = self.cell.heap.usable_size(block);
            let new = self.cell.heap.realloc(block, new_bytes);
            if new.is_null() {
                // It stays where it was; nobody can have entered meanwhile.
                self.counts.add(LitmusCount::Nulls, 1);
                self.enter(block, bytes, bytes);
                return (block, bytes);
            }
            let intact = self.cell.is_stamped(new, bytes.min(new_bytes), stamp);
            self.counts.add(LitmusCount::StaleCopy, u64::from(!intact));
            // Copied was all that the slot held.
            let found = self.enter(new, new_bytes, usable.min(new_bytes));
            self.counts
                .add(LitmusCount::Meetings, u64::from(found != 0));
            self.cell.stamp(new, new_bytes, stamp, false);
            (new, new_bytes)
        }
    }
}
