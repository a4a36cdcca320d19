//! A queue in linked blocks, filled by all threads at once and worked off by the next launch.
//!
//! Threads claim places in the first block of a chain by a count; who finds it full puts a new block in front; both by
//! compare-and-exchange. Before the next launch one thread lists the blocks, so that each item finds its thread.
//! The last thread to be done with a block drops it.

use crate::places::{element, own_index, place};
use alloc::boxed::Box;
use bytemuck::{Pod, Zeroable};
use core::cell::UnsafeCell;
use simt::atomic::{DeviceAtomicU32, DeviceAtomicU64, Ordering};
use simt::kernel;

/// Items of a block.
pub const ITEMS: usize = 62;

/// A piece of work: a part of a picture.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Tile {
    /// Left edge.
    pub x: u16,
    /// Upper edge.
    pub y: u16,
    /// Pixels from left to right.
    pub width: u16,
    /// Pixels from top to bottom.
    pub height: u16,
}

/// Where a queue begins. All zeroes is an empty one.
#[repr(C)]
pub struct Queue {
    /// Address of the first block, or 0.
    first: DeviceAtomicU64,
    /// Number of blocks.
    blocks: DeviceAtomicU64,
}

struct Block {
    next: u64,
    /// Places that were claimed.
    claimed: DeviceAtomicU32,
    /// Items that are not worked off.
    left: DeviceAtomicU32,
    items: [UnsafeCell<Tile>; ITEMS],
}

impl Block {
    fn new(item: Tile, next: u64) -> Self {
        let block = Self {
            next,
            claimed: DeviceAtomicU32::new(1),
            left: DeviceAtomicU32::new(0),
            items: [const {
                UnsafeCell::new(Tile {
                    x: 0,
                    y: 0,
                    width: 0,
                    height: 0,
                })
            }; ITEMS],
        };
        // SAFETY: nobody else knows the block.
        unsafe { block.items[0].get().write(item) };
        block
    }

    /// Takes an item, if there is a place left.
    fn push(&self, item: Tile) -> bool {
        let Some(place) = self.claim() else {
            return false;
        };
        // SAFETY: the place is this thread's.
        unsafe { self.items[place].get().write(item) };
        true
    }

    /// Claims a place. Not by `fetch_add`: lanes may come here with different blocks, because they loaded the queue's first
    /// one at different times, but CUDA's assembler takes what is loaded from one address for one value, lets one lane add
    /// for all, to its own block, and so gives the others places in a block that is not theirs.
    fn claim(&self) -> Option<usize> {
        // Relaxed, all: only deals places out; items are read by the next launch.
        let mut claimed = self.claimed.load(Ordering::Relaxed);
        while claimed < ITEMS as u32 {
            let (order, next) = (Ordering::Relaxed, claimed + 1);
            match self.claimed.compare_exchange(claimed, next, order, order) {
                Ok(_) => return Some(claimed as usize),
                Err(others) => claimed = others,
            }
        }
        None
    }
}

impl Queue {
    /// Adds an item.
    ///
    /// # Safety
    ///
    /// The queue must be one of this launch's.
    pub unsafe fn push(&self, item: Tile) {
        loop {
            // Acquire: pairs with the exchange, so that the block is seen as it was made.
            let first = self.first.load(Ordering::Acquire);
            // SAFETY: blocks stay until the next launch has worked them off.
            if first != 0 && unsafe { &*(first as *const Block) }.push(item) {
                return;
            }
            let block = Box::into_raw(Box::new(Block::new(item, first)));
            // Release: who finds the block sees what is in it. Relaxed: a failure is followed by a load.
            let inserted = self.first.compare_exchange(
                first,
                block as u64,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if inserted.is_ok() {
                // Relaxed: read by the host after the launch.
                self.blocks.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // SAFETY: nobody else got to know the block.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}

/// A block of the queue that is worked off.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Listed {
    block: u64,
    /// Its items.
    items: u64,
}

/// Arguments of [`Fill`] and [`List`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct QueueArguments {
    /// Address of the [`Queue`].
    pub queue: u64,
    /// Address of items for [`Fill`]; of a [`Listed`] for each block for [`List`].
    pub places: u64,
    /// Number of items to fill in.
    pub count: u64,
    /// Address of a number of 8 bytes, to which [`List`] adds the items that there are.
    pub items: u64,
}

kernel! {
    /// Every thread puts an item into the queue.
    pub struct Fill = "example_queue_fill";
    fn body(arguments: &QueueArguments) {
        let Some(index) = own_index(arguments.count) else { return };
        // SAFETY: the host gave the queue and the items.
        unsafe {
            let queue: &Queue = element(arguments.queue, 0);
            queue.push(*element(arguments.places, index));
        }
    }
}

kernel! {
    /// One thread lists the queue's blocks, and leaves the queue empty.
    pub struct List = "example_queue_list";
    fn body(arguments: &QueueArguments) {
        if own_index(1).is_none() {
            return;
        }
        // SAFETY: the host gave a place for each block, and there is no other thread.
        unsafe {
            let queue: &Queue = element(arguments.queue, 0);
            // Relaxed, all: launches order what one thread does.
            let mut at = queue.first.swap(0, Ordering::Relaxed);
            queue.blocks.store(0, Ordering::Relaxed);
            let (mut listed, mut total) = (0, 0);
            while at != 0 {
                let block = &*(at as *const Block);
                let items = block.claimed.load(Ordering::Relaxed);
                block.left.store(items, Ordering::Relaxed);
                let place: *mut Listed = place(arguments.places, listed);
                place.write(Listed { block: at, items: u64::from(items) });
                (listed, total, at) = (listed + 1, total + u64::from(items), block.next);
            }
            place::<u64>(arguments.items, 0).write(total);
        }
    }
}

/// The calling thread's item of a list of `blocks` blocks at address `list`, and then what is to be done with it.
///
/// # Safety
///
/// [`List`] must have made the list, and each thread may ask once.
pub unsafe fn work_off(list: u64, blocks: u64, work: impl FnOnce(Tile)) {
    let Some(index) = own_index(blocks * ITEMS as u64) else {
        return;
    };
    // SAFETY: the block is there until the last of its threads is done.
    unsafe {
        let listed: Listed = *element(list, index / ITEMS);
        if (index % ITEMS) as u64 >= listed.items {
            return;
        }
        let block = listed.block as *mut Block;
        work((*block).items[index % ITEMS].get().read());
        // Acquire and release: the last one frees what all others have read before.
        if (*block).left.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(Box::from_raw(block));
        }
    }
}
