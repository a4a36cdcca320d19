//! The whole heap against a shadow model: random requests of one thread over random heap shapes.
//!
//! The model knows the live blocks and what was written to them. It checks that blocks are where
//! and as they must be, that contents are kept, that NULL is given only when the request cannot
//! be met, that misuse is refused and counted, and that in the end everything is free again.

#![cfg(not(any(loom, shuttle)))]

mod host_heap;

use host_heap::HostHeap;
use proptest::prelude::*;
use scatterheap_heap::array::Array;
use scatterheap_heap::counters::ClassCounters;
use scatterheap_heap::layout::{Layout, MIN_CAPACITY};
use scatterheap_heap::misuse::Misuse;
use scatterheap_heap::{COUNT_BYTES, Core, Globals, Heap};
use scatterheap_simt::atomic::Ordering;
use std::alloc::Layout as Request;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What stands in memory that nobody wrote.
const DIRT: u8 = 0xa5;

#[derive(Clone, Debug)]
enum Operation {
    Malloc(u64),
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
    /// Bytes before or after the heap.
    Foreign(bool, u64),
    /// Any address in the heap that is not the beginning of a live block.
    Wild(u64),
    /// `realloc` of such an address.
    WildRealloc(u64, u64),
    /// Frees a live block through a handle from before the reset.
    StaleFree(usize),
    /// Asks through that handle.
    StaleMalloc(u64),
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

struct Shadow<'a> {
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

fn index(number: u64) -> usize {
    usize::try_from(number).expect("64 bit")
}

/// Offsets of the bytes of a block that are written and checked: all of a small block, the
/// ends and a sample of a large one.
fn sample(bytes: u64) -> impl Iterator<Item = u64> {
    const DENSE: u64 = 2048;
    let middle = DENSE.min(bytes)..bytes.saturating_sub(DENSE).max(DENSE.min(bytes));
    (0..DENSE.min(bytes))
        .chain(middle.clone().step_by(509))
        .chain(middle.end..bytes)
}

fn pattern(owner: u64, offset: u64) -> u8 {
    (owner.wrapping_mul(31) ^ offset ^ (offset >> 8)).to_le_bytes()[0]
}

impl<'a> Shadow<'a> {
    fn new(heap: &'a Heap, stale: Heap) -> Self {
        // SAFETY: the pages are the test's own memory, and nothing is allocated yet.
        unsafe { (heap.base() as *mut u8).write_bytes(DIRT, index(heap.capacity())) };
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
        for offset in sample(block.bytes) {
            // SAFETY: the block has that many bytes and is ours.
            unsafe {
                (address as *mut u8)
                    .add(index(offset))
                    .write(pattern(block.owner, offset));
            };
        }
    }

    fn check(address: u64, block: Block, bytes: u64) {
        for offset in sample(block.bytes).filter(|offset| *offset < bytes) {
            // SAFETY: as in `fill`.
            let found = unsafe { (address as *const u8).add(index(offset)).read() };
            assert_eq!(
                found,
                pattern(block.owner, offset),
                "byte {offset} of {block:?}"
            );
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

    fn apply(&mut self, operation: &Operation) {
        let (base, capacity) = (self.heap.base(), self.heap.capacity());
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
        }
    }

    fn finish(mut self) {
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

/// Sizes of every kind of block that a heap has, and some that it has not.
fn sizes(capacity: u64) -> impl Strategy<Value = u64> {
    let page = Layout::new(capacity, 1).expect("in bounds").page_bytes();
    prop_oneof![
        8 => 1..=256_u64,
        6 => 1..=4 * page,
        3 => (0..24_u32).prop_map(|shift| 1_u64 << shift),
        3 => (1..=64_u64, 0..3_u64).prop_map(move |(pages, more)| pages * page - 1 + more),
        2 => 1..=capacity / 4,
        1 => capacity - capacity / 16..=capacity + page,
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63), Just(u64::MAX / 2)],
    ]
}

fn operations(capacity: u64) -> impl Strategy<Value = Vec<Operation>> {
    // One more is two bytes at least, so that a block has an inside.
    let wild = (0..capacity / 16, 0..20_u64)
        .prop_map(|(sixteens, more)| sixteens * 16 + more.saturating_sub(16));
    let operation = prop_oneof![
        20 => sizes(capacity).prop_map(Operation::Malloc),
        3 => sizes(capacity).prop_map(|bytes| Operation::Calloc(1, bytes)),
        3 => (1..500_u64, 1..200_u64).prop_map(|(count, size)| Operation::Calloc(count, size)),
        1 => (2..u64::MAX, 1_u64 << 63..u64::MAX).prop_map(|(count, size)| Operation::Calloc(count, size)),
        8 => (any::<usize>(), sizes(capacity)).prop_map(|(number, bytes)| Operation::Realloc(number, bytes)),
        6 => (sizes(capacity).prop_map(|bytes| bytes.min(1 << 40)), 0..20_u32)
            .prop_map(|(bytes, shift)| Operation::Aligned(bytes, shift)),
        1 => (1..1000_u64, 20..62_u32).prop_map(|(bytes, shift)| Operation::Aligned(bytes, shift)),
        16 => any::<usize>().prop_map(Operation::Free),
        4 => any::<usize>().prop_map(Operation::Again),
        2 => any::<usize>().prop_map(Operation::DoubleFree),
        2 => (any::<usize>(), any::<u64>()).prop_map(|(number, offset)| Operation::Interior(number, offset)),
        1 => (any::<bool>(), prop_oneof![0..100_u64, 0..1_u64 << 20])
            .prop_map(|(before, distance)| Operation::Foreign(before, distance)),
        2 => wild.clone().prop_map(Operation::Wild),
        1 => (wild, 1..1000_u64).prop_map(|(offset, bytes)| Operation::WildRealloc(offset, bytes)),
        1 => any::<usize>().prop_map(Operation::StaleFree),
        1 => sizes(capacity).prop_map(Operation::StaleMalloc),
    ];
    prop::collection::vec(operation, 1..300)
}

fn scenarios() -> impl Strategy<Value = (u64, u32, u32, Vec<Operation>)> {
    let capacity = prop_oneof![
        Just(MIN_CAPACITY),
        MIN_CAPACITY..64 << 10,
        64_u64 << 10..1 << 20,
        1_u64 << 20..8 << 20,
        (4..=13_u32).prop_map(|shift| MIN_CAPACITY << (shift - 4)),
    ];
    let flags = prop_oneof![Just(0), Just(COUNT_BYTES)];
    (capacity, 1..=8_u32, flags).prop_flat_map(|(capacity, stripes, flags)| {
        (
            Just(capacity),
            Just(stripes),
            Just(flags),
            operations(capacity),
        )
    })
}

/// Runs a test that must come to an end. One that does not is left behind, and fails.
fn within_a_minute(test: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || {
        test();
        // Nobody listens where the minute is over.
        let _late = sender.send(());
    });
    let waited = receiver.recv_timeout(Duration::from_secs(60));
    assert_ne!(
        waited,
        Err(mpsc::RecvTimeoutError::Timeout),
        "the heap does not answer"
    );
    if let Err(panic) = worker.join() {
        resume_unwind(panic);
    }
}

fn run(capacity: u64, stripes: u32, flags: u32, operations: Vec<Operation>) {
    within_a_minute(move || {
        let host = HostHeap::new(capacity, stripes, flags);
        // SAFETY: nobody uses it yet.
        let stale = unsafe { host.reset() };
        let mut shadow = Shadow::new(host.heap(), stale);
        for operation in &operations {
            shadow.apply(operation);
        }
        shadow.finish();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 3000, max_shrink_time: 120_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_does_as_the_model((capacity, stripes, flags, operations) in scenarios()) {
        run(capacity, stripes, flags, operations);
    }

    /// Many small requests in a small heap: nearly always at its limits.
    #[test]
    fn a_full_heap_does_as_the_model(
        stripes in 1..=4_u32,
        fills in prop::collection::vec((1..300_u64, any::<usize>(), 0..7_u8), 100..400),
    ) {
        let operations: Vec<_> = fills
            .into_iter()
            .map(|(bytes, number, kind)| match kind {
                0 | 1 => Operation::Free(number),
                2 => Operation::Again(number),
                3 => Operation::Realloc(number, bytes),
                _ => Operation::Malloc(bytes),
            })
            .collect();
        run(MIN_CAPACITY, stripes, 0, operations);
    }
}

/// A heap whose pages are at an address that no memory is at: nothing may touch them.
fn heap_at(base: u64, capacity: u64) -> (HostHeap, Vec<u64>) {
    let host = HostHeap::new(capacity, 1, 0);
    let layout = *host.heap().layout();
    let words = index(layout.metadata_bytes / 8) + 512;
    let metadata = vec![0_u64; words];
    let address = (metadata.as_ptr() as u64).next_multiple_of(4096);
    // SAFETY: the metadata has room for the heap, which lives as long as it.
    unsafe {
        (address as *mut Core).write(Core::new(layout, address, base, 0));
        Heap::at(address).initialise(scatterheap_heap::Share { index: 0, count: 1 });
    }
    (host, metadata)
}

#[test]
fn the_largest_alignments_are_kept() {
    for base in [
        1_u64 << 41,
        (1 << 41) - (8 << 10),
        3 << 41,
        (1 << 46) - (8 << 10),
    ] {
        let (_host, metadata) = heap_at(base, MIN_CAPACITY);
        // SAFETY: initialised by `heap_at`.
        let heap = unsafe { Heap::at((metadata.as_ptr() as u64).next_multiple_of(4096)) };
        for shift in 4..63 {
            let request = Request::from_size_align(64, 1 << shift).expect("valid");
            let block = heap.aligned_alloc(request) as u64;
            assert_eq!(block % (1 << shift), 0, "base {base:#x}");
            let first = base.next_multiple_of(1 << shift);
            assert!(
                block != 0 || first >= base + MIN_CAPACITY,
                "2^{shift} at {base:#x}"
            );
            // SAFETY: the block is ours, and was not touched.
            unsafe { heap.free(block as *mut u8) };
        }
    }
}

/// Blocks of `bytes` until there is no more.
fn fill_up(heap: &Heap, bytes: u64) -> Vec<u64> {
    let blocks = std::iter::repeat_with(|| heap.malloc(bytes) as u64);
    blocks.take_while(|block| *block != 0).collect()
}

/// A heap full of one class serves a smaller one from whichever slot is freed: the first of a
/// slab, the last, any.
#[test]
fn a_slot_anywhere_in_a_slab_of_a_larger_class_is_found() {
    for bytes in [32, 48, 64, 80, 112] {
        within_a_minute(move || {
            let host = HostHeap::new(MIN_CAPACITY, 1, 0);
            let heap = host.heap();
            let blocks = fill_up(heap, bytes);
            for block in &blocks {
                // SAFETY: the block is live and nobody else's.
                unsafe { heap.free(*block as *mut u8) };
                assert_eq!(heap.malloc(16) as u64, *block, "the only free slot");
                assert!(heap.malloc(16).is_null());
            }
        });
    }
}

/// A slot borrowed from a larger class is as aligned as was asked, or NULL.
#[test]
fn a_borrowed_slot_is_aligned() {
    for bytes in [48, 80, 96, 112] {
        for shift in 5..8 {
            within_a_minute(move || {
                let host = HostHeap::new(MIN_CAPACITY, 1, 0);
                let heap = host.heap();
                let blocks = fill_up(heap, bytes);
                for block in blocks {
                    // SAFETY: the block is live and nobody else's.
                    unsafe { heap.free(block as *mut u8) };
                    let request = Request::from_size_align(32, 1 << shift).expect("valid");
                    let aligned = heap.aligned_alloc(request) as u64;
                    assert_eq!(aligned % (1 << shift), 0, "in a slot of {bytes} bytes");
                    // Keep the heap full.
                    if aligned == 0 {
                        assert_eq!(heap.malloc(bytes) as u64, block);
                    }
                }
            });
        }
    }
}

/// The last free slot serves any request that it is large enough for, whatever multiples of the
/// request's own slots are aligned to.
#[test]
fn a_slot_of_less_alignment_is_lent() {
    within_a_minute(|| {
        let host = HostHeap::new(MIN_CAPACITY, 1, 0);
        let heap = host.heap();
        let blocks = fill_up(heap, 48);
        for block in blocks {
            // SAFETY: the block is live and nobody else's.
            unsafe { heap.free(block as *mut u8) };
            assert_eq!(heap.malloc(32) as u64, block, "the only free slot");
        }
    });
}

/// Where no slab can be made, because its pages must be aligned, pages side by side still serve a
/// request.
#[test]
fn pages_that_no_slab_fits_serve_a_slot() {
    within_a_minute(|| {
        let host = HostHeap::new(4 << 20, 1, 0);
        let heap = host.heap();
        let page = heap.layout().page_bytes();
        // Nine pages each: most of them have no eight aligned ones.
        let blocks = fill_up(heap, u64::from(heap.layout().largest_slot) + 1);
        while !heap.malloc(1).is_null() {}
        for block in blocks {
            // SAFETY: the block is live and nobody else's.
            unsafe { heap.free(block as *mut u8) };
            let slot = heap.malloc(5 * page);
            assert!(!slot.is_null(), "nine pages are free");
            assert!(heap.usable_size(slot) >= 5 * page);
            // SAFETY: as above.
            unsafe { heap.free(slot) };
            assert_eq!(heap.malloc(9 * page) as u64, block);
        }
    });
}
