//! Launches as a GPU's refills see them: which slabs the stripes get, how often, and where these lie.
//!
//! What lanes do together, one call does for all of a group; all groups run one after another in one thread, and multiprocessors take
//! blocks of threads as they would ([`launch`]). So nothing is seen of atomics that meet, which the explorers are for, nor of time. But a launch of
//! 2^20 threads on 132 multiprocessors takes part of a second, and is the same each time: whether refills choose well can be told without a GPU.

#[path = "../../tests/host_heap/mod.rs"]
pub(crate) mod host_heap;

mod launch;
mod tests;

use crate::class::class_of;
use crate::group::{Misses, free_warp, malloc_group};
use crate::heap::Heap;
use crate::refill::ticket_slab;
use host_heap::HostHeap;
use launch::{MULTIPROCESSORS, launch};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use simt::warp::LANES;

/// Bytes of the heap.
const CAPACITY: u64 = 16 << 30;
/// Sizes in bytes of the blocks by which a heap ages.
const LEAST: u32 = 16;
const MOST: u32 = 8192;
/// Blocks that are freed and allocated while a heap ages.
const AGING_OPERATIONS: usize = 10_000_000;
/// Lanes of a warp.
const WARP: usize = LANES as usize;

/// A GPU with a heap of 16 GiB that has a stripe for each multiprocessor.
struct Gpu {
    host: HostHeap,
    random: StdRng,
    misses: Misses,
}

impl Gpu {
    fn new(seed: u64) -> Self {
        Self::with_capacity(CAPACITY, seed)
    }

    /// One whose heap has so many bytes.
    fn with_capacity(bytes: u64, seed: u64) -> Self {
        Self {
            host: HostHeap::new(bytes, MULTIPROCESSORS, 0),
            random: StdRng::seed_from_u64(seed),
            misses: Misses::default(),
        }
    }

    fn heap(&self) -> &Heap {
        self.host.heap()
    }

    /// Which part of the pages is free.
    fn free_share(&self) -> f64 {
        let core = self.heap().core();
        f64::from(core.free_pages().count()) / f64::from(core.layout().page_count)
    }

    /// Addresses of the blocks of a launch in which each thread allocates one, of its own size in bytes; 0 is NULL.
    fn allocate(&mut self, sizes: &[u32]) -> Vec<u64> {
        let mut blocks = vec![0; sizes.len()];
        launch(sizes.len() / WARP, &mut self.random, |warp| {
            let lanes = warp * WARP..(warp + 1) * WARP;
            let blocks = &mut blocks[lanes.clone()];
            malloc_warp(self.host.heap(), &sizes[lanes], blocks, &mut self.misses);
        });
        assert_apart(&blocks, sizes);
        blocks
    }

    /// A launch in which each thread frees one.
    fn free(&mut self, blocks: &[u64]) {
        launch(blocks.len() / WARP, &mut self.random, |warp| {
            free_warp(self.host.heap(), &blocks[warp * WARP..(warp + 1) * WARP]);
        });
    }

    /// How often the stripes of some classes were refilled while something was done, each modulo 16.
    fn refills(&mut self, classes: &[u32], work: impl FnOnce(&mut Self)) -> u32 {
        let stripes: Vec<_> = classes
            .iter()
            .flat_map(|class| (0..MULTIPROCESSORS).map(|index| (*class, index)))
            .collect();
        let generations = |gpu: &Self| -> Vec<u32> {
            let stripe = |(class, index): &(u32, u32)| gpu.heap().stripe(*class, *index);
            stripes
                .iter()
                .map(|place| stripe(place).look().generation())
                .collect()
        };
        let before = generations(self);
        work(self);
        let after = generations(self);
        let passed = |(before, after): (&u32, u32)| after.wrapping_sub(*before) & 15;
        before.iter().zip(after).map(passed).sum()
    }

    /// How often a launch that allocates blocks of these sizes in bytes was refilled, in each of several that are repeated with all freed in between.
    fn refills_of_launches(&mut self, sizes: &[u32], launches: usize) -> Vec<u32> {
        let mut classes: Vec<_> = sizes.iter().map(|bytes| class_of(*bytes)).collect();
        classes.sort_unstable();
        classes.dedup();
        let launch = |_| {
            let mut blocks = Vec::new();
            let refills = self.refills(&classes, |gpu| blocks = gpu.allocate(sizes));
            assert!(!blocks.contains(&0), "NULL");
            self.free(&blocks);
            refills
        };
        (0..launches).map(launch).collect()
    }

    /// How many stripes have a slab for blocks of `bytes` bytes, of which nothing lives but what was drawn since less was offered than it has.
    fn slabs_offered_in_part(&self, bytes: u32) -> usize {
        let core = self.heap().core();
        let class = class_of(bytes);
        let is_in_part = |index: &u32| {
            let seen = core.stripe(class, *index).look();
            if !seen.has_slab() || seen.density() > 0 {
                return false;
            }
            let offered = core.slab_state(seen.page()).offered();
            core.used_hint(seen.page()) == offered && offered < core.slots(ticket_slab(seen))
        };
        (0..core.stripes_of(class).count).filter(is_in_part).count()
    }

    /// Fills 70 % of the heap with blocks of 16 to 8192 bytes, then [replaces](Self::replace_quarter) a quarter of them, again and again: the blocks. So does the
    /// benchmark.
    fn age(&mut self) -> Vec<u64> {
        let count = usize::try_from(CAPACITY / 10 * 7 / u64::from(u32::midpoint(LEAST, MOST)))
            .expect("fits");
        let count = count / WARP * WARP;
        let sizes = self.sizes(LEAST, MOST, count);
        let mut blocks = self.allocate(&sizes);
        let mut done = 0;
        while done < AGING_OPERATIONS {
            done += 2 * self.replace_quarter(&mut blocks);
        }
        blocks
    }

    /// Frees a quarter of some blocks at random, and allocates as many of other sizes: how many.
    fn replace_quarter(&mut self, blocks: &mut Vec<u64>) -> usize {
        let count = blocks.len() / 4 / WARP * WARP;
        blocks.shuffle(&mut self.random);
        self.free(&blocks[..count]);
        let sizes = self.sizes(LEAST, MOST, count);
        blocks.splice(..count, self.allocate(&sizes));
        count
    }

    /// A launch in which each thread frees a block and allocates one of `bytes` bytes in its place.
    fn replace(&mut self, blocks: &mut [u64], bytes: u32) {
        let Self {
            host,
            random,
            misses,
        } = self;
        launch(blocks.len() / WARP, random, |warp| {
            let of_warp = &mut blocks[warp * WARP..(warp + 1) * WARP];
            free_warp(host.heap(), of_warp);
            malloc_warp(host.heap(), &[bytes; WARP], of_warp, misses);
        });
    }

    /// Sizes at random.
    fn sizes(&mut self, least: u32, most: u32, count: usize) -> Vec<u32> {
        let size = |_| self.random.random_range(least..=most);
        (0..count).map(size).collect()
    }
}

/// Allocates for the lanes of a warp, group by group, and counts what they miss.
fn malloc_warp(heap: &Heap, sizes: &[u32], blocks: &mut [u64], misses: &mut Misses) {
    let mut pending: Vec<usize> = (0..sizes.len()).collect();
    while let Some(leader) = pending.first() {
        let class = class_of(sizes[*leader]);
        let (group, others) = pending
            .iter()
            .partition::<Vec<usize>, _>(|lane| class_of(sizes[**lane]) == class);
        let of_group = malloc_group(heap, sizes[group[0]], group.len(), misses);
        for (lane, block) in group.into_iter().zip(of_group) {
            blocks[lane] = block;
        }
        pending = others;
    }
}

/// No block begins in another.
fn assert_apart(blocks: &[u64], sizes: &[u32]) {
    let mut sorted: Vec<_> = blocks
        .iter()
        .zip(sizes)
        .filter(|(at, _)| **at != 0)
        .collect();
    sorted.sort_unstable();
    for pair in sorted.windows(2) {
        assert!(*pair[0].0 + u64::from(*pair[0].1) <= *pair[1].0, "{pair:?}");
    }
}
