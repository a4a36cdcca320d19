//! A shadow model of the heap: what must be true of each answer, told from what was done.
//!
//! The model knows the live blocks and what was written to them. It checks that blocks are where
//! and as they must be, that contents are kept, that NULL is given only when the request cannot
//! be met, that misuse is refused and counted, and that in the end everything is free again.
//!
//! The tests of this crate and the fuzz target `operations` share it.

#![allow(dead_code, reason = "each user needs its part")]

use super::host_heap::pack;
use scatterheap_heap::array::Array;
use scatterheap_heap::counters::ClassCounters;
use scatterheap_heap::layout::Layout;
use scatterheap_heap::misuse::Misuse;
use scatterheap_heap::{COUNT_BYTES, Globals, Heap};
use scatterheap_simt::atomic::Ordering;
use scatterheap_simt::emulation::{Position, set_position};
use std::alloc::Layout as Request;
use std::collections::BTreeMap;
use std::ops::Range;

/// What stands in memory that nobody wrote.
const DIRT: u8 = 0xa5;

/// The heap's memory is dirtied before the first request up to this capacity. Beyond, it would take
/// longer than the test.
const LARGEST_DIRTY: u64 = 8 << 20;
/// Requests of one [`Operation::Fill`] at most.
const LONGEST_FILL: u32 = 1 << 16;

/// What a test may do to a heap.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Bytes.
    Malloc(u64),
    /// Count and bytes each.
    Calloc(u64, u64),
    /// Of the live block with this number, modulo the live blocks.
    Realloc(usize, u64),
    /// Bytes, and the binary logarithm of the alignment.
    Aligned(u64, u32),
    Free(usize),
    /// Frees a block, and asks for the same again.
    Again(usize),
    /// A block that was freed and is not live.
    DoubleFree(usize),
    /// This many bytes into a live block.
    Interior(usize, u64),
    /// Frees a live block through a handle from before the reset.
    StaleFree(usize),
    /// Asks through that handle.
    StaleMalloc(u64),
    /// Bytes before or after the heap.
    Foreign(bool, u64),
    /// Any address in the heap that is not the beginning of a live block.
    Wild(u64),
    /// `realloc` of such an address.
    WildRealloc(u64, u64),
    /// Blocks of so many bytes until there is no more.
    Fill(u64),
    /// Frees one live block of so many: the first, and so on.
    FreeEach(usize),
    /// What follows is asked for by this block, and so from its stripes.
    StandIn(u32),
    /// Slots are packed from here on, where slabs are large enough.
    Pack,
}

/// How a block was asked for.
#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    alignment: u64,
    owner: u64,
    /// The bytes it has, at least those asked for.
    usable: u64,
    /// A `realloc` left it where it was: it need not be as a fresh one would be.
    resized: bool,
}

/// The model of one heap.
pub struct Shadow<'a> {
    heap: &'a Heap,
    stale: Heap,
    live: BTreeMap<u64, Block>,
    freed: Vec<u64>,
    owners: u64,
    misuses: u64,
    failures: u64,
    served: u64,
    asked: u64,
}

/// A number of bytes or an offset, as an index.
pub fn index(number: u64) -> usize {
    usize::try_from(number).expect("64 bit")
}

/// Bytes at each end of a block that are all written and checked.
const DENSE: usize = 2048;

/// What is written and checked of a block: all of a small one, the ends and a sample of a large one.
fn sample(bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let dense = DENSE as u64;
    let begin = dense.min(bytes);
    let end = bytes.saturating_sub(dense).max(begin);
    let step = index((bytes / 16_384).max(509));
    [0..begin, end..bytes]
        .into_iter()
        .chain((begin..end).step_by(step).map(|offset| offset..offset + 1))
}

/// What stands at these offsets of a block, at most [`DENSE`].
fn pattern(owner: u64, offsets: Range<u64>, buffer: &mut [u8; DENSE]) -> &[u8] {
    let letterhead = owner.wrapping_mul(31);
    let length = index(offsets.end - offsets.start);
    for (byte, offset) in buffer.iter_mut().zip(offsets) {
        *byte = (letterhead ^ offset ^ (offset >> 8)).to_le_bytes()[0];
    }
    &buffer[..length]
}

impl<'a> Shadow<'a> {
    /// The model of a heap that nothing was asked of yet, and that has the handle `stale` from
    /// before a reset.
    pub fn new(heap: &'a Heap, stale: Heap) -> Self {
        if heap.capacity() <= LARGEST_DIRTY {
            // SAFETY: the pages are the test's own memory, and nothing is allocated yet.
            unsafe { (heap.base() as *mut u8).write_bytes(DIRT, index(heap.capacity())) };
        }
        Self {
            heap,
            stale,
            live: BTreeMap::new(),
            freed: Vec::new(),
            owners: 0,
            misuses: 0,
            failures: 0,
            served: 0,
            asked: 0,
        }
    }

    /// Addresses and usable sizes of the live blocks, in order.
    pub fn live(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.live
            .iter()
            .map(|(address, block)| (*address, block.usable))
    }

    /// Frees refused so far.
    pub fn misuses(&self) -> u64 {
        self.misuses
    }

    fn layout(&self) -> &Layout {
        self.heap.layout()
    }

    fn at<T>(&self, offset: u64, index: u32) -> &'a T {
        // The metadata begin with the heap.
        let metadata = std::ptr::from_ref(self.heap) as u64;
        // SAFETY: the layout says that the array is there, and it is initialised.
        unsafe { Array::<T>::new(metadata + offset).get(index) }
    }

    fn counted_misuses(&self) -> u64 {
        let count = |kind| self.counted_misuse(kind);
        Misuse::ALL.into_iter().map(count).sum()
    }

    fn counted_misuse(&self, kind: Misuse) -> u64 {
        let globals: &Globals = self.at(self.layout().offsets.globals, 0);
        globals.misuses[kind as usize].load(Ordering::Relaxed)
    }

    /// Does what the heap must refuse once, as one of these kinds.
    fn must_be_refused(&mut self, kinds: &[Misuse], misuse: impl FnOnce(&Heap)) {
        let count =
            |shadow: &Self| -> u64 { kinds.iter().map(|kind| shadow.counted_misuse(*kind)).sum() };
        let before = (count(self), self.counted_misuses());
        misuse(self.heap);
        self.misuses += 1;
        let after = (count(self), self.counted_misuses());
        assert_eq!(
            after,
            (before.0 + 1, before.1 + 1),
            "one misuse of {kinds:?}"
        );
    }

    /// The kinds that an address may be, which is not where a live block begins.
    fn kinds_of(&self, address: u64) -> &'static [Misuse] {
        if !self.heap.owns(address as *const u8) {
            &[Misuse::Foreign]
        } else if self.owner_of(address).is_some() {
            &[Misuse::Interior]
        } else {
            // In a free slot or page, which the model does not know.
            &[Misuse::Interior, Misuse::NotAllocated, Misuse::Retired]
        }
    }

    /// Failures, requests served and bytes asked for, over all classes and the runs.
    fn counted(&self) -> (u64, u64, u64) {
        let mut sums = (0, 0, 0);
        for class in 0..=self.layout().class_count {
            let counters: &ClassCounters = self.at(self.layout().offsets.counters, class);
            for failure in &counters.failures {
                sums.0 += failure.load(Ordering::Relaxed);
            }
            sums.1 += counters.served.load(Ordering::Relaxed);
            sums.2 += counters.asked.load(Ordering::Relaxed);
        }
        sums
    }

    fn pick(&self, number: usize) -> Option<(u64, Block)> {
        let count = self.live.len().max(1);
        self.live
            .iter()
            .nth(number % count)
            .map(|(at, block)| (*at, *block))
    }

    /// The live block that an address lies in.
    fn owner_of(&self, address: u64) -> Option<(u64, Block)> {
        let (begin, block) = self.live.range(..=address).next_back()?;
        (address < begin + block.usable).then_some((*begin, *block))
    }

    /// Takes in what a request gave.
    fn admit(&mut self, pointer: *mut u8, bytes: u64, alignment: u64) {
        if pointer.is_null() {
            self.refused(bytes, alignment);
            return;
        }
        self.count_served(bytes);
        let usable = self.place(pointer, bytes, alignment);
        self.owners += 1;
        let block = Block {
            bytes,
            alignment,
            owner: self.owners,
            usable,
            resized: false,
        };
        self.live.insert(pointer as u64, block);
        Self::fill(pointer as u64, block);
    }

    fn count_served(&mut self, bytes: u64) {
        self.served += 1;
        self.asked += bytes;
    }

    /// Checks where a new block lies; gives its usable size.
    fn place(&self, pointer: *mut u8, bytes: u64, alignment: u64) -> u64 {
        let address = pointer as u64;
        let usable = self.heap.usable_size(pointer);
        assert!(bytes > 0 && usable >= bytes, "{usable} bytes for {bytes}");
        let alignment = alignment.max(16);
        assert_eq!(
            address % alignment,
            0,
            "{bytes} bytes aligned to {alignment}"
        );
        assert!(address >= self.heap.base());
        assert!(address + usable <= self.heap.base() + self.heap.capacity());
        if let Some((begin, block)) = self.live.range(..address + usable).next_back() {
            assert!(
                begin + block.usable <= address,
                "{begin:#x} {block:?} overlaps {address:#x}"
            );
        }
        usable
    }

    fn fill(address: u64, block: Block) {
        let mut buffer = [0; DENSE];
        for offsets in sample(block.bytes) {
            let begin = index(offsets.start);
            let pattern = pattern(block.owner, offsets, &mut buffer);
            // SAFETY: the block has that many bytes and is ours.
            unsafe {
                let place = (address as *mut u8).add(begin);
                place.copy_from_nonoverlapping(pattern.as_ptr(), pattern.len());
            }
        }
    }

    fn check(address: u64, block: Block, bytes: u64) {
        let mut buffer = [0; DENSE];
        for offsets in sample(block.bytes) {
            let offsets = offsets.start.min(bytes)..offsets.end.min(bytes);
            let begin = index(offsets.start);
            let pattern = pattern(block.owner, offsets, &mut buffer);
            // SAFETY: as in `fill`.
            let found = unsafe {
                let place = (address as *const u8).add(begin);
                std::slice::from_raw_parts(place, pattern.len())
            };
            // At once, and byte by byte only if something is wrong.
            if found != pattern {
                let mut bytes = found.iter().zip(pattern);
                let wrong = bytes.position(|(found, expected)| found != expected);
                let offset = begin + wrong.unwrap_or(0);
                panic!("byte {offset} of {block:?} was changed");
            }
        }
    }

    /// A request gave NULL: checks that it could not be met, as far as the model can tell.
    fn refused(&mut self, bytes: u64, alignment: u64) {
        if bytes == 0 {
            return;
        }
        self.failures += 1;
        if bytes > self.heap.capacity() {
            return;
        }
        let (shift, page_bytes) = (self.layout().page_shift, self.layout().page_bytes());
        // Slabs are aligned and have at most so many pages.
        let block_pages = 1_usize << self.layout().max_order;
        let mut free = vec![true; self.layout().page_count as usize];
        for (address, block) in &self.live {
            let begin = index((address - self.heap.base()) >> shift);
            let end = index((address + block.usable - 1 - self.heap.base()) >> shift) + 1;
            let is_run = block.usable > u64::from(self.layout().largest_slot);
            // Of a slot's slab the model knows only how large it may be.
            let (begin, end) = if is_run {
                (begin, end)
            } else {
                let begin = begin / block_pages * block_pages;
                (begin, end.next_multiple_of(block_pages).min(free.len()))
            };
            free[begin..end].fill(false);
        }
        let needed = bytes.div_ceil(page_bytes);
        let base = self.heap.base();
        let mut length = 0;
        for (page, is_free) in free.iter().enumerate() {
            length = if *is_free { length + 1 } else { 0 };
            // The runs that end here.
            if length >= needed {
                let first = page as u64 + 1 - needed;
                assert!(
                    !(base + (first << shift)).is_multiple_of(alignment),
                    "NULL for {bytes} bytes aligned to {alignment}, though pages {first} to {page} are free"
                );
            }
        }
    }

    fn free(&mut self, address: u64) {
        let block = self.live.remove(&address).expect("live");
        Self::check(address, block, block.bytes);
        assert_eq!(self.heap.usable_size(address as *const u8), block.usable);
        // SAFETY: the block is live and nobody else's.
        unsafe { self.heap.free(address as *mut u8) };
        self.freed.push(address);
    }

    fn ask(&mut self, bytes: u64, alignment: u64) -> *mut u8 {
        let pointer = if alignment == 1 {
            self.heap.malloc(bytes)
        } else {
            let request = Request::from_size_align(index(bytes), index(alignment));
            self.heap.aligned_alloc(request.expect("a valid request"))
        };
        self.admit(pointer, bytes, alignment);
        pointer
    }

    fn realloc(&mut self, address: u64, old: Block, bytes: u64) {
        Self::check(address, old, old.bytes);
        // SAFETY: the block is live and nobody else's.
        let pointer = unsafe { self.heap.realloc(address as *mut u8, bytes) };
        if bytes == 0 {
            assert!(pointer.is_null());
            self.live.remove(&address);
            self.freed.push(address);
        } else if pointer.is_null() {
            self.refused(bytes, 1);
            Self::check(address, old, old.bytes);
        } else if pointer as u64 == address {
            assert!(bytes <= old.usable && self.heap.usable_size(pointer) == old.usable);
            if old.usable - bytes > old.usable / 2 {
                // It was to move to a smaller block, and none was left.
                self.refused(bytes, 1);
            }
            Self::check(address, old, bytes.min(old.bytes));
            let block = Block {
                bytes,
                resized: true,
                ..old
            };
            self.live.insert(address, block);
            Self::fill(address, block);
        } else {
            // The old block was live until after the new one was made.
            let usable = self.place(pointer, bytes, 1);
            Self::check(pointer as u64, old, bytes.min(old.bytes));
            self.live.remove(&address);
            self.freed.push(address);
            self.count_served(bytes);
            self.owners += 1;
            let block = Block {
                bytes,
                alignment: 1,
                owner: self.owners,
                usable,
                resized: false,
            };
            self.live.insert(pointer as u64, block);
            Self::fill(pointer as u64, block);
        }
    }

    /// Frees what must not be freed.
    fn misuse(&mut self, address: u64) {
        assert!(!self.live.contains_key(&address));
        self.must_be_refused(self.kinds_of(address), |heap| {
            // SAFETY: the heap refuses the pointer, which is what is tested.
            unsafe { heap.free(address as *mut u8) };
        });
        assert_eq!(self.heap.usable_size(address as *const u8), 0);
        if let Some((begin, block)) = self.owner_of(address) {
            assert_eq!(self.heap.usable_size(begin as *const u8), block.usable);
            Self::check(begin, block, block.bytes);
        }
    }

    /// Does an operation and checks what comes of it.
    ///
    /// # Panics
    /// The heap does not as it must.
    pub fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Malloc(bytes) => {
                self.ask(bytes, 1);
            }
            Operation::Calloc(count, size) => {
                let pointer = self.heap.calloc(count, size);
                let bytes = count.checked_mul(size);
                if let (false, Some(bytes)) = (pointer.is_null(), bytes) {
                    // SAFETY: the block has that many bytes.
                    let content = unsafe { std::slice::from_raw_parts(pointer, index(bytes)) };
                    assert!(content.iter().all(|byte| *byte == 0), "calloc gives zeroes");
                }
                self.admit(pointer, bytes.unwrap_or(u64::MAX), 1);
            }
            Operation::Realloc(number, bytes) => {
                if let Some((address, block)) = self.pick(number) {
                    self.realloc(address, block, bytes);
                } else {
                    // SAFETY: NULL is a block of no bytes.
                    let pointer = unsafe { self.heap.realloc(std::ptr::null_mut(), bytes) };
                    self.admit(pointer, bytes, 1);
                }
            }
            Operation::Aligned(bytes, shift) => {
                self.ask(bytes, 1 << shift);
            }
            Operation::Free(number) => {
                if let Some((address, _)) = self.pick(number) {
                    self.free(address);
                }
            }
            Operation::Again(number) => {
                if let Some((address, block)) = self.pick(number) {
                    self.free(address);
                    let pointer = self.ask(block.bytes, block.alignment);
                    assert!(
                        block.resized || !pointer.is_null(),
                        "just freed, and not to be had: {block:?}"
                    );
                }
            }
            Operation::Fill(bytes) => {
                for _ in 0..LONGEST_FILL {
                    if self.ask(bytes, 1).is_null() {
                        break;
                    }
                }
            }
            Operation::FreeEach(step) => {
                let addresses: Vec<u64> = self.live.keys().copied().step_by(step.max(1)).collect();
                for address in addresses {
                    self.free(address);
                }
            }
            Operation::Pack => pack(self.heap),
            Operation::StandIn(block) => set_position(Position {
                block_index: block,
                // Small launches and large ones.
                grid_dim: block * block,
                sm_id: block / 2,
                ..Position::default()
            }),
            _ => self.apply_misuse(operation),
        }
    }

    /// [`apply`](Self::apply) of an operation that the heap must refuse.
    fn apply_misuse(&mut self, operation: &Operation) {
        let (base, capacity) = (self.heap.base(), self.heap.capacity());
        match *operation {
            Operation::DoubleFree(number) => {
                let count = self.freed.len().max(1);
                match self.freed.get(number % count) {
                    Some(address) if !self.live.contains_key(address) => self.misuse(*address),
                    _ => {}
                }
            }
            Operation::Interior(number, offset) => {
                if let Some((address, block)) = self.pick(number) {
                    self.misuse(address + 1 + offset % (block.usable - 1));
                }
            }
            Operation::Foreign(before, distance) => {
                self.misuse(if before {
                    base - 1 - distance
                } else {
                    base + capacity + distance
                });
            }
            Operation::Wild(offset) => {
                if !self.live.contains_key(&(base + offset % capacity)) {
                    self.misuse(base + offset % capacity);
                }
            }
            Operation::WildRealloc(offset, bytes) => {
                let address = base + offset % capacity;
                if !self.live.contains_key(&address) {
                    self.must_be_refused(self.kinds_of(address), |heap| {
                        // SAFETY: as in `misuse`.
                        let pointer = unsafe { heap.realloc(address as *mut u8, bytes) };
                        assert!(pointer.is_null());
                    });
                }
            }
            Operation::StaleFree(number) => {
                if let Some((address, block)) = self.pick(number) {
                    let stale = self.stale;
                    self.must_be_refused(&[Misuse::Stale], |_| {
                        // SAFETY: as in `misuse`.
                        unsafe { stale.free(address as *mut u8) };
                    });
                    assert_eq!(stale.usable_size(address as *const u8), 0);
                    Self::check(address, block, block.bytes);
                }
            }
            Operation::StaleMalloc(bytes) => {
                let before = self.counted_misuse(Misuse::Stale);
                let pointer = self.stale.malloc(bytes);
                if pointer.is_null() && bytes > 0 {
                    self.misuses += 1;
                    assert_eq!(self.counted_misuse(Misuse::Stale), before + 1);
                } else {
                    // It was at hand.
                    self.admit(pointer, bytes, 1);
                }
            }
            _ => unreachable!("no misuse: {operation:?}"),
        }
    }

    /// Frees what is live, and checks that then the whole heap can be had.
    ///
    /// # Panics
    /// The heap does not as it must.
    pub fn finish(mut self) {
        while let Some(address) = self.live.keys().next().copied() {
            self.free(address);
        }
        let everything = self.heap.capacity();
        let pointer = self.ask(everything, 1);
        assert_eq!(
            pointer as u64,
            self.heap.base(),
            "all is freed, so all can be had"
        );
        assert!(self.ask(1, 1).is_null());
        self.free(pointer as u64);
        assert_eq!(self.counted_misuses(), self.misuses);
        let (failures, served, asked) = self.counted();
        assert_eq!(failures, self.failures);
        if self.heap.flags() & COUNT_BYTES != 0 {
            assert_eq!((served, asked), (self.served, self.asked));
        }
    }
}
