//! The allocator's protocols under every interleaving and every reordering that the memory model
//! allows, up to a bound of preemptions: the whole smallest heap, with two or three threads.
//!
//! Each block's content stands for itself as a cell that loom watches: two accesses that are not
//! ordered by the allocator's atomics are a failure. So these tests say that what a thread did to
//! a block before `free` comes before what its next owner does.

#![cfg(loom)]

mod host_heap;
mod test_name;

use host_heap::HostHeap;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use scatterheap_heap::array::Array;
use scatterheap_heap::class::class_of;
use scatterheap_heap::doubts::Doubts;
use scatterheap_heap::group::{
    Misses, drains_done, free_pages, malloc_group, malloc_listed, punch_slabs, sees_growth,
};
use scatterheap_heap::growth::{Answer, Growth, Mailbox};
use scatterheap_heap::hardened::Hardening;
use scatterheap_heap::layout::MIN_CAPACITY;
use scatterheap_heap::misuse::Misuse;
use scatterheap_heap::page_set::{PageSet, SetState, Sets};
use scatterheap_heap::{Globals, Heap, Share};
use scatterheap_simt::atomic::DeviceAtomicU64;
use scatterheap_simt::emulation::set_block;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use test_name::test_of;

/// The largest slot of the smallest heap: 8 to a slab of one page.
const SLOT: u64 = 128;
/// Page size of the smallest heap, which has 16 of them.
const PAGE: u64 = 1024;
const SLOTS: u64 = PAGE / SLOT;
/// Slots of which a slab has enough to be rewound. Contents are told apart by as many bytes.
const HALF: u64 = SLOT / 2;
const HALVES: u64 = PAGE / HALF;

/// Explores a model with at most `preemptions` preemptions.
fn explore<Model: Fn() + Send + Sync + 'static>(preemptions: usize, model: Model) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 100_000;
    // So often loom looks at the clock.
    builder.checkpoint_interval = 1000;
    // The order of exploration is fixed: a machine in a hurry explores the first of it.
    builder.max_duration = builder.max_duration.or(Some(Duration::from_secs(20)));
    let begin = Instant::now();
    let executions = Arc::new(AtomicU64::new(0));
    let counted = executions.clone();
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    let executions = executions.load(std::sync::atomic::Ordering::Relaxed);
    let (name, took) = (test_of::<Model>(), begin.elapsed());
    eprintln!("{name}: {executions} executions in {took:.2?}");
}

/// The smallest heap, and a cell for the content of each half of a slot of the first pages.
struct Ground {
    host: HostHeap,
    content: Vec<UnsafeCell<u64>>,
}

// SAFETY: the cells are watched by loom.
unsafe impl Sync for Ground {}
// SAFETY: as above.
unsafe impl Send for Ground {}

impl Ground {
    fn new(watched_pages: u64) -> Arc<Self> {
        Self::with_capacity(MIN_CAPACITY, watched_pages)
    }

    fn with_capacity(capacity: u64, watched_pages: u64) -> Arc<Self> {
        Self::with_stripes(capacity, 1, watched_pages)
    }

    fn with_stripes(capacity: u64, stripes: u32, watched_pages: u64) -> Arc<Self> {
        Arc::new(Self::of(HostHeap::new(capacity, stripes, 0), watched_pages))
    }

    /// With a quarantine of `places` places.
    fn quarantined(places: u64) -> Arc<Self> {
        let modes = Hardening::QUARANTINE.flags();
        let host = HostHeap::with_quarantine(MIN_CAPACITY, modes, places);
        Arc::new(Self::of(host, MIN_CAPACITY / PAGE))
    }

    fn of(host: HostHeap, watched_pages: u64) -> Self {
        let content = (0..watched_pages * HALVES).map(|_| UnsafeCell::new(0));
        let content = content.collect();
        Self { host, content }
    }

    fn heap(&self) -> &Heap {
        self.host.heap()
    }

    fn malloc(&self, bytes: u64) -> Option<u64> {
        let address = self.heap().malloc(bytes) as u64;
        (address != 0).then_some(address)
    }

    /// A block of which there must be one.
    fn obtain(&self, bytes: u64) -> u64 {
        self.malloc(bytes).expect("there is memory")
    }

    /// A block of which there must be one, whose content is then used.
    fn write(&self, address: u64) {
        let index = usize::try_from((address - self.heap().base()) / HALF).expect("small");
        if let Some(cell) = self.content.get(index) {
            // SAFETY: loom checks that nobody else uses the content.
            cell.with_mut(|content| unsafe { *content += 1 });
        }
    }

    fn free(&self, address: u64) {
        // SAFETY: the tests free what they obtained; what else they free is refused.
        unsafe { self.heap().free(address as *mut u8) };
    }

    /// Uses all that is in a block of pages.
    fn write_pages(&self, address: u64, bytes: u64) {
        for part in 0..bytes / HALF {
            self.write(address + part * HALF);
        }
    }

    /// Uses a block and gives it back.
    fn spend(&self, address: u64) {
        self.write(address);
        self.free(address);
    }

    fn misuses(&self) -> u64 {
        self.misuses_of(&Misuse::ALL)
    }

    fn misuses_of(&self, kinds: &[Misuse]) -> u64 {
        let heap = self.heap();
        let globals = std::ptr::from_ref(heap) as u64 + heap.layout().offsets.globals;
        // SAFETY: the globals are there, initialised.
        let globals = unsafe { &*(globals as *const Globals) };
        let relaxed = scatterheap_simt::atomic::Ordering::Relaxed;
        kinds
            .iter()
            .map(|kind| globals.misuses[*kind as usize].load(relaxed))
            .sum()
    }

    /// All is freed: the whole heap can be had.
    fn finish(&self) {
        let overhead = Hardening::of_flags(self.heap().flags()).overhead();
        let everything = self.obtain(self.heap().capacity() - overhead);
        assert_eq!(everything, self.heap().base() + overhead);
        self.free(everything);
    }
}

fn spawn<T: 'static>(
    ground: &Arc<Ground>,
    body: impl FnOnce(&Ground) -> T + 'static,
) -> loom::thread::JoinHandle<T> {
    spawn_on(0, ground, body)
}

fn spawn_on<T: 'static>(
    block: u32,
    ground: &Arc<Ground>,
    body: impl FnOnce(&Ground) -> T + 'static,
) -> loom::thread::JoinHandle<T> {
    let ground = ground.clone();
    loom::thread::spawn(move || {
        set_block(block);
        body(&ground)
    })
}

/// A heap of whose first page all but `left` slots are taken, and all other pages but `pages`.
fn nearly_full(left: u64, pages: u64) -> (Arc<Ground>, Vec<u64>) {
    let ground = Ground::new(1);
    let mut blocks: Vec<_> = (0..SLOTS - left).map(|_| ground.obtain(SLOT)).collect();
    blocks.push(ground.obtain(MIN_CAPACITY - (1 + pages) * PAGE));
    (ground, blocks)
}

fn finish(ground: &Ground, blocks: Vec<u64>) {
    for block in blocks {
        ground.free(block);
    }
    ground.finish();
}

#[test]
fn free_then_malloc_passes_the_content() {
    explore(3, || {
        let (ground, mut blocks) = nearly_full(0, 0);
        let mine = blocks.remove(2);
        ground.write(mine);
        let giver = spawn(&ground, move |ground| ground.spend(mine));
        // NULL until the block is freed, and then that block.
        let taken = ground.malloc(SLOT);
        if let Some(block) = taken {
            assert_eq!(block, mine);
            ground.spend(block);
        }
        giver.join().expect("no panic");
        assert_eq!(ground.obtain(SLOT), mine);
        ground.spend(mine);
        finish(&ground, blocks);
    });
}

#[test]
fn what_was_freed_before_is_found() {
    explore(3, || {
        let (ground, mut blocks) = nearly_full(0, 0);
        let mine = blocks.remove(2);
        let freed = Arc::new(AtomicBool::new(false));
        let said = freed.clone();
        let giver = spawn(&ground, move |ground| {
            ground.spend(mine);
            said.store(true, Ordering::Release);
        });
        let was_freed = freed.load(Ordering::Acquire);
        let taken = ground.malloc(SLOT);
        assert!(taken.is_some() || !was_freed, "freed before, and not found");
        giver.join().expect("no panic");
        if let Some(block) = taken {
            ground.spend(block);
        }
        finish(&ground, blocks);
    });
}

#[test]
fn two_mallocs_get_different_slots() {
    explore(4, || {
        let ground = Ground::new(2);
        let other = spawn(&ground, |ground| {
            let block = ground.obtain(SLOT);
            ground.write(block);
            block
        });
        let mine = ground.obtain(SLOT);
        ground.write(mine);
        let other = other.join().expect("no panic");
        assert_ne!(mine, other);
        finish(&ground, vec![mine, other]);
    });
}

#[test]
fn crossing_the_end_installs_one_slab() {
    explore(4, || {
        // One unit is left in the stripe, and 2 pages.
        let (ground, mut blocks) = nearly_full(1, 2);
        let others = [1, 1].map(|_| spawn(&ground, |ground| ground.obtain(SLOT)));
        let mine = ground.obtain(SLOT);
        blocks.push(mine);
        for other in others {
            let block = other.join().expect("no panic");
            assert!(!blocks.contains(&block));
            blocks.push(block);
        }
        // The second page is free still.
        blocks.push(ground.obtain(PAGE));
        finish(&ground, blocks);
    });
}

#[test]
fn a_waiter_is_served_by_the_crosser() {
    explore(4, || {
        // Nothing is left in the stripe, and one page: both need it.
        let (ground, mut blocks) = nearly_full(0, 1);
        let other = spawn(&ground, |ground| ground.obtain(SLOT));
        blocks.push(ground.obtain(SLOT));
        blocks.push(other.join().expect("no panic"));
        finish(&ground, blocks);
    });
}

#[test]
fn last_free_against_listing() {
    explore(4, || {
        // The first slab is full and in no stripe; the second has one slot in use.
        let ground = Ground::new(1);
        let mut blocks: Vec<_> = (0..=SLOTS).map(|_| ground.obtain(SLOT)).collect();
        let last = blocks.pop().expect("some");
        // The first free of these lists the slab, the last retires it.
        let half = blocks.split_off(6);
        let other = spawn(&ground, move |ground| {
            for block in half {
                ground.spend(block);
            }
        });
        for block in blocks {
            ground.spend(block);
        }
        other.join().expect("no panic");
        // Whoever came last, all pages but the second are free.
        let rest = ground.obtain(MIN_CAPACITY - 2 * PAGE);
        let first = ground.obtain(PAGE);
        assert_eq!(first, ground.heap().base());
        finish(&ground, vec![rest, first, last]);
    });
}

#[test]
fn last_free_against_a_taker() {
    explore(1, || {
        // A listed slab with one slot in use, and no other page: it is retired or taken.
        let ground = Ground::new(2);
        let mut blocks: Vec<_> = (0..2 * SLOTS).map(|_| ground.obtain(SLOT)).collect();
        let rest = ground.obtain(MIN_CAPACITY - 2 * PAGE);
        let second = blocks.split_off(8);
        let last = blocks.pop().expect("some");
        for block in blocks {
            ground.spend(block);
        }
        let other = spawn(&ground, move |ground| ground.spend(last));
        let mine = ground.obtain(SLOT);
        ground.spend(mine);
        other.join().expect("no panic");
        for block in second {
            ground.spend(block);
        }
        finish(&ground, vec![rest]);
    });
}

/// The first slab, full and in no stripe, and all that is taken besides: the second slab with one
/// block, and the other pages.
fn full_slab() -> (Arc<Ground>, Vec<u64>, Vec<u64>) {
    let ground = Ground::new(1);
    let mut blocks: Vec<_> = (0..=SLOTS).map(|_| ground.obtain(SLOT)).collect();
    let last = blocks.pop().expect("some");
    let rest = ground.obtain(MIN_CAPACITY - 2 * PAGE);
    (ground, blocks, vec![last, rest])
}

/// One thread frees `theirs` of the first slab's blocks, the other frees the rest of them and
/// then wants the page.
fn retire_and_take(theirs: usize, before: usize) {
    let (ground, mut blocks, kept) = full_slab();
    for block in blocks.drain(..before) {
        ground.spend(block);
    }
    let given = blocks.split_off(blocks.len() - theirs);
    let other = spawn(&ground, move |ground| {
        for block in given {
            ground.spend(block);
        }
    });
    for block in blocks {
        ground.spend(block);
    }
    let page = ground.malloc(PAGE);
    if let Some(page) = page {
        ground.write_pages(page, PAGE);
    }
    other.join().expect("no panic");
    finish(&ground, page.into_iter().chain(kept).collect());
}

#[test]
fn pages_of_a_retired_slab_pass_the_content() {
    explore(4, || retire_and_take(1, 6));
}

#[test]
fn pages_of_a_slab_retired_when_listed_pass_the_content() {
    explore(2, || retire_and_take(1, 0));
    explore(2, || retire_and_take(7, 0));
    explore(2, || retire_and_take(4, 0));
}

#[test]
fn pages_of_a_reclaimed_slab_pass_the_content() {
    explore(4, || {
        // The stripe's slab has one block in use, and there is no other page.
        let ground = Ground::new(1);
        let block = ground.obtain(SLOT);
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        let other = spawn(&ground, move |ground| ground.spend(block));
        let page = ground.malloc(PAGE);
        if let Some(page) = page {
            ground.write_pages(page, PAGE);
        }
        other.join().expect("no panic");
        finish(&ground, page.into_iter().chain([rest]).collect());
    });
}

#[test]
fn pages_of_a_freed_run_pass_the_content_to_a_slab() {
    explore(3, || {
        let ground = Ground::new(1);
        let page = ground.obtain(PAGE);
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        let other = spawn(&ground, move |ground| {
            ground.write_pages(page, PAGE);
            ground.free(page);
        });
        let blocks: Vec<_> = (0..2).filter_map(|_| ground.malloc(SLOT)).collect();
        for block in &blocks {
            ground.write(*block);
        }
        other.join().expect("no panic");
        finish(&ground, blocks.into_iter().chain([rest]).collect());
    });
}

#[test]
fn a_block_may_be_freed_by_whom_it_is_handed_to() {
    explore(4, || {
        // The third thread of this story knows the slab only through the block.
        let (ground, blocks) = nearly_full(0, 1);
        let letter = Arc::new(loom::sync::atomic::AtomicU64::new(0));
        let post = letter.clone();
        let other = spawn(&ground, move |ground| {
            let block = ground.obtain(SLOT);
            ground.write(block);
            post.store(block, Ordering::Release);
        });
        let mine = ground.obtain(SLOT);
        let handed = letter.load(Ordering::Acquire);
        if handed != 0 {
            ground.spend(handed);
            assert_eq!(ground.misuses(), 0);
        }
        other.join().expect("no panic");
        let left = letter.load(Ordering::Acquire);
        if handed == 0 {
            ground.free(left);
        }
        ground.free(mine);
        assert_eq!(ground.misuses(), 0);
        finish(&ground, blocks);
    });
}

#[test]
fn a_slab_in_transit_is_waited_for() {
    explore(4, || {
        // One unit is left and one page: both threads cross, take, list; none is told NULL.
        let (ground, mut blocks) = nearly_full(1, 1);
        let other = spawn(&ground, |ground| [ground.obtain(SLOT), ground.obtain(SLOT)]);
        blocks.push(ground.obtain(SLOT));
        blocks.extend(other.join().expect("no panic"));
        finish(&ground, blocks);
    });
}

/// A heap of two stripes without a free page; the first has a slab with `left` slots left, of
/// which as many were freed before.
fn left_with_a_neighbour(left: u64) -> (Arc<Ground>, Vec<u64>) {
    let ground = Ground::with_stripes(MIN_CAPACITY, 2, 1);
    set_block(0);
    let mut blocks: Vec<_> = (0..SLOTS - left).map(|_| ground.obtain(SLOT)).collect();
    blocks.push(ground.obtain(MIN_CAPACITY - PAGE));
    (ground, blocks)
}

#[test]
fn a_slab_adopted_by_a_neighbour_is_not_missed() {
    explore(3, || {
        let (ground, mut blocks) = left_with_a_neighbour(2);
        let other = spawn_on(1, &ground, |ground| {
            let block = ground.obtain(SLOT);
            ground.write(block);
            block
        });
        blocks.push(ground.obtain(SLOT));
        blocks.push(other.join().expect("no panic"));
        finish(&ground, blocks);
    });
}

#[test]
fn two_adopt_from_each_other() {
    explore(2, || {
        let (ground, mut blocks) = left_with_a_neighbour(3);
        let others = [1, 1]
            .map(|multiprocessor| spawn_on(multiprocessor, &ground, |ground| ground.obtain(SLOT)));
        blocks.push(ground.obtain(SLOT));
        blocks.extend(others.map(|other| other.join().expect("no panic")));
        finish(&ground, blocks);
    });
}

#[test]
fn a_slab_adopted_passes_the_content() {
    explore(3, || {
        let (ground, mut blocks) = left_with_a_neighbour(1);
        let freed = blocks.remove(0);
        ground.spend(freed);
        let other = spawn_on(1, &ground, |ground| {
            let block = ground.obtain(SLOT);
            ground.write(block);
            block
        });
        let mine = ground.obtain(SLOT);
        ground.write(mine);
        blocks.extend([mine, other.join().expect("no panic")]);
        finish(&ground, blocks);
    });
}

#[test]
fn a_listed_slab_in_transit_is_waited_for() {
    explore(4, || {
        // Two slots are free in a listed slab, nothing in a stripe, and no page.
        let (ground, mut blocks) = nearly_full(0, 1);
        let more: Vec<_> = (0..SLOTS).map(|_| ground.obtain(SLOT)).collect();
        for block in blocks.drain(..2) {
            ground.spend(block);
        }
        blocks.extend(more);
        let other = spawn(&ground, |ground| ground.obtain(SLOT));
        blocks.push(ground.obtain(SLOT));
        blocks.push(other.join().expect("no panic"));
        finish(&ground, blocks);
    });
}

#[test]
fn a_slab_that_drains_while_its_stripe_leaves_it_is_not_missed() {
    explore(2, || {
        // The stripe's slab is used up, though a slot of it is free; another is listed with a free slot. No page is free.
        let ground = Ground::new(2);
        let mut blocks: Vec<_> = (0..2 * SLOTS).map(|_| ground.obtain(SLOT)).collect();
        let rest = ground.obtain(MIN_CAPACITY - 2 * PAGE);
        let mut leaving = blocks.split_off(blocks.len() / 2);
        let page_of = |block| (block - ground.heap().base()) / PAGE;
        let left = page_of(leaving[0]);
        for freed in [blocks.pop(), leaving.pop()].into_iter().flatten() {
            ground.free(freed);
        }
        let other = spawn(&ground, |ground| ground.obtain(SLOT));
        for block in leaving {
            ground.free(block);
        }
        let page = ground.malloc(PAGE);
        let block = other.join().expect("no panic");
        // Unless the other took a slot of the slab that drains.
        assert!(page.is_some() || page_of(block) == left);
        blocks.extend(page);
        blocks.extend([rest, block]);
        finish(&ground, blocks);
    });
}

#[test]
fn a_slab_that_drains_while_its_stripe_adopts_another_is_not_missed() {
    explore(1, || {
        // A stripe's slab is used up, though a slot of it is free; it takes over the slab of another, which has units
        // left. Meanwhile all blocks of its own are freed: their page is free for who freed them. No other page is.
        let ground = Ground::with_stripes(MIN_CAPACITY, 2, 2);
        let rest = ground.obtain(MIN_CAPACITY - 2 * PAGE);
        set_block(0);
        let mut leaving: Vec<_> = (0..SLOTS).map(|_| ground.obtain(SLOT)).collect();
        set_block(1);
        let neighbour = ground.obtain(SLOT);
        let page_of = |block| (block - ground.heap().base()) / PAGE;
        let left = page_of(leaving[0]);
        assert_ne!(page_of(neighbour), left);
        ground.free(leaving.pop().expect("some"));
        let other = spawn(&ground, |ground| {
            for block in leaving {
                ground.free(block);
            }
            ground.malloc(PAGE)
        });
        set_block(0);
        let mine = ground.obtain(SLOT);
        let page = other.join().expect("no panic");
        // Unless this thread took a slot of the slab that drains.
        assert!(page.is_some() || page_of(mine) == left);
        finish(
            &ground,
            page.into_iter().chain([mine, neighbour, rest]).collect(),
        );
    });
}

#[test]
fn a_drawer_sees_the_slab_it_draws_from() {
    explore(4, || {
        // One thread makes the slab; what the other draws from it, it can free.
        let ground = Ground::new(2);
        let other = spawn(&ground, |ground| ground.spend(ground.obtain(SLOT)));
        ground.spend(ground.obtain(SLOT));
        assert_eq!(ground.misuses(), 0);
        other.join().expect("no panic");
        assert_eq!(ground.misuses(), 0);
        ground.finish();
    });
}

#[test]
fn a_taker_sees_the_slab_it_takes() {
    explore(1, || {
        // One thread makes a slab of the last page, fills it and frees a block: it is listed.
        let ground = Ground::new(1);
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        let other = spawn(&ground, |ground| {
            let mut blocks: Vec<_> = std::iter::from_fn(|| ground.malloc(SLOT)).collect();
            ground.spend(blocks.pop().expect("one slot at least"));
            blocks
        });
        if let Some(block) = ground.malloc(SLOT) {
            ground.spend(block);
        }
        let mut blocks = other.join().expect("no panic");
        assert_eq!(ground.misuses(), 0);
        blocks.push(rest);
        finish(&ground, blocks);
    });
}

#[test]
fn a_page_in_transit_serves_a_smaller_class() {
    explore(1, || {
        // One page is left. If it becomes a slab of the larger class, it has a slot for the
        // smaller one too, which must not be told NULL meanwhile.
        let ground = Ground::new(1);
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        let other = spawn(&ground, |ground| ground.malloc(SLOT));
        let mine = ground.obtain(SLOT / 2);
        let other = other.join().expect("no panic");
        finish(&ground, other.into_iter().chain([mine, rest]).collect());
    });
}

#[test]
fn a_slab_reclaimed_in_vain_is_not_missed() {
    explore(2, || {
        // The only page is an idle slab. Who wants two pages reclaims it for nothing, and who
        // wants a slot must get one all the same.
        let ground = Ground::new(1);
        let block = ground.obtain(SLOT);
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        ground.spend(block);
        let other = spawn(&ground, |ground| ground.malloc(2 * PAGE));
        let mine = ground.obtain(SLOT);
        ground.write(mine);
        assert_eq!(other.join().expect("no panic"), None);
        finish(&ground, vec![mine, rest]);
    });
}

#[test]
fn a_page_reclaimed_in_vain_is_not_missed() {
    explore(2, || {
        // The same for who wants the page. It may see the stripe as it was before the slab was taken away, and the slab's
        // use as it is afterwards: then only the use tells it that something moved.
        let ground = Ground::new(1);
        let block = ground.obtain(SLOT);
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        ground.spend(block);
        let other = spawn(&ground, |ground| ground.obtain(PAGE));
        assert_eq!(ground.malloc(2 * PAGE), None);
        let page = other.join().expect("no panic");
        finish(&ground, vec![page, rest]);
    });
}

#[test]
fn a_second_free_in_a_full_slab_is_not_missed() {
    explore(2, || {
        // The first slab is full and away. Who frees first in it lists it, and may be interrupted before: what is
        // freed after it must be found all the same.
        let ground = Ground::new(1);
        let mut blocks: Vec<_> = (0..2 * SLOTS).map(|_| ground.obtain(SLOT)).collect();
        blocks.push(ground.obtain(MIN_CAPACITY - 2 * PAGE));
        let (first, second) = (blocks.remove(0), blocks.remove(0));
        let other = spawn(&ground, move |ground| ground.spend(first));
        ground.spend(second);
        blocks.push(ground.obtain(SLOT));
        other.join().expect("no panic");
        finish(&ground, blocks);
    });
}

/// A slab, as far as doubts go: where it is, and the epoch of its arrival.
struct Traveller {
    doubts: Doubts,
    place: DeviceAtomicU64,
    epoch: DeviceAtomicU64,
}

impl Traveller {
    const AWAY: u64 = 1;
    const ARRIVED: u64 = 2;

    fn at_home() -> Arc<Self> {
        Arc::new(Self {
            doubts: Doubts::none(),
            place: DeviceAtomicU64::new(0),
            epoch: DeviceAtomicU64::new(0),
        })
    }

    /// What a free does that comes second in a full slab.
    fn leave(&self) {
        self.place.store(Self::AWAY, Ordering::Relaxed);
        self.doubts.raise(0);
    }

    /// What the first does, in the end.
    fn arrive(&self) {
        self.epoch.store(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.place.store(Self::ARRIVED, Ordering::Relaxed);
    }

    /// Whether a search must be repeated.
    fn is_missed(&self) -> bool {
        let Some(raised) = self.doubts.raised() else {
            return false;
        };
        if self.place.load(Ordering::Relaxed) == Self::AWAY {
            return true;
        }
        self.doubts.dispel(raised);
        false
    }
}

#[test]
fn a_doubt_is_not_dispelled_by_who_did_not_see_what_raised_it() {
    explore(3, || {
        let slab = Traveller::at_home();
        let others = slab.clone();
        let other = loom::thread::spawn(move || others.is_missed());
        slab.leave();
        assert!(slab.is_missed());
        other.join().expect("no panic");
    });
}

#[test]
fn what_dispelled_a_doubt_is_seen_by_who_finds_none() {
    explore(3, || {
        let slab = Traveller::at_home();
        let (firsts, others) = (slab.clone(), slab.clone());
        slab.leave();
        let first = loom::thread::spawn(move || firsts.arrive());
        let other = loom::thread::spawn(move || others.is_missed());
        if !slab.is_missed() {
            // Whoever dispelled the doubt had seen it arrive, and we have seen what that one did.
            assert_eq!(slab.epoch.load(Ordering::Relaxed), 1);
        }
        first.join().expect("no panic");
        other.join().expect("no panic");
    });
}

#[test]
fn two_doubts_are_not_mistaken_for_each_other() {
    explore(3, || {
        let slab = Traveller::at_home();
        let (seconds, others) = (slab.clone(), slab.clone());
        // A doubt of another multiprocessor, about another slab, which has arrived.
        let second = loom::thread::spawn(move || seconds.doubts.raise(1));
        let other = loom::thread::spawn(move || others.is_missed());
        slab.leave();
        assert!(slab.is_missed());
        second.join().expect("no panic");
        other.join().expect("no panic");
    });
}

#[test]
fn a_run_in_transit_serves_a_slot() {
    explore(3, || {
        // A thread gives up all pages but those of a run that it takes again: there is always
        // a page for the other.
        let ground = Ground::new(0);
        let run = ground.obtain(8 * PAGE);
        let rest = ground.obtain(8 * PAGE);
        let other = spawn(&ground, move |ground| {
            ground.free(run);
            ground.malloc(4 * PAGE)
        });
        let mine = ground.malloc(SLOT);
        let run = other
            .join()
            .expect("no panic")
            .expect("half of what was freed");
        finish(&ground, mine.into_iter().chain([run, rest]).collect());
    });
}

#[test]
fn free_against_refill() {
    explore(4, || {
        // The stripe's slab is full, but for what is freed while its crosser lets go of it.
        let (ground, mut blocks) = nearly_full(0, 1);
        let (first, second) = (blocks.remove(0), blocks.remove(0));
        let other = spawn(&ground, move |ground| {
            ground.spend(first);
            ground.spend(second);
        });
        let mine = ground.obtain(SLOT);
        ground.write(mine);
        other.join().expect("no panic");
        let more = ground.obtain(SLOT);
        ground.spend(more);
        blocks.push(mine);
        finish(&ground, blocks);
    });
}

#[test]
fn retire_against_reclaim() {
    explore(1, || {
        // The stripe has a slab without a block: one thread draws from it, the other wants all.
        let ground = Ground::new(1);
        let block = ground.obtain(SLOT);
        ground.spend(block);
        let other = spawn(&ground, |ground| {
            let all = ground.malloc(MIN_CAPACITY);
            if let Some(all) = all {
                ground.write(all);
            }
            all
        });
        let mine = ground.malloc(SLOT);
        if let Some(block) = mine {
            ground.write(block);
        }
        let all = other.join().expect("no panic");
        assert!(mine.is_some() != all.is_some(), "one of them, and not both");
        finish(&ground, mine.into_iter().chain(all).collect());
    });
}

#[test]
fn a_large_free_against_a_small_malloc() {
    explore(4, || {
        let ground = Ground::new(1);
        let all = ground.obtain(MIN_CAPACITY);
        ground.write(all);
        let other = spawn(&ground, move |ground| ground.spend(all));
        let mine = ground.malloc(SLOT);
        if let Some(block) = mine {
            ground.write(block);
        }
        other.join().expect("no panic");
        finish(&ground, mine.into_iter().collect());
    });
}

#[test]
fn run_against_run() {
    explore(4, || {
        // There is room for one of 10 pages and one of 6, but not for two of 10.
        let ground = Ground::new(16);
        let take = |bytes: u64| {
            move |ground: &Ground| {
                let block = ground.malloc(bytes);
                if let Some(block) = block {
                    ground.write_pages(block, bytes);
                }
                block
            }
        };
        let other = spawn(&ground, take(10 * PAGE));
        let mine = take(10 * PAGE)(&ground);
        let other = other.join().expect("no panic");
        assert!(
            mine.is_some() != other.is_some(),
            "one of them, and not both"
        );
        let rest = ground.obtain(6 * PAGE);
        finish(
            &ground,
            mine.into_iter().chain(other).chain([rest]).collect(),
        );
    });
}

#[test]
fn run_against_run_across_words() {
    explore(4, || {
        // 66 pages are two words of the set: one thread claims both, the other the second.
        let ground = Ground::with_capacity(66 * PAGE, 0);
        let other = spawn(&ground, |ground| ground.malloc(66 * PAGE));
        let mine = ground.malloc(2 * PAGE);
        let other = other.join().expect("no panic");
        assert!(mine.is_some() || other.is_some(), "one of them gets on");
        finish(&ground, mine.into_iter().chain(other).collect());
    });
}

#[test]
fn double_free_race() {
    explore(4, || {
        let ground = Ground::new(1);
        let (block, neighbour) = (ground.obtain(SLOT), ground.obtain(SLOT));
        let other = spawn(&ground, move |ground| ground.free(block));
        ground.free(block);
        other.join().expect("no panic");
        assert_eq!(ground.misuses(), 1, "one free of the two is refused");
        finish(&ground, vec![neighbour]);
    });
}

#[test]
fn double_free_race_of_a_run() {
    explore(4, || {
        let ground = Ground::new(1);
        let block = ground.obtain(3 * PAGE);
        let other = spawn(&ground, move |ground| ground.free(block));
        ground.free(block);
        other.join().expect("no panic");
        assert_eq!(ground.misuses(), 1, "one free of the two is refused");
        ground.finish();
    });
}

/// Two free the last block of a slab, and the slab's pages become free: the one who comes late finds
/// a slot that is not handed out, or no slab, and takes nothing that is not there.
#[test]
fn double_free_races_with_the_slab_being_given_up() {
    explore(4, || {
        let ground = Ground::new(1);
        let blocks: Vec<_> = (0..SLOTS).map(|_| ground.obtain(SLOT)).collect();
        // With one more the stripe lets go of the slab, so that its last free gives it up.
        let next = ground.obtain(SLOT);
        for block in &blocks[1..] {
            ground.free(*block);
        }
        let last = blocks[0];
        let other = spawn(&ground, move |ground| ground.free(last));
        ground.free(last);
        other.join().expect("no panic");
        let kinds = [Misuse::NotAllocated, Misuse::Retired];
        assert_eq!((ground.misuses(), ground.misuses_of(&kinds)), (1, 1));
        // By now it is given up.
        let retired = ground.misuses_of(&[Misuse::Retired]);
        ground.free(last);
        assert_eq!(ground.misuses_of(&[Misuse::Retired]), retired + 1);
        ground.free(next);
        ground.finish();
    });
}

/// The second free of a block, while its slot or its pages serve the same class again: it is
/// refused, or it frees the new block, which a pointer does not tell from the old one. The heap's
/// accounts are right in either case.
#[test]
fn double_free_races_with_reuse() {
    explore(3, || {
        let ground = Ground::new(1);
        // Nothing else is left.
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        let blocks: Vec<_> = (0..SLOTS).map(|_| ground.obtain(SLOT)).collect();
        let block = blocks[0];
        let other = spawn(&ground, move |ground| ground.free(block));
        ground.free(block);
        // None, if the other has not come to the end of its free.
        let mine = ground.malloc(SLOT);
        other.join().expect("no panic");
        let kinds = [Misuse::NotAllocated, Misuse::Retired];
        let refused = ground.misuses();
        assert_eq!(ground.misuses_of(&kinds), refused);
        if refused == 0 {
            assert_eq!(mine, Some(block), "the other freed what it was not given");
            assert_eq!(ground.heap().usable_size(block as *const u8), 0);
        } else {
            assert_eq!(refused, 1);
            mine.into_iter().for_each(|mine| ground.free(mine));
        }
        for block in &blocks[1..] {
            ground.free(*block);
        }
        ground.free(rest);
        assert_eq!(ground.misuses(), refused);
        ground.finish();
    });
}

/// A heap with a quarantine of `places` places in which nothing is left, one of its small blocks, and
/// the others.
fn full_with_a_quarantine(places: u64) -> (Arc<Ground>, u64, Vec<u64>) {
    let ground = Ground::quarantined(places);
    let rest = ground.obtain(MIN_CAPACITY - PAGE - FRAME);
    let mut blocks: Vec<_> = (0..SLOTS).map(|_| ground.obtain(SLOT - FRAME)).collect();
    let block = blocks.pop().expect("a slab has slots");
    blocks.push(rest);
    (ground, block, blocks)
}

/// Bytes before a block of a heap with a quarantine.
const FRAME: u64 = 16;

/// Through the quarantine too, what was done to a block comes before what its next owner does.
#[test]
fn a_block_passes_through_the_quarantine() {
    explore(2, || {
        let (ground, block, rest) = full_with_a_quarantine(16);
        let other = spawn(&ground, move |ground| ground.spend(block));
        let mine = ground.malloc(SLOT - FRAME);
        mine.into_iter().for_each(|mine| ground.write(mine));
        other.join().expect("no panic");
        assert_eq!(ground.misuses(), 0);
        finish(&ground, mine.into_iter().chain(rest).collect());
    });
}

/// Who looks for the block in the quarantine gets it, though another is taking it out.
#[test]
fn what_is_in_the_quarantine_is_not_missed() {
    explore(2, || {
        let (ground, block, rest) = full_with_a_quarantine(16);
        ground.spend(block);
        let whole = Share { index: 0, count: 1 };
        let other = spawn(&ground, move |ground| ground.heap().drain_quarantine(whole));
        let mine = ground.obtain(SLOT - FRAME);
        ground.write(mine);
        other.join().expect("no panic");
        finish(&ground, [mine].into_iter().chain(rest).collect());
    });
}

/// The same of a run that another's free pushes out of the quarantine; a run, because it is taken
/// without a fence, which would do for the exchange's acquire.
#[test]
fn a_run_pushed_out_of_the_quarantine_passes_the_content() {
    explore(2, || {
        let ground = Ground::quarantined(1);
        let [mine, theirs] = [1, 1].map(|_| ground.obtain(PAGE - FRAME));
        let rest = ground.obtain(MIN_CAPACITY - 2 * PAGE - FRAME);
        let other = spawn(&ground, move |ground| ground.spend(theirs));
        ground.spend(mine);
        let run = ground.obtain(PAGE - FRAME);
        ground.write(run);
        other.join().expect("no panic");
        finish(&ground, vec![run, rest]);
    });
}

/// Who counts a block as given back finds it: that of a slab in no stripe, which only its class's set
/// shows.
#[test]
fn what_another_gave_back_from_the_quarantine_is_not_missed() {
    explore(1, || {
        let ground = Ground::quarantined(1);
        let mut blocks: Vec<_> = (0..2 * SLOTS)
            .map(|_| ground.obtain(SLOT - FRAME))
            .collect();
        let rest = ground.obtain(MIN_CAPACITY - 2 * PAGE - FRAME);
        ground.spend(blocks.remove(0));
        let whole = Share { index: 0, count: 1 };
        let other = spawn(&ground, move |ground| ground.heap().drain_quarantine(whole));
        blocks.push(ground.obtain(SLOT - FRAME));
        other.join().expect("no panic");
        finish(&ground, blocks.into_iter().chain([rest]).collect());
    });
}

/// Who counts a block as given back sees it at once, without a fence: a mate's search, by which it may be found, begins with what this lane has seen.
#[test]
fn what_was_given_back_is_seen_before_any_fence() {
    explore(2, || {
        let ground = Ground::quarantined(1);
        let page = ground.obtain(PAGE - FRAME);
        let rest = ground.obtain(MIN_CAPACITY - PAGE - FRAME);
        ground.free(page);
        let before = drains_done(ground.heap());
        let whole = Share { index: 0, count: 1 };
        let other = spawn(&ground, move |ground| ground.heap().drain_quarantine(whole));
        if drains_done(ground.heap()) != before {
            assert_eq!(free_pages(ground.heap()), 1);
        }
        other.join().expect("no panic");
        finish(&ground, vec![rest]);
    });
}

/// A thread's exchange that finds its place empty begins and is done while another's has taken a block out: who counts
/// the one as done must know that it was the second to begin. Pages, because a search for them is short.
#[test]
fn what_is_on_its_way_out_of_the_quarantine_is_waited_for() {
    explore(2, || {
        let ground = Ground::quarantined(2);
        let [first, second] = [1, 1].map(|_| ground.obtain(PAGE - FRAME));
        let rest = ground.obtain(MIN_CAPACITY - 2 * PAGE - FRAME);
        ground.spend(first);
        let putter = spawn(&ground, move |ground| ground.free(second));
        let seeker = spawn(&ground, |ground| ground.obtain(PAGE - FRAME));
        let first_place = Share { index: 0, count: 2 };
        ground.heap().drain_quarantine(first_place);
        putter.join().expect("no panic");
        let page = seeker.join().expect("no panic");
        finish(&ground, vec![page, rest]);
    });
}

#[test]
fn a_larger_slab_reclaimed_in_vain_is_not_missed() {
    explore(2, || {
        let ground = Ground::new(1);
        let block = ground.obtain(SLOT);
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        ground.spend(block);
        let other = spawn(&ground, |ground| ground.malloc(2 * PAGE));
        let mine = ground.obtain(SLOT / 2);
        assert_eq!(other.join().expect("no panic"), None);
        finish(&ground, vec![mine, rest]);
    });
}

#[test]
fn a_page_is_had_by_a_refill_or_a_run() {
    explore(3, || {
        // Nothing is left in the stripe, and one page is free: a slab of it, or a run.
        let (ground, mut blocks) = nearly_full(0, 1);
        let other = spawn(&ground, |ground| ground.malloc(PAGE));
        let mine = ground.malloc(SLOT);
        let page = other.join().expect("no panic");
        assert!(mine.is_some() != page.is_some(), "one of them");
        blocks.extend(mine);
        blocks.extend(page);
        finish(&ground, blocks);
    });
}

#[test]
fn a_slab_let_go_late_is_not_missed() {
    explore(2, || {
        // The old slab's blocks are freed while its crosser takes a page at once.
        let (ground, mut blocks) = nearly_full(0, 1);
        let rest = blocks.pop().expect("some");
        let other = spawn(&ground, move |ground| {
            for block in blocks {
                ground.spend(block);
            }
            let page = ground.malloc(PAGE);
            if let Some(page) = page {
                ground.write_pages(page, PAGE);
            }
            page
        });
        let mine = ground.obtain(SLOT);
        ground.write(mine);
        let page = other.join().expect("no panic");
        finish(&ground, page.into_iter().chain([mine, rest]).collect());
    });
}

#[test]
fn a_page_taken_at_once_serves_a_smaller_class() {
    explore(3, || {
        // One page is free and the larger class takes it at once: it has room for the smaller.
        let ground = Ground::new(1);
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        let other = spawn(&ground, |ground| ground.malloc(SLOT));
        let mine = ground.obtain(SLOT / 2);
        let third = ground.obtain(SLOT / 2);
        let other = other.join().expect("no panic");
        finish(
            &ground,
            other.into_iter().chain([mine, third, rest]).collect(),
        );
    });
}

#[test]
fn two_take_pages_at_once() {
    explore(3, || {
        // Two classes, one page: one of them makes a slab, the smaller gets a slot of either.
        let ground = Ground::new(2);
        let rest = ground.obtain(MIN_CAPACITY - 2 * PAGE);
        let other = spawn(&ground, |ground| {
            let block = ground.obtain(SLOT);
            ground.spend(block);
            ground.malloc(2 * PAGE)
        });
        if let Some(mine) = ground.malloc(SLOT / 2) {
            ground.write(mine);
            ground.free(mine);
        }
        let run = other.join().expect("no panic");
        finish(&ground, run.into_iter().chain([rest]).collect());
    });
}

#[test]
fn a_slab_offered_again_passes_the_content() {
    explore(4, || {
        // Slots are drawn from the highest on. With the free of the third one six of eight are free, so that the crosser
        // offers these once more as a row, which begins with that one.
        let (ground, mut blocks) = nearly_full(0, 1);
        let last = blocks.remove(2);
        for block in blocks.drain(2..7) {
            ground.spend(block);
        }
        let other = spawn(&ground, move |ground| ground.spend(last));
        let mine = ground.obtain(SLOT);
        ground.write(mine);
        other.join().expect("no panic");
        blocks.push(mine);
        finish(&ground, blocks);
    });
}

/// The block of slot `slot` is freed while a group of `count` lanes draws the row of slots that ends below `end`, its slot among them.
fn row_of_group_passes_the_content(count: usize, end: usize, slot: usize) {
    /// So many to a page that its bitmap has two words.
    const BYTES: u32 = 16;
    let ground = Ground::new(1);
    let bytes = u64::from(BYTES);
    // Slots are drawn from the highest on.
    let mut blocks: Vec<_> = (0..PAGE / bytes).map(|_| ground.obtain(bytes)).collect();
    blocks.reverse();
    let given = blocks.remove(slot);
    for block in blocks {
        ground.free(block);
    }
    // All but what lives can be drawn again.
    let left = ground.host.stripe(class_of(BYTES)).look().left();
    let above: Vec<_> = (end as i32..left).map(|_| ground.obtain(bytes)).collect();
    let other = spawn(&ground, move |ground| ground.spend(given));
    let mine = malloc_group(ground.heap(), BYTES, count, &mut Misses::default());
    if mine.contains(&given) {
        ground.write(given);
    }
    other.join().expect("no panic");
    finish(&ground, mine.into_iter().chain(above).collect());
}

#[test]
fn a_row_across_two_words_passes_the_content() {
    // The slot lies in the first word, or in the second.
    explore(4, || row_of_group_passes_the_content(4, 34, 31));
    explore(4, || row_of_group_passes_the_content(4, 34, 32));
}

#[test]
fn a_row_of_a_whole_word_passes_the_content() {
    explore(4, || row_of_group_passes_the_content(32, 32, 5));
}

#[test]
fn a_packed_slot_passes_the_content() {
    /// So many to a page that a slab of one is large enough for slots to be packed.
    const BYTES: u32 = 32;
    explore(4, || {
        // Slots are drawn from the highest on, so two are left, the lowest; but that which is freed comes before them where slots are
        // packed, since the first unit is not 0.
        let ground = Ground::new(1);
        let mut blocks: Vec<_> = (0..30).map(|_| ground.obtain(BYTES.into())).collect();
        ground.host.pack(class_of(BYTES));
        let given = blocks.remove(20);
        let other = spawn(&ground, move |ground| ground.spend(given));
        let mine = ground.obtain(BYTES.into());
        ground.write(mine);
        other.join().expect("no panic");
        blocks.push(mine);
        finish(&ground, blocks);
    });
}

#[test]
fn a_slot_found_elsewhere_passes_the_content() {
    /// So many to a page that one word has the bits of all.
    const BYTES: u32 = 32;
    explore(4, || {
        // Slots are drawn from the highest on, and two are left. Whoever drew the one has the other, so the next to draw finds its slot taken: it looks where the highest is, which
        // is about to be free.
        let ground = Ground::new(1);
        let mut blocks: Vec<_> = (0..30).map(|_| ground.obtain(BYTES.into())).collect();
        let drawn = ground.host.stripe(class_of(BYTES)).draw(1);
        blocks.extend(ground.host.occupy(drawn, 0, BYTES));
        let given = blocks.remove(0);
        let other = spawn(&ground, move |ground| ground.spend(given));
        let mine = ground.obtain(BYTES.into());
        ground.write(mine);
        other.join().expect("no panic");
        blocks.push(mine);
        finish(&ground, blocks);
    });
}

/// A heap of whose stripe's slab nothing is left to draw and only the lowest slot is in use, whose free rewinds the slab; and the
/// block of that slot. All other pages but `pages` are taken.
fn about_to_be_rewound(ground: &Ground, pages: u64) -> (u64, Vec<u64>) {
    let mut blocks: Vec<_> = (0..HALVES).map(|_| ground.obtain(HALF)).collect();
    let last = blocks.pop().expect("slots are drawn from the highest on");
    let rest = ground.obtain(MIN_CAPACITY - (1 + pages) * PAGE);
    for block in blocks {
        ground.spend(block);
    }
    assert_not_rewound(ground, HALF);
    (last, vec![rest])
}

/// So many to a page that a slab of one is rewound while one of its blocks lives.
const SMALL: u64 = HALF / 2;

/// A heap of whose stripe's slab nothing is left to draw and two slots are in use: whose free leaves one of them rewinds the slab; the blocks of these, and the one that
/// takes all other pages but `pages`.
fn two_before_rewinding(ground: &Ground, pages: u64) -> ([u64; 2], u64) {
    let mut blocks: Vec<_> = (0..PAGE / SMALL).map(|_| ground.obtain(SMALL)).collect();
    let rest = ground.obtain(MIN_CAPACITY - (1 + pages) * PAGE);
    let living = [(); 2].map(|()| blocks.pop().expect("more than two"));
    for block in blocks {
        ground.free(block);
    }
    assert_not_rewound(ground, SMALL);
    (living, rest)
}

/// Asserts that nothing is left to draw of the slab for blocks of so many bytes.
fn assert_not_rewound(ground: &Ground, bytes: u64) {
    let word = ground.host.stripe(class_of(bytes as u32)).look();
    assert_eq!(word.left(), 0, "rewound already");
}

#[test]
fn a_slab_rewound_passes_the_content() {
    explore(4, || {
        let ground = Ground::new(1);
        let (last, mut blocks) = about_to_be_rewound(&ground, 1);
        let other = spawn(&ground, move |ground| ground.spend(last));
        for _ in 0..2 {
            let mine = ground.obtain(HALF);
            ground.write(mine);
            blocks.push(mine);
        }
        other.join().expect("no panic");
        finish(&ground, blocks);
    });
}

#[test]
fn the_last_two_frees_of_a_slab_that_is_rewound_lose_nothing() {
    explore(3, || {
        // Of a slab's blocks two live, and each is freed by a thread: whose free is the first has all of it offered, while the other's block lives or is
        // freed.
        let ground = Ground::new(0);
        let ([mine, others], rest) = two_before_rewinding(&ground, 0);
        let other = spawn(&ground, move |ground| ground.free(others));
        ground.free(mine);
        // From what is offered again, by whoever it is.
        let mine = ground.obtain(SMALL);
        other.join().expect("no panic");
        let again = (1..PAGE / SMALL).map(|_| ground.obtain(SMALL));
        let blocks = again.chain([mine, rest]).collect();
        finish(&ground, blocks);
    });
}

#[test]
fn units_without_a_slot_lose_nothing() {
    explore(2, || {
        // Of a slab's blocks two live. Whose free leaves one has all of the slab offered, one unit more than slots are free. Another draws meanwhile, and then all that is left: what there is no
        // slot for it has of another slab.
        let ground = Ground::new(1);
        let ([kept, given], rest) = two_before_rewinding(&ground, 1);
        let other = spawn(&ground, move |ground| ground.spend(given));
        let mine = ground.obtain(SMALL);
        ground.write(mine);
        other.join().expect("no panic");
        let again = (0..PAGE / SMALL).map(|_| ground.obtain(SMALL));
        let blocks = again.chain([mine, kept, rest]).collect();
        finish(&ground, blocks);
    });
}

/// So small that two of its slab's blocks may live when all of it is offered.
const TINY: u64 = 16;

/// A heap with a slab of which more is left to draw than is free: three units, and one slot. The blocks that are handed out, two of which lived when the slab was rewound, and the one that
/// takes all other pages but `pages`.
fn offered_beyond_what_is_free(ground: &Ground, pages: u64) -> Vec<u64> {
    let slots = PAGE / TINY;
    let mut blocks: Vec<_> = (0..slots).map(|_| ground.obtain(TINY)).collect();
    let rest = ground.obtain(MIN_CAPACITY - (1 + pages) * PAGE);
    for block in blocks.split_off(2) {
        ground.free(block);
    }
    let left = || ground.host.stripe(class_of(TINY as u32)).look().left();
    assert_eq!(left(), slots as i32, "all of it is offered");
    blocks.extend((3..slots).map(|_| ground.obtain(TINY)));
    assert_eq!((left(), blocks.len() as u64), (3, slots - 1));
    blocks.push(rest);
    blocks
}

#[test]
fn a_slab_that_is_drawn_from_in_vain_is_left_while_others_draw() {
    explore(2, || {
        // Who does not get the slot leaves the stripe no units, of which the other may draw meanwhile, or replace the slab.
        let ground = Ground::new(1);
        let mut blocks = offered_beyond_what_is_free(&ground, 1);
        let other = spawn(&ground, |ground| ground.obtain(TINY));
        blocks.extend((0..2).map(|_| ground.obtain(TINY)));
        blocks.push(other.join().expect("no panic"));
        finish(&ground, blocks);
    });
}

#[test]
fn the_last_slab_is_left_in_vain_while_one_frees() {
    explore(2, || {
        // There is no other page. Who draws in vain leaves the stripe no units, and then there is what the other frees, or nothing until it has done so.
        let ground = Ground::new(1);
        let mut blocks = offered_beyond_what_is_free(&ground, 0);
        let given = blocks.remove(0);
        blocks.push(ground.obtain(TINY));
        let other = spawn(&ground, move |ground| ground.spend(given));
        let mine = ground.malloc(TINY);
        if let Some(mine) = mine {
            ground.write(mine);
        }
        other.join().expect("no panic");
        blocks.push(mine.unwrap_or_else(|| ground.obtain(TINY)));
        finish(&ground, blocks);
    });
}

/// A heap without a free page, and with a slab of whose blocks some were freed, from the highest down: of its units, which span several slots, the first was drawn, and the next has no slot. The blocks that are
/// handed out, and the one that takes all other pages.
fn free_below_units_without_a_slot(ground: &Ground, freed: &[u64]) -> Vec<u64> {
    let slots = PAGE / TINY;
    let mut blocks: Vec<_> = (0..slots).map(|_| ground.obtain(TINY)).collect();
    let rest = ground.obtain(MIN_CAPACITY - PAGE);
    blocks.sort_unstable();
    for index in freed {
        let block = blocks.remove(usize::try_from(*index).expect("small"));
        ground.free(block);
    }
    blocks.extend([ground.obtain(TINY), rest]);
    let word = ground.host.stripe(class_of(TINY as u32)).look();
    let span = 1 << word.density();
    assert!(word.is_spread() && word.units_left() > 2, "{word:?}");
    assert!(
        u64::from(word.units_left() - 1) * span > freed[1],
        "{word:?}"
    );
    blocks
}

/// The highest slot and seven that lie lowest: from there on each unit is a slot. Or five, below the highest of which as little is free as in all of the slab.
const LIE_TOGETHER: [&[u64]; 2] = [&[63, 6, 5, 4, 3, 2, 1, 0], &[63, 39, 3, 2, 1, 0]];

#[test]
fn units_without_a_slot_are_left_while_others_draw() {
    for freed in LIE_TOGETHER {
        explore(2, move || {
            // Who draws one that has none offers the slab from the highest free slot on, while the other draws.
            let ground = Ground::new(1);
            let mut blocks = free_below_units_without_a_slot(&ground, freed);
            let other = spawn(&ground, |ground| ground.obtain(TINY));
            blocks.push(ground.obtain(TINY));
            blocks.push(other.join().expect("no panic"));
            finish(&ground, blocks);
        });
    }
}

#[test]
fn what_is_freed_among_units_that_are_left_is_found() {
    for freed in LIE_TOGETHER {
        explore(2, move || {
            // Its unit may be left by who looked before. All that is free is found nevertheless.
            let ground = Ground::new(1);
            let mut blocks = free_below_units_without_a_slot(&ground, freed);
            let given = blocks.remove(blocks.len() / 2);
            let other = spawn(&ground, move |ground| ground.spend(given));
            blocks.push(ground.obtain(TINY));
            other.join().expect("no panic");
            blocks.extend((1..freed.len()).map(|_| ground.obtain(TINY)));
            assert_eq!(ground.malloc(TINY), None);
            finish(&ground, blocks);
        });
    }
}

#[test]
fn who_finds_nothing_does_not_miss_what_is_below_units_that_are_left() {
    explore(2, || {
        // One leaves units of the slab, and the other wants the rest of it meanwhile.
        let ground = Ground::new(1);
        let mut blocks = free_below_units_without_a_slot(&ground, LIE_TOGETHER[1]);
        let given = blocks.remove(20);
        ground.free(given);
        let other = spawn(&ground, |ground| ground.obtain(TINY));
        blocks.extend((1..LIE_TOGETHER[1].len()).map(|_| ground.obtain(TINY)));
        blocks.push(other.join().expect("no panic"));
        assert_eq!(ground.malloc(TINY), None);
        finish(&ground, blocks);
    });
}

#[test]
fn a_slab_that_is_rewound_is_not_missed() {
    explore(3, || {
        // What the other stripe needs is in the slab all the time.
        let ground = Ground::with_stripes(MIN_CAPACITY, 2, 1);
        set_block(0);
        let (last, mut blocks) = about_to_be_rewound(&ground, 0);
        let other = spawn_on(0, &ground, move |ground| {
            ground.spend(last);
            ground.obtain(HALF)
        });
        set_block(1);
        blocks.push(ground.obtain(HALF));
        blocks.push(other.join().expect("no panic"));
        finish(&ground, blocks);
    });
}

#[test]
fn a_slab_is_rewound_and_drawn_from_again_while_another_draws() {
    explore(3, || {
        // One thread frees the lowest slot, and what it then gets, that slot perhaps among it; the other draws meanwhile.
        let ground = Ground::new(1);
        let (last, mut blocks) = about_to_be_rewound(&ground, 1);
        let other = spawn(&ground, move |ground| {
            ground.spend(last);
            let again: Vec<_> = (0..HALVES - 1).map(|_| ground.obtain(HALF)).collect();
            for block in again {
                ground.spend(block);
            }
        });
        let mine = ground.obtain(HALF);
        ground.write(mine);
        other.join().expect("no panic");
        blocks.push(mine);
        finish(&ground, blocks);
    });
}

#[test]
fn who_rewinds_sees_the_use_of_what_was_offered_meanwhile() {
    /// Blocks that live once the use is lowered.
    const LIVING: u32 = 4;
    explore(1, || {
        // Whose free leaves four blocks is about to rewind the slab. Meanwhile another has it offered again, and draws until four units are left:
        // by the use from before, nothing would live.
        let ground = Ground::new(1);
        let mut blocks: Vec<_> = (0..HALVES).map(|_| ground.obtain(HALF)).collect();
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        for block in blocks.split_off(LIVING as usize + 1) {
            ground.spend(block);
        }
        let last = blocks.pop().expect("one more than shall live");
        let slots = HALVES as u32;
        let other = spawn(&ground, move |ground| {
            let drawn = (2 * LIVING..slots).map(|_| ground.obtain(HALF));
            drawn.collect::<Vec<_>>()
        });
        ground.spend(last);
        blocks.extend(other.join().expect("no panic"));
        let left = ground.host.stripe(class_of(HALF as u32)).look().left();
        let free = HALVES as i32 - blocks.len() as i32;
        assert!(left <= free, "{left} units of {free} free slots");
        finish(&ground, blocks.into_iter().chain([rest]).collect());
    });
}

#[test]
fn a_page_whose_slab_is_rewound_is_not_lost() {
    explore(2, || {
        let ground = Ground::new(1);
        let (last, mut blocks) = about_to_be_rewound(&ground, 0);
        let other = spawn(&ground, |ground| {
            let page = ground.malloc(PAGE);
            if let Some(page) = page {
                ground.write_pages(page, PAGE);
            }
            page
        });
        ground.spend(last);
        // Until it was freed the block holds the page.
        let page = other.join().expect("no panic");
        let page = page.unwrap_or_else(|| ground.obtain(PAGE));
        ground.write_pages(page, PAGE);
        blocks.push(page);
        finish(&ground, blocks);
    });
}

/// Two blocks of a slab of which hardly anything was drawn: whose free leaves one of them takes the slab away from its stripe. All other pages are taken, by the last block.
fn about_to_be_given_up(ground: &Ground) -> [u64; 3] {
    let [mine, others] = [(); 2].map(|()| ground.obtain(HALF));
    [mine, others, ground.obtain(MIN_CAPACITY - PAGE)]
}

/// Whether no stripe of the blocks' class has a slab.
fn is_given_up(ground: &Ground) -> bool {
    !ground.host.stripe(class_of(HALF as u32)).look().has_slab()
}

#[test]
fn a_slab_given_up_is_not_missed() {
    explore(3, || {
        // What the other wants is in the slab all the time.
        let ground = Ground::new(1);
        let [first, second, rest] = about_to_be_given_up(&ground);
        let other = spawn(&ground, move |ground| ground.spend(first));
        let mine = ground.obtain(HALF);
        ground.write(mine);
        other.join().expect("no panic");
        finish(&ground, vec![mine, second, rest]);
    });
}

#[test]
fn a_slab_given_up_that_drains_becomes_a_page() {
    explore(3, || {
        // Each frees one of two blocks. Whoever is first takes the slab away, and the other may free the last block before it is listed.
        let ground = Ground::new(1);
        let [first, second, rest] = about_to_be_given_up(&ground);
        let other = spawn(&ground, move |ground| ground.spend(first));
        ground.spend(second);
        let early = ground.malloc(PAGE);
        other.join().expect("no panic");
        assert!(is_given_up(&ground));
        let page = early.unwrap_or_else(|| ground.obtain(PAGE));
        ground.write_pages(page, PAGE);
        finish(&ground, vec![page, rest]);
    });
}

#[test]
fn a_slab_listed_at_once_is_seen_by_its_taker() {
    explore(2, || {
        // The only page comes free while one thread looks for it everywhere: the slab that it
        // makes goes to its class's set, and never was in a stripe.
        let ground = Ground::new(1);
        let page = ground.obtain(PAGE);
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        let other = spawn(&ground, move |ground| {
            ground.write_pages(page, PAGE);
            ground.free(page);
            ground.obtain(SLOT)
        });
        let mine = ground.malloc(SLOT);
        let theirs = other.join().expect("no panic");
        finish(&ground, mine.into_iter().chain([theirs, rest]).collect());
    });
}

/// A slab with one block in use that is in its class's set, no stripe with a slab, and no page:
/// that block, and the rest of the heap.
fn one_listed(ground: &Ground) -> (u64, u64) {
    let mut blocks: Vec<_> = (0..=SLOTS).map(|_| ground.obtain(SLOT)).collect();
    ground.free(blocks.pop().expect("some"));
    // Takes the second slab, which is idle, away from its stripe.
    let rest = ground.obtain(MIN_CAPACITY - PAGE);
    let last = blocks.pop().expect("some");
    for block in blocks {
        ground.free(block);
    }
    (last, rest)
}

#[test]
fn a_larger_slab_retired_from_the_set_is_not_missed() {
    explore(1, || {
        // Who wants a smaller slot looks at the pages first, and then at the set of the larger.
        let ground = Ground::new(0);
        let (last, rest) = one_listed(&ground);
        let other = spawn(&ground, move |ground| ground.free(last));
        let mine = ground.obtain(SLOT - 16);
        other.join().expect("no panic");
        finish(&ground, vec![mine, rest]);
    });
}

#[test]
fn a_last_free_between_another_and_its_retiring() {
    explore(3, || {
        // One thread frees the last block. Before it has retired the slab, the other takes it for
        // a smaller slot, lists it again, and frees that slot: who retires it, and for whom?
        let ground = Ground::new(1);
        let (last, rest) = one_listed(&ground);
        let other = spawn(&ground, move |ground| {
            ground.free(last);
            let page = ground.malloc(PAGE)?;
            ground.write_pages(page, PAGE);
            Some(page)
        });
        if let Some(block) = ground.malloc(SLOT - 16) {
            ground.spend(block);
        }
        let page = other.join().expect("no panic");
        finish(&ground, page.into_iter().chain([rest]).collect());
    });
}

#[test]
fn a_new_slab_adopted_passes_the_content() {
    explore(3, || {
        // One thread makes a slab of the last page in its stripe, the other takes it over.
        let ground = Ground::with_stripes(MIN_CAPACITY, 2, 1);
        let page = ground.obtain(PAGE);
        let rest = ground.obtain(MIN_CAPACITY - PAGE);
        let other = spawn_on(1, &ground, move |ground| {
            ground.write_pages(page, PAGE);
            ground.free(page);
            ground.obtain(SLOT)
        });
        let mine = ground.malloc(SLOT);
        if let Some(block) = mine {
            ground.spend(block);
        }
        assert_eq!(ground.misuses(), 0);
        let theirs = other.join().expect("no panic");
        finish(&ground, vec![theirs, rest]);
    });
}

#[test]
fn a_run_that_moves_is_not_missed() {
    explore(2, || {
        // Two words of pages. A run comes free in the first, another goes from the second, and
        // a page beside it comes free: there are two pages side by side all the time.
        let ground = Ground::with_capacity(68 * PAGE, 0);
        let first = ground.obtain(2 * PAGE);
        let rest = ground.obtain(62 * PAGE);
        let second = ground.obtain(2 * PAGE);
        let (gap, last) = (ground.obtain(PAGE), ground.obtain(PAGE));
        ground.free(second);
        let other = spawn(&ground, move |ground| {
            ground.free(first);
            let page = ground.obtain(PAGE);
            ground.free(last);
            page
        });
        let mine = ground.obtain(2 * PAGE);
        let page = other.join().expect("no panic");
        finish(&ground, vec![rest, gap, mine, page]);
    });
}

/// A set of a few words, by itself.
struct Words<const COUNT: usize> {
    words: [DeviceAtomicU64; COUNT],
    summary: DeviceAtomicU64,
    state: SetState,
}

impl<const COUNT: usize> Words<COUNT> {
    /// With the members that the words say.
    fn of(words: [u64; COUNT]) -> Arc<Self> {
        let of_word = |(index, word): (usize, &u64)| u64::from(*word != 0) << index;
        let summary = words.iter().enumerate().map(of_word).sum();
        Arc::new(Self {
            words: words.map(DeviceAtomicU64::new),
            summary: DeviceAtomicU64::new(summary),
            state: SetState::of(words.iter().map(|word| word.count_ones()).sum()),
        })
    }

    fn set(&self) -> PageSet {
        let sets = Sets {
            states: Array::new(&raw const self.state as u64),
            summaries: Array::new(&raw const self.summary as u64),
            words: Array::new(self.words.as_ptr() as u64),
            word_count: COUNT as u32,
            summary_count: 1,
        };
        // SAFETY: the arrays have as many elements and outlive the set.
        unsafe { sets.set(0) }
    }

    fn insert(&self, index: u32, pages: u64) {
        self.set().announce(pages.count_ones());
        self.set().insert(index, pages);
        self.set().raise_epoch();
    }

    fn remove(&self, page: u32) {
        if self.set().remove(page) {
            self.set().settle(1);
            self.set().tidy(0, 1);
        }
    }
}

#[test]
fn a_summary_shows_what_is_inserted_while_the_last_member_is_removed() {
    explore(4, || {
        let ground = Words::of([1]);
        let other = ground.clone();
        let other = loom::thread::spawn(move || other.insert(0, 1 << 1));
        ground.remove(0);
        other.join().expect("no panic");
        assert_eq!(ground.set().next_word(0), Some(0), "page 1 is hidden");
    });
}

#[test]
fn a_member_that_is_taken_passes_the_content() {
    explore(4, || {
        // Another stays in the word, so who takes it changes no summary.
        let ground = Words::of([1]);
        let content = Arc::new(UnsafeCell::new(0));
        let (other, given) = (ground.clone(), content.clone());
        let other = loom::thread::spawn(move || {
            // SAFETY: loom checks that nobody else uses the content.
            given.with_mut(|content| unsafe { *content += 1 });
            other.insert(0, 1 << 1);
        });
        let (taken, others) = ground.set().remove_if_shown(1);
        if taken {
            assert_eq!(others, 1);
            // SAFETY: as above.
            content.with_mut(|content| unsafe { *content += 1 });
        }
        other.join().expect("no panic");
        assert!(taken || ground.set().remove(1), "it is lost");
    });
}

#[test]
fn pages_of_two_words_pass_the_content() {
    explore(4, || {
        // All of two words is wanted; the pages of the second come free.
        let ground = Words::of([u64::MAX, 0]);
        let content = Arc::new(UnsafeCell::new(0));
        let (other, given) = (ground.clone(), content.clone());
        let other = loom::thread::spawn(move || {
            // SAFETY: loom checks that nobody else uses the content.
            given.with_mut(|content| unsafe { *content += 1 });
            other.insert(1, u64::MAX);
        });
        let taken = ground.set().take_words(0, 2);
        if taken {
            // SAFETY: as above.
            content.with_mut(|content| unsafe { *content += 1 });
        }
        other.join().expect("no panic");
        assert!(taken || ground.set().take_words(0, 2), "one is lost");
    });
}

#[test]
fn pages_of_two_words_go_back_if_some_are_gone() {
    explore(4, || {
        // All of two words is wanted; a page of the second is away for a moment.
        let ground = Words::of([u64::MAX; 2]);
        let other = ground.clone();
        let other = loom::thread::spawn(move || {
            if other.set().take(1, 1) {
                other.insert(1, 1);
            }
        });
        let taken = ground.set().take_words(0, 2);
        other.join().expect("no panic");
        let left = ground.set().take_words(0, 2);
        assert_ne!(taken, left, "some are lost, or had twice");
    });
}

/// The smallest heap, of which only the first half has memory, and its mailbox.
struct GrowingGround {
    ground: Arc<Ground>,
    mailbox: Arc<Mailbox>,
}

/// Pages that it has at first.
const FIRST_PAGES: u32 = 8;
const ALL_PAGES: u32 = 16;

impl GrowingGround {
    /// A heap whose requests wait for `looks` looks at the clock.
    fn new(looks: u64, answer: Answer) -> Arc<Self> {
        let mailbox = Arc::new(Mailbox::new(answer));
        let growth = Growth {
            mailbox: Arc::as_ptr(&mailbox) as u64,
            patience: 1000 * looks,
            pages: FIRST_PAGES,
            low_water: 0,
        };
        let host = HostHeap::growing(MIN_CAPACITY, 1, growth);
        let ground = Arc::new(Ground::of(host, u64::from(ALL_PAGES)));
        Arc::new(Self { ground, mailbox })
    }

    /// What the host does: gives the pages content that it had before, and says that they are
    /// there.
    fn map(&self, closed: bool) {
        let base = self.ground.heap().base();
        self.ground.write(base + u64::from(FIRST_PAGES) * PAGE);
        self.mailbox.answer(Answer {
            pages: ALL_PAGES,
            closed,
        });
    }
}

/// Nothing more than at first, but more may come.
const WAIT: Answer = Answer {
    pages: FIRST_PAGES,
    closed: false,
};

#[test]
fn who_waits_for_growth_gets_what_the_host_mapped() {
    explore(3, || {
        let growing = GrowingGround::new(1000, WAIT);
        let all = growing.ground.obtain(u64::from(FIRST_PAGES) * PAGE);
        let host = growing.clone();
        let host = loom::thread::spawn(move || host.map(true));
        let block = growing.ground.obtain(PAGE);
        // What the host did to the memory comes before.
        growing.ground.write(block);
        host.join().expect("no panic");
        assert_eq!(growing.mailbox.request(), ALL_PAGES.min(FIRST_PAGES + 1));
        growing.ground.free(block);
        growing.ground.free(all);
        growing.ground.finish();
    });
}

#[test]
fn two_wait_for_growth_and_one_admits_the_pages() {
    explore(2, || {
        let growing = GrowingGround::new(1000, WAIT);
        let all = growing.ground.obtain(u64::from(FIRST_PAGES) * PAGE);
        growing.map(true);
        let other = growing.clone();
        let other = loom::thread::spawn(move || {
            let block = other.ground.obtain(SLOT);
            other.ground.write(block);
            block
        });
        let mine = growing.ground.obtain(2 * PAGE);
        growing.ground.write_pages(mine, 2 * PAGE);
        let block = other.join().expect("no panic");
        for block in [block, mine, all] {
            growing.ground.free(block);
        }
        growing.ground.finish();
    });
}

/// Less than the above, in which so much else happens that a second admission is found late.
#[test]
fn two_admit_pages_and_these_are_there_once() {
    explore(3, || {
        let growing = GrowingGround::new(1000, WAIT);
        let all = growing.ground.obtain(u64::from(FIRST_PAGES) * PAGE);
        growing.map(true);
        let take = |growing: &GrowingGround| {
            growing.ground.heap().admit_mapped();
            let page = growing.ground.obtain(PAGE);
            growing.ground.write(page);
            page
        };
        let other = growing.clone();
        let other = loom::thread::spawn(move || take(&other));
        let mine = take(&growing);
        let theirs = other.join().expect("no panic");
        finish(&growing.ground, vec![all, mine, theirs]);
    });
}

#[test]
fn growth_that_another_admitted_is_found() {
    explore(2, || {
        let growing = GrowingGround::new(1000, WAIT);
        let all = growing.ground.obtain(u64::from(FIRST_PAGES) * PAGE);
        growing.map(true);
        let other = growing.clone();
        let other = loom::thread::spawn(move || other.ground.heap().admit_mapped());
        let block = growing.ground.obtain(PAGE);
        other.join().expect("no panic");
        growing.ground.free(block);
        growing.ground.free(all);
        growing.ground.finish();
    });
}

/// As with the quarantine: a mate's search begins with what this lane has seen.
#[test]
fn who_sees_that_a_heap_grew_sees_its_pages_before_any_fence() {
    explore(2, || {
        let growing = GrowingGround::new(1000, WAIT);
        let all = growing.ground.obtain(u64::from(FIRST_PAGES) * PAGE);
        growing.map(true);
        // Loom does not try what a thread reads before another changes it if that reads it too; so it has a word that only one of them reads.
        let is_done = Arc::new(AtomicBool::new(false));
        let does = is_done.clone();
        let other = spawn(&growing.ground, move |ground| {
            ground.heap().admit_mapped();
            does.store(true, Ordering::Relaxed);
        });
        is_done.load(Ordering::Relaxed);
        if sees_growth(growing.ground.heap(), FIRST_PAGES) {
            let free = free_pages(growing.ground.heap());
            assert_eq!(free, ALL_PAGES - FIRST_PAGES);
        }
        other.join().expect("no panic");
        finish(&growing.ground, vec![all]);
    });
}

#[test]
fn null_is_right_once_the_host_says_that_no_more_will_come() {
    explore(3, || {
        let growing = GrowingGround::new(1000, WAIT);
        let all = growing.ground.obtain(u64::from(FIRST_PAGES) * PAGE);
        let host = growing.clone();
        // The last pages and the end in two answers.
        let host = loom::thread::spawn(move || {
            host.map(false);
            host.mailbox.answer(Answer {
                pages: ALL_PAGES,
                closed: true,
            });
        });
        let rest = growing
            .ground
            .obtain(u64::from(ALL_PAGES - FIRST_PAGES) * PAGE);
        assert_eq!(growing.ground.malloc(SLOT), None);
        host.join().expect("no panic");
        growing.ground.free(rest);
        growing.ground.free(all);
        growing.ground.finish();
    });
}

#[test]
fn nobody_waits_for_ever_for_a_host_that_does_not_answer() {
    explore(2, || {
        let growing = GrowingGround::new(3, WAIT);
        let all = growing.ground.obtain(u64::from(FIRST_PAGES) * PAGE);
        let other = growing.clone();
        let other = loom::thread::spawn(move || assert_eq!(other.ground.malloc(SLOT), None));
        assert_eq!(growing.ground.malloc(PAGE), None);
        other.join().expect("no panic");
        growing.map(true);
        let block = growing.ground.obtain(SLOT);
        growing.ground.free(block);
        growing.ground.free(all);
        growing.ground.finish();
    });
}

/// Capacity of the smallest heap that has slabs of two pages.
const PUNCHABLE: u64 = 128 * PAGE;

/// A slab of two pages, of slots of `SLOT` bytes, of which one lives in each page, the upper one first. Nothing else of the heap is free, but what of the slab is.
/// Who wants a page has to punch the slab.
fn about_to_be_punched(ground: &Ground) -> ([u64; 2], Vec<u64>) {
    let mut blocks: Vec<_> = (0..SLOTS).map(|_| ground.obtain(SLOT)).collect();
    let mut of_slab = vec![ground.obtain(SLOT)];
    let seen = ground.host.stripe(class_of(SLOT as u32)).look();
    assert_eq!(seen.order(), 1, "slabs grow");
    of_slab.extend((1..2 * SLOTS).map(|_| ground.obtain(SLOT)));
    // It begins at an even page, and leaves one out.
    blocks.push(ground.obtain(PUNCHABLE - 4 * PAGE));
    blocks.push(ground.obtain(PAGE));
    let mut left = Vec::new();
    for (number, block) in of_slab.into_iter().enumerate() {
        if number == 0 || number + 1 == 2 * SLOTS as usize {
            left.push(block);
        } else {
            ground.free(block);
        }
    }
    (left.try_into().expect("two"), blocks)
}

#[test]
fn a_page_of_a_punched_slab_passes_the_content() {
    explore(3, || {
        let ground = Ground::with_capacity(PUNCHABLE, 4);
        let ([upper, lower], blocks) = about_to_be_punched(&ground);
        let other = spawn(&ground, move |ground| ground.spend(upper));
        let early = ground.malloc(PAGE);
        if let Some(page) = early {
            ground.write_pages(page, PAGE);
        }
        other.join().expect("no panic");
        let page = early.unwrap_or_else(|| ground.obtain(PAGE));
        ground.spend(lower);
        finish(&ground, blocks.into_iter().chain([page]).collect());
    });
}

/// A listed slab of two pages, of slots of `SLOT` bytes, of which one lives in each page, the upper one first, and which was looked at in vain: nothing else of the heap is free.
fn looked_at_in_vain(ground: &Ground) -> ([u64; 2], Vec<u64>) {
    let stripe = || ground.host.stripe(class_of(SLOT as u32)).look();
    let mut blocks: Vec<_> = (0..SLOTS).map(|_| ground.obtain(SLOT)).collect();
    let mut of_slab = vec![ground.obtain(SLOT)];
    let slab = stripe();
    assert_eq!(slab.order(), 1, "slabs grow");
    of_slab.extend((1..2 * SLOTS).map(|_| ground.obtain(SLOT)));
    // The stripe goes on to another one, all of which it uses.
    blocks.push(ground.obtain(SLOT));
    let next = stripe();
    assert_ne!(next.page(), slab.page());
    blocks.extend((0..next.left()).map(|_| ground.obtain(SLOT)));
    for pages in [64, 32, 16, 8, 4, 2, 1] {
        while let Some(rest) = ground.malloc(pages * PAGE) {
            blocks.push(rest);
        }
    }
    let left = [of_slab.remove(0), of_slab.pop().expect("some")];
    of_slab.into_iter().for_each(|block| ground.free(block));
    assert_eq!(ground.malloc(PAGE), None);
    (left, blocks)
}

#[test]
fn a_slab_that_was_looked_at_in_vain_is_looked_at_again_once_less_of_it_is_used() {
    explore(3, || {
        let ground = Ground::with_capacity(PUNCHABLE, 4);
        let ([upper, lower], blocks) = looked_at_in_vain(&ground);
        // As in `who_sees_that_a_heap_grew_sees_its_pages_before_any_fence`.
        let is_done = Arc::new(AtomicBool::new(false));
        let does = is_done.clone();
        let other = spawn(&ground, move |ground| {
            ground.free(upper);
            does.store(true, Ordering::Relaxed);
        });
        is_done.load(Ordering::Relaxed);
        // In vain, unless it sees the free.
        let early = ground.malloc(PAGE);
        other.join().expect("no panic");
        let page = early.unwrap_or_else(|| ground.obtain(PAGE));
        finish(&ground, blocks.into_iter().chain([lower, page]).collect());
    });
}

/// Who looks at a slab while another gets a slot of it must not take what it knows for what there is then.
#[test]
fn a_slab_of_which_a_slot_was_given_meanwhile_is_looked_at_again() {
    explore(3, || {
        let ground = Ground::with_capacity(PUNCHABLE, 4);
        let ([upper, lower], blocks) = looked_at_in_vain(&ground);
        ground.free(upper);
        let is_done = Arc::new(AtomicBool::new(false));
        let does = is_done.clone();
        let other = spawn(&ground, move |ground| {
            let slot = malloc_listed(ground.heap(), SLOT as u32);
            assert_eq!(slot, upper);
            does.store(true, Ordering::Relaxed);
        });
        // As in `who_sees_that_a_heap_grew_sees_its_pages_before_any_fence`.
        if is_done.load(Ordering::Relaxed) {
            // In vain, unless it does not see the slab, or sees it as it was.
            let _may_come_again = punch_slabs(ground.heap());
        }
        other.join().expect("no panic");
        ground.free(upper);
        let page = ground.obtain(PAGE);
        finish(&ground, blocks.into_iter().chain([lower, page]).collect());
    });
}

/// Bytes of slots of which a slab of four pages has eight.
const WIDE: u64 = 4 * SLOT;

/// The blocks of a full slab of four pages, in no stripe, and all others: nothing is free.
fn full_of_wide(ground: &Ground) -> (Vec<u64>, Vec<u64>) {
    let stripe = || ground.host.stripe(class_of(WIDE as u32)).look();
    let mut of_slab: Vec<_> = (0..4 * PAGE / WIDE).map(|_| ground.obtain(WIDE)).collect();
    assert_eq!(stripe().order(), 2, "slabs grow");
    let mut blocks = vec![ground.obtain(WIDE)];
    while stripe().left() > 0 {
        blocks.push(ground.obtain(WIDE));
    }
    for pages in [128, 64, 32, 16, 8, 4, 2, 1] {
        while let Some(rest) = ground.malloc(pages * PAGE) {
            blocks.push(rest);
        }
    }
    of_slab.sort_unstable();
    (of_slab, blocks)
}

/// Who says that little is used passes on that another listed the slab.
#[test]
fn a_slab_is_punched_that_one_lists_and_another_empties() {
    explore(3, || {
        let ground = Ground::with_capacity(2 * PUNCHABLE, 4);
        let (of_slab, mut blocks) = full_of_wide(&ground);
        let (first, upper) = (of_slab[3], of_slab[4..].to_vec());
        blocks.extend(&of_slab[..3]);
        let lister = spawn(&ground, move |ground| ground.free(first));
        let other = spawn(&ground, move |ground| {
            upper.into_iter().for_each(|block| ground.free(block));
        });
        let early = ground.malloc(PAGE);
        lister.join().expect("no panic");
        other.join().expect("no panic");
        blocks.push(early.unwrap_or_else(|| ground.obtain(PAGE)));
        finish(&ground, blocks);
    });
}

#[test]
fn two_that_want_a_page_of_a_slab_with_two_get_one_each() {
    explore(3, || {
        let ground = Ground::with_capacity(2 * PUNCHABLE, 4);
        let (of_slab, mut blocks) = full_of_wide(&ground);
        of_slab[3..].iter().for_each(|&block| ground.free(block));
        blocks.extend(&of_slab[..3]);
        let other = spawn(&ground, |ground| ground.malloc(PAGE));
        let pages = [ground.malloc(PAGE), other.join().expect("no panic")];
        assert_eq!(pages.iter().flatten().count(), 2, "{pages:?}");
        finish(
            &ground,
            blocks
                .into_iter()
                .chain(pages.into_iter().flatten())
                .collect(),
        );
    });
}

#[test]
fn a_page_punched_in_vain_passes_the_content() {
    explore(2, || {
        // Who punches wants two pages, and gets none: the page is another's.
        let ground = Ground::with_capacity(PUNCHABLE, 4);
        let ([upper, lower], blocks) = about_to_be_punched(&ground);
        let freer = spawn(&ground, move |ground| ground.spend(upper));
        let taker = spawn(&ground, |ground| {
            let page = ground.malloc(PAGE);
            if let Some(page) = page {
                ground.write_pages(page, PAGE);
            }
            page
        });
        assert_eq!(ground.malloc(2 * PAGE), None);
        freer.join().expect("no panic");
        let page = taker.join().expect("no panic");
        ground.spend(lower);
        finish(&ground, blocks.into_iter().chain(page).collect());
    });
}

#[test]
fn the_last_free_of_a_slab_that_is_punched_gives_back_the_rest() {
    explore(3, || {
        let ground = Ground::with_capacity(PUNCHABLE, 4);
        let ([upper, lower], blocks) = about_to_be_punched(&ground);
        ground.free(upper);
        let other = spawn(&ground, move |ground| ground.spend(lower));
        // None if the other has emptied the slab, and not given it back yet.
        let early = ground.malloc(PAGE);
        if let Some(page) = early {
            ground.write_pages(page, PAGE);
        }
        other.join().expect("no panic");
        let pages = early
            .into_iter()
            .chain([(); 2].map(|()| ground.malloc(PAGE)).into_iter().flatten());
        let pages: Vec<_> = pages.collect();
        assert_eq!(pages.len(), 2, "{pages:?}");
        ground.write_pages(pages[1], PAGE);
        finish(&ground, blocks.into_iter().chain(pages).collect());
    });
}

#[test]
fn what_is_drawn_while_a_slab_is_punched_is_nobody_elses() {
    explore(3, || {
        // The other frees, and gets a slot, perhaps one of the page that becomes free.
        let ground = Ground::with_capacity(PUNCHABLE, 4);
        let ([upper, lower], blocks) = about_to_be_punched(&ground);
        let other = spawn(&ground, move |ground| {
            ground.spend(upper);
            let slot = ground.malloc(SLOT);
            if let Some(slot) = slot {
                ground.write(slot);
            }
            slot
        });
        let page = ground.malloc(PAGE);
        if let Some(page) = page {
            ground.write_pages(page, PAGE);
        }
        let slot = other.join().expect("no panic");
        let blocks = blocks.into_iter().chain([lower]).chain(page).chain(slot);
        finish(&ground, blocks.collect());
    });
}

#[test]
fn the_rest_of_a_punched_slab_is_no_page_of_the_next() {
    explore(3, || {
        let ground = Ground::with_capacity(2 * PUNCHABLE, 4);
        let mut blocks: Vec<_> = (0..4 * PAGE / WIDE).map(|_| ground.obtain(WIDE)).collect();
        let rest = ground.obtain(2 * PUNCHABLE - 4 * PAGE);
        let lowest = blocks.pop().expect("some");
        assert_eq!(lowest, ground.heap().base());
        blocks.into_iter().for_each(|block| ground.free(block));
        let punched = ground.obtain(PAGE);
        ground.free(punched);
        // Of the slab the first page is left. Once that is free too, all four may be a slab of the same class and order.
        let other = spawn(&ground, |ground| ground.malloc(WIDE));
        ground.spend(lowest);
        let slot = other.join().expect("no panic");
        if let Some(slot) = slot {
            ground.write(slot);
            assert_eq!(ground.heap().usable_size(slot as *mut u8), WIDE);
        }
        finish(&ground, [rest].into_iter().chain(slot).collect());
    });
}

#[test]
fn two_that_punch_a_slab_get_one_page() {
    explore(3, || {
        let ground = Ground::with_capacity(PUNCHABLE, 4);
        let ([upper, lower], blocks) = about_to_be_punched(&ground);
        ground.free(upper);
        let other = spawn(&ground, |ground| ground.malloc(PAGE));
        let mine = ground.malloc(PAGE);
        let pages = [mine, other.join().expect("no panic")];
        assert_eq!(pages.iter().flatten().count(), 1, "{pages:?}");
        ground.write_pages(pages[0].or(pages[1]).expect("one"), PAGE);
        let blocks = blocks.into_iter().chain([lower]);
        finish(&ground, blocks.chain(pages.into_iter().flatten()).collect());
    });
}
