//! What is done with the heaps: made used before they are damaged, and used on afterwards.

use super::packing::pack;
use super::region::GuardedHeap;
use scatterheap_heap::Heap;
use scatterheap_simt::emulation::{Position, set_position};
use std::alloc::Layout as Request;
use std::time::{Duration, Instant};

/// Requests that got NULL after which a phase ends.
const NULLS: u32 = 1;
/// Rounds in which small blocks are allocated and most of them freed, and how many in each.
const ROUNDS: u32 = 8;
const IN_A_ROUND: u32 = 8000;
/// A user asks for nothing more after this time: requests that wait for what never comes yield to
/// all else that the machine is busy with.
const LONG: Duration = Duration::from_secs(2);

/// Xorshift.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..4).for_each(|_| _ = random.below(2));
        random
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % end
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("fits")
    }

    /// Mostly small, at times up to `largest`.
    fn size(&mut self, largest: u64) -> u64 {
        let limit = (largest >> self.below(14)).max(64);
        self.below(limit) + 1
    }
}

/// The calling thread allocates from one of eight stripes, in a small launch or a large one.
fn wander(random: &mut Random) {
    let block = u32::try_from(random.below(8)).expect("small");
    set_position(Position {
        block_index: block,
        grid_dim: if block % 2 == 0 { 1 } else { 1 << 12 },
        sm_id: u32::try_from(random.below(8)).expect("small"),
        ..Default::default()
    });
}

fn free(heap: &Heap, address: u64) {
    // SAFETY: the tests free what they got, or what a damaged heap may refuse.
    unsafe { heap.free(address as *mut u8) };
}

/// How a heap is used before it is damaged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Blocks come and go, and there is room.
    Half,
    /// Filled up, and a few blocks freed.
    Full,
    /// Filled up, most blocks freed, and used on: slabs have holes, and units span several slots.
    Aged,
    /// Small blocks come and go, in slabs that are large enough for slots to be packed, as they are from then on.
    Churned,
}

/// Makes a heap used, so that everything occurs: blocks of all sizes, runs, full, listed, idle and
/// half-drawn slabs. The blocks that are left.
pub fn use_heap(heap: &Heap, seed: u64, way: Use) -> Vec<u64> {
    let (mut random, mut blocks) = (Random::new(seed), Vec::new());
    if way == Use::Churned {
        for _ in 0..ROUNDS {
            allocate(heap, 64, IN_A_ROUND, &mut random, &mut blocks);
            for block in blocks.drain(IN_A_ROUND as usize / 8..) {
                free(heap, block);
            }
        }
        pack(heap);
        return blocks;
    }
    if matches!(way, Use::Full | Use::Aged) {
        let largest = heap.capacity() / 64;
        while allocate(heap, largest, 1, &mut random, &mut blocks) {}
        let freed = blocks.len() / if way == Use::Full { 16 } else { 2 };
        for _ in 0..freed {
            free(heap, blocks.swap_remove(random.index(blocks.len())));
        }
    }
    if way != Use::Full {
        for _ in 0..400 {
            allocate(heap, heap.capacity() / 8, 1, &mut random, &mut blocks);
            if random.below(3) == 0 && !blocks.is_empty() {
                free(heap, blocks.swap_remove(random.index(blocks.len())));
            }
        }
    }
    for bytes in [16, 48, 100] {
        let first = blocks.len();
        allocate(heap, bytes, 100, &mut random, &mut blocks);
        for index in (first..blocks.len()).rev().step_by(3) {
            free(heap, blocks.swap_remove(index));
        }
    }
    free(heap, heap.malloc(1000) as u64);
    blocks
}

/// Allocates `count` blocks of up to `largest` bytes; false if there was nothing for one.
fn allocate(
    heap: &Heap,
    largest: u64,
    count: u32,
    random: &mut Random,
    blocks: &mut Vec<u64>,
) -> bool {
    let mut served = true;
    for _ in 0..count {
        wander(random);
        let block = heap.malloc(random.size(largest)) as u64;
        served &= block != 0;
        blocks.extend((block != 0).then_some(block));
    }
    served
}

/// A block and what was asked for.
type Block = (u64, u64);

/// One thread's use of a damaged heap.
struct User<'a> {
    heap: &'a GuardedHeap,
    random: Random,
    /// Blocks from before the damage, and those it got since; their sizes are no promise any more.
    before: Vec<u64>,
    since: Vec<Block>,
    /// When it began.
    begun: Instant,
    /// Whether others use the heap too: then what they hold is not written to.
    alone: bool,
}

/// Uses a damaged heap by one or two threads. What `before` lists was allocated before. Every block
/// that the heap gives must lie in the heap; nothing may fault, panic or hang.
pub fn use_damaged(heap: &GuardedHeap, before: &[u64], seed: u64, threads: usize) {
    let user = |thread: usize| User {
        heap,
        random: Random::new(seed ^ (thread as u64) << 32),
        before: before
            .iter()
            .skip(thread)
            .step_by(threads)
            .copied()
            .collect(),
        since: Vec::new(),
        begun: Instant::now(),
        alone: threads == 1,
    };
    if threads == 1 {
        return user(0).work();
    }
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || user(thread).work());
        }
    });
}

impl User<'_> {
    fn work(&mut self) {
        self.mix(60);
        self.fill();
        self.mix(60);
        self.free_all();
        self.run(self.heap.heap().capacity());
        self.fill();
    }

    fn take(&mut self, block: *mut u8, bytes: u64) -> bool {
        if block.is_null() {
            return false;
        }
        self.heap.assert_inside(block as u64, bytes);
        let last = usize::try_from(bytes - 1).expect("fits");
        // SAFETY: inside the heap's pages, which belong to these tests.
        unsafe {
            block.write_volatile(1);
            block.add(last).write_volatile(2);
        }
        self.since.push((block as u64, bytes));
        true
    }

    fn allocate(&mut self, largest: u64) -> bool {
        if self.begun.elapsed() > LONG {
            return false;
        }
        wander(&mut self.random);
        let bytes = self.random.size(largest);
        let heap = self.heap.heap();
        let block = match self.random.below(8) {
            0 => heap.calloc(1, bytes),
            1 => {
                let alignment = 1 << self.random.below(13);
                let size = usize::try_from(bytes).expect("fits");
                let request = Request::from_size_align(size, alignment).expect("valid");
                heap.aligned_alloc(request)
            }
            _ => heap.malloc(bytes),
        };
        self.take(block, bytes)
    }

    fn run(&mut self, bytes: u64) -> bool {
        if self.begun.elapsed() > LONG {
            return false;
        }
        let block = self.heap.heap().malloc(bytes);
        self.take(block, bytes)
    }

    /// Allocates until there is nothing left.
    fn fill(&mut self) {
        let mut nulls = 0;
        let capacity = self.heap.heap().capacity();
        for _ in 0..300 {
            nulls += u32::from(!self.allocate(capacity / 32));
            if nulls > NULLS {
                break;
            }
        }
    }

    fn mix(&mut self, rounds: u32) {
        let heap = self.heap.heap();
        let mut nulls = 0;
        for _ in 0..rounds {
            wander(&mut self.random);
            match self.random.below(10) {
                0..4 if nulls <= NULLS => {
                    nulls += u32::from(!self.allocate(heap.capacity() / 8));
                }
                0..6 => {
                    if let Some(block) = self.any_block() {
                        free(heap, block);
                    }
                }
                6 if nulls <= NULLS => self.reallocate(),
                7 if nulls <= NULLS => {
                    let bytes = 1 + self.random.below(heap.capacity());
                    nulls += u32::from(!self.run(bytes));
                }
                // Nobody allocated this.
                _ => {
                    let offset = self.random.below(heap.capacity()) & !15;
                    let address = heap.base() + offset;
                    let usable = heap.usable_size(address as *const u8);
                    self.heap.assert_inside(address, usable);
                    if self.random.below(2) == 0 {
                        free(heap, address);
                    }
                }
            }
        }
    }

    fn reallocate(&mut self) {
        let Some(block) = self.any_block() else {
            return;
        };
        if !self.alone || self.begun.elapsed() > LONG {
            return free(self.heap.heap(), block);
        }
        let bytes = self.random.size(self.heap.heap().capacity() / 8);
        // SAFETY: the block is nobody else's, but for the damage.
        let moved = unsafe { self.heap.heap().realloc(block as *mut u8, bytes) };
        if !moved.is_null() {
            self.heap.assert_inside(moved as u64, bytes);
            self.since.push((moved as u64, bytes));
        }
    }

    fn any_block(&mut self) -> Option<u64> {
        let old = self.random.below(2) == 0;
        if old && !self.before.is_empty() {
            let index = self.random.index(self.before.len());
            return Some(self.before.swap_remove(index));
        }
        if self.since.is_empty() {
            return None;
        }
        let index = self.random.index(self.since.len());
        Some(self.since.swap_remove(index).0)
    }

    fn free_all(&mut self) {
        let heap = self.heap.heap();
        for (block, _) in self.since.drain(..) {
            free(heap, block);
        }
        for block in self.before.drain(..) {
            free(heap, block);
        }
    }
}
