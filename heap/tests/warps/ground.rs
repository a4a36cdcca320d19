//! The heap of a scenario, and what is live in it: each block's place and content are watched.

use super::host_heap::HostHeap;
use scatterheap_heap::Heap;
use scatterheap_heap::class::class_of;
use scatterheap_heap::growth::{Answer, Growth, Mailbox};
use scatterheap_heap::hardened::Hardening;
use scatterheap_heap::ticket::Ticket;
use scatterheap_simt::atomic::Ordering;
use shuttle::rand::Rng;
use std::alloc::Layout as Request;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

thread_local! {
    /// Whether the schedule calls `malloc_called` and its like: all of its lanes, since lanes that are to come together must call the same. (All tasks of
    /// a schedule run on one thread.)
    static CALLS: Cell<bool> = const { Cell::new(false) };
}

/// Runs a schedule of a scenario, by the functions that are called instead of `malloc` and `free`, or not.
pub fn in_calls(calls: bool, scenario: impl Fn()) {
    CALLS.set(calls);
    scenario();
}

/// A number below `bound`, of the schedule's seed.
pub fn random(bound: u64) -> u64 {
    shuttle::rand::thread_rng().gen_range(0..bound)
}

/// A heap and the blocks that are live in it. Neither lock nor atomic is a scheduling point.
pub struct Ground {
    pub host: HostHeap,
    live: Mutex<BTreeMap<u64, u64>>,
    growing: Option<Growing>,
}

/// What a heap that grows shares with its host.
struct Growing {
    mailbox: Box<Mailbox>,
    /// Pages that have memory, or are about to.
    mapped: AtomicU32,
}

#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub address: u64,
    bytes: u64,
    owner: u64,
}

impl Ground {
    pub fn new(capacity: u64, stripes: u32) -> Arc<Self> {
        Self::hardened(capacity, stripes, Hardening::NONE)
    }

    pub fn hardened(capacity: u64, stripes: u32, modes: Hardening) -> Arc<Self> {
        Self::of(HostHeap::new(capacity, stripes, modes.flags()), None)
    }

    /// A heap of which `pages` pages have memory at first, of those that it may have. Requests wait for so many looks at the clock, and ask for more ahead of need if less than a part of the
    /// pages is free.
    pub fn growing(
        capacity: u64,
        stripes: u32,
        pages: u32,
        looks: u64,
        low_water: u32,
    ) -> Arc<Self> {
        let answer = Answer {
            pages,
            closed: false,
        };
        let mailbox = Box::new(Mailbox::new(answer));
        let growth = Growth {
            mailbox: std::ptr::from_ref(&*mailbox) as u64,
            patience: 1000 * looks,
            pages,
            low_water,
        };
        let growing = Growing {
            mailbox,
            mapped: AtomicU32::new(pages),
        };
        Self::of(HostHeap::growing(capacity, stripes, growth), Some(growing))
    }

    fn of(host: HostHeap, growing: Option<Growing>) -> Arc<Self> {
        let live = Mutex::new(BTreeMap::new());
        Arc::new(Self {
            host,
            live,
            growing,
        })
    }

    /// The mailbox of a heap that grows.
    pub fn mailbox(&self) -> &Mailbox {
        &self.growing.as_ref().expect("a heap that grows").mailbox
    }

    /// Pages that have memory.
    pub fn mapped(&self) -> u32 {
        let most = self.heap().layout().page_count;
        let growing = self.growing.as_ref();
        growing.map_or(most, |growing| growing.mapped.load(Relaxed))
    }

    /// What the host does: says that so many pages have memory, no fewer than before, and whether there will be no more.
    pub fn map(&self, pages: u32, closed: bool) {
        if let Some(growing) = &self.growing {
            growing.mapped.store(pages, Relaxed);
        }
        self.mailbox().answer(Answer { pages, closed });
    }

    /// Refused frees so far.
    pub fn misuses(&self) -> u64 {
        let globals = self.heap().metadata() + self.heap().layout().offsets.globals;
        // SAFETY: the globals are there, initialised.
        let globals = unsafe { &*(globals as *const scatterheap_heap::Globals) };
        let counts = globals.misuses.iter();
        counts.map(|misuse| misuse.load(Ordering::Relaxed)).sum()
    }

    pub fn heap(&self) -> &Heap {
        self.host.heap()
    }

    /// Has blocks of `bytes` bytes, a class's slots, in the slab of a stripe, as if they outlived others: the stripe has so many units less. Some lie where the next row is drawn, the others
    /// anywhere.
    pub fn occupy(&self, bytes: u32) -> Vec<Block> {
        let class = class_of(bytes);
        let stripe = self.host.stripe(class);
        let count = random(u64::from(stripe.look().units_left()) / 2 + 1);
        let drawn = stripe.draw(u32::try_from(count).expect("fewer than slots"));
        let slots = self.heap().layout().slots(class, drawn.order());
        let (in_row, next) = (random(33), stripe.look().units_left());
        let mut blocks = Vec::new();
        for number in 0.. {
            if blocks.len() as u64 == count {
                break;
            }
            let slot = if number < in_row.min(next.into()) {
                u64::from(next) - 1 - number
            } else {
                random(slots.into())
            };
            let slot = u32::try_from(slot).expect("a slab has fewer slots");
            blocks.extend(self.occupy_slot(drawn, slot, bytes));
        }
        blocks
    }

    /// The block in a slot, of `bytes` bytes, for one of the units that were drawn with a ticket; none if another has it.
    pub fn occupy_slot(&self, drawn: Ticket, slot: u32, bytes: u32) -> Option<Block> {
        let block = self.host.occupy(drawn, slot, bytes)?;
        self.admit(block as *mut u8, bytes.into())
    }

    /// Takes in a block that the heap gave, or nothing for NULL.
    fn admit(&self, pointer: *mut u8, bytes: u64) -> Option<Block> {
        if pointer.is_null() {
            return None;
        }
        let (heap, address) = (self.heap(), pointer as u64);
        let usable = heap.usable_size(pointer);
        assert!(
            usable >= bytes && address % 16 == 0,
            "{usable} for {bytes} at {address:#x}"
        );
        let end = heap.base() + u64::from(self.mapped()) * heap.layout().page_bytes();
        assert!(address >= heap.base() && address + usable <= end);
        {
            let mut live = self.live.lock().expect("lock");
            if let Some((begin, length)) = live.range(..address + usable).next_back() {
                assert!(
                    begin + length <= address,
                    "{begin:#x} + {length} overlaps {address:#x} + {usable}"
                );
            }
            live.insert(address, usable);
        }
        let block = Block {
            address,
            bytes,
            owner: random(u64::MAX),
        };
        Self::fill(block);
        Some(block)
    }

    pub fn dismiss(&self, block: Block) {
        Self::check(block, block.bytes);
        let known = self.live.lock().expect("lock").remove(&block.address);
        assert!(known.is_some(), "{block:?} is live");
    }

    fn words(block: Block, bytes: u64) -> impl Iterator<Item = (*mut u64, u64)> {
        (0..bytes / 8).map(move |word| ((block.address + word * 8) as *mut u64, block.owner ^ word))
    }

    fn fill(block: Block) {
        for (word, pattern) in Self::words(block, block.bytes) {
            // SAFETY: the block has that many words and is the caller's.
            unsafe { word.write(pattern) };
        }
    }

    fn check(block: Block, bytes: u64) {
        for (word, pattern) in Self::words(block, bytes) {
            // SAFETY: as in `fill`.
            let found = unsafe { word.read() };
            assert_eq!(found, pattern, "{block:?} is as it was left");
        }
    }

    pub fn malloc(&self, bytes: u64) -> Option<Block> {
        let heap = self.heap();
        let pointer = if CALLS.get() {
            heap.malloc_called(bytes, 0)
        } else {
            heap.malloc(bytes)
        };
        self.admit(pointer, bytes)
    }

    pub fn calloc(&self, bytes: u64) -> Option<Block> {
        let heap = self.heap();
        let pointer = if CALLS.get() {
            heap.calloc_called(1, bytes)
        } else {
            heap.calloc(1, bytes)
        };
        if !pointer.is_null() {
            let length = usize::try_from(bytes).expect("fits");
            // SAFETY: the block has that many bytes.
            let content = unsafe { std::slice::from_raw_parts(pointer, length) };
            assert!(content.iter().all(|byte| *byte == 0), "calloc gives zeroes");
        }
        self.admit(pointer, bytes)
    }

    pub fn aligned(&self, bytes: u64, alignment: usize) -> Option<Block> {
        let length = usize::try_from(bytes).expect("fits");
        let request = Request::from_size_align(length, alignment).expect("a valid request");
        let pointer = if CALLS.get() {
            self.heap().aligned_called(bytes, alignment as u64)
        } else {
            self.heap().aligned_alloc(request)
        };
        assert_eq!(
            pointer as usize % alignment,
            0,
            "{bytes} bytes aligned to {alignment}"
        );
        self.admit(pointer, bytes)
    }

    pub fn realloc(&self, block: Block, bytes: u64) -> Block {
        let old = block.address as *mut u8;
        Self::check(block, block.bytes);
        // It may be somebody else's as soon as it is freed, so it is dismissed before.
        let usable = self
            .live
            .lock()
            .expect("lock")
            .remove(&block.address)
            .expect("live");
        // SAFETY: the block is the caller's.
        let new = unsafe {
            if CALLS.get() {
                self.heap().realloc_called(old, bytes)
            } else {
                self.heap().realloc(old, bytes)
            }
        };
        if new.is_null() {
            self.live
                .lock()
                .expect("lock")
                .insert(block.address, usable);
            return block;
        }
        Self::check(
            Block {
                address: new as u64,
                ..block
            },
            bytes.min(block.bytes),
        );
        self.admit(new, bytes).expect("not NULL")
    }

    pub fn free(&self, block: Block) {
        self.dismiss(block);
        // SAFETY: the block is the caller's.
        unsafe { self.free_address(block.address) };
    }

    /// Frees what may be no block, by the function that the schedule is for.
    ///
    /// # Safety
    ///
    /// As for the heap's `free`; what is no block is refused, if nobody allocates meanwhile.
    pub unsafe fn free_address(&self, address: u64) {
        let pointer = address as *mut u8;
        if CALLS.get() {
            // SAFETY: as the caller promises.
            unsafe { self.heap().free_called(pointer) };
        } else {
            // SAFETY: as the caller promises.
            unsafe { self.heap().free(pointer) };
        }
    }

    /// Everything is freed: the whole heap can be had.
    pub fn finish(&self) {
        let heap = self.heap();
        assert!(self.live.lock().expect("lock").is_empty());
        let everything = self
            .malloc(heap.capacity() - Hardening::of_flags(heap.flags()).overhead())
            .expect("all is freed, so all can be had");
        assert!(self.malloc(1).is_none());
        self.free(everything);
    }
}
