//! Any heap, in which anything is asked for: what no other scenario thought of.
//!
//! The schedule's seed chooses how large the heap is, how many stripes it has and which modes, or how it grows; a few sizes, what was allocated and freed
//! before, how much of the rest is gone, and what each lane of a few warps does then. Few sizes, so that the same pages become slabs of the same
//! class again and again while others still hold what they knew of them.

use super::ground::{Block, Ground, random};
use super::{explore, run_warps};
use scatterheap_heap::hardened::Hardening;
use scatterheap_simt::time::nanosleep;
use std::sync::{Arc, Mutex};

/// Sizes of one heap.
const SIZES: usize = 3;

/// What all lanes of a scenario know.
struct Demand {
    /// Bytes that are asked for, mostly.
    sizes: [u64; SIZES],
    /// What outlived what came before, and what lanes leave to each other.
    pool: Mutex<Vec<Block>>,
}

impl Demand {
    /// Sizes of all kinds, in a heap of so many bytes: small slots, slots of which a slab has few, and pages.
    fn of(capacity: u64) -> Self {
        let most_pages = capacity >> 12;
        let size = || match random(8) {
            0..2 => 1 + random(128),
            2..5 => 128 << random(4),
            5 => 129 + random(2000),
            6 => 1024 * (1 + random(4)),
            _ => 1024 * (1 + random(most_pages)),
        };
        Self {
            sizes: [(); SIZES].map(|()| size()),
            pool: Mutex::new(Vec::new()),
        }
    }

    fn size(&self) -> u64 {
        self.sizes[below(SIZES)]
    }

    fn give(&self, blocks: impl IntoIterator<Item = Block>) {
        self.pool.lock().expect("lock").extend(blocks);
    }

    /// Any block of the pool, if it has one.
    fn take(&self) -> Option<Block> {
        let mut pool = self.pool.lock().expect("lock");
        let index = (!pool.is_empty()).then(|| below(pool.len()))?;
        Some(pool.swap_remove(index))
    }

    /// Fills the heap with some bursts, of which but a part lives on.
    fn age(&self, ground: &Ground) {
        for _ in 0..random(4) {
            let bytes = self.size();
            let length = usize::try_from(random(100)).expect("small");
            let burst = std::iter::from_fn(|| ground.malloc(bytes)).take(length);
            let burst: Vec<_> = burst.collect();
            // One in so many lives.
            let outlives = 1 + random(16);
            for block in burst {
                if random(outlives) == 0 {
                    self.give([block]);
                } else {
                    ground.free(block);
                }
            }
        }
    }

    /// Takes the largest runs of pages that there are, until there is none of so many bytes: where hardly anything is left lanes go all ways to find it.
    fn fill(&self, ground: &Ground, bytes: u64) {
        let mut wanted = ground.heap().capacity();
        while wanted >= bytes {
            match ground.malloc(wanted) {
                Some(run) => self.give([run]),
                None => wanted /= 2,
            }
        }
    }

    /// One thing that a lane does, which has some blocks.
    fn act(&self, ground: &Ground, blocks: &mut Vec<Block>) {
        let own = |blocks: &mut Vec<Block>| {
            let index = (!blocks.is_empty()).then(|| below(blocks.len()))?;
            Some(blocks.swap_remove(index))
        };
        match random(16) {
            0..7 => blocks.extend(ground.malloc(self.size())),
            7 => blocks.extend(ground.calloc(self.size())),
            8 => blocks.extend(ground.aligned(self.size(), 1 << random(12))),
            9 => {
                let resized = own(blocks).map(|block| ground.realloc(block, self.size()));
                blocks.extend(resized);
            }
            10 => self.give(own(blocks)),
            11..14 => own(blocks).into_iter().for_each(|block| ground.free(block)),
            _ => self.take().into_iter().for_each(|block| ground.free(block)),
        }
    }
}

fn below(end: usize) -> usize {
    usize::try_from(random(end as u64)).expect("small")
}

/// No mode, mostly, or any.
fn any_modes() -> Hardening {
    let modes = [
        Hardening::RED_ZONES,
        Hardening::POISON,
        Hardening::ZERO,
        Hardening::QUARANTINE,
    ];
    if random(4) != 0 {
        return Hardening::NONE;
    }
    let chosen = modes.into_iter().filter(|_| random(2) == 0);
    chosen.fold(Hardening::NONE, |all, mode| all | mode)
}

/// Lets a few warps do anything, and then frees what lives.
fn run_any(ground: &Arc<Ground>, demand: &Arc<Demand>) {
    let warps = 1 + u32::try_from(random(3)).expect("small");
    let lanes = 2 + u32::try_from(random(9)).expect("small");
    let (rounds, known) = (2 + random(5), demand.clone());
    let misuses = ground.misuses();
    run_warps(ground, warps, lanes, move |ground, _, _| {
        let mut blocks = Vec::new();
        (0..rounds).for_each(|_| known.act(ground, &mut blocks));
        blocks.into_iter().for_each(|block| ground.free(block));
    });
    assert_eq!(ground.misuses(), misuses, "nobody is accused");
    while let Some(block) = demand.take() {
        ground.free(block);
    }
}

/// Bytes of a heap. Smaller ones have hardly a slab of several pages.
fn any_capacity() -> u64 {
    16 << 10 << random(5).max(random(5))
}

fn any_stripes() -> u32 {
    1 + u32::try_from(random(4)).expect("small")
}

#[test]
fn anything_is_asked_of_any_heap() {
    explore(|| {
        let capacity = any_capacity();
        let ground = Ground::hardened(capacity, any_stripes(), any_modes());
        let demand = Arc::new(Demand::of(capacity));
        demand.age(&ground);
        if random(4) != 0 {
            demand.fill(&ground, 1024 << random(4));
        }
        run_any(&ground, &demand);
        ground.finish();
    });
}

/// A host that answers what a heap asks, sooner or later, as much as it asks or more, or refuses it; and says at last that this was all.
fn answer(ground: &Ground) {
    let most = ground.heap().layout().page_count;
    for _ in 0..random(30) {
        nanosleep(1000);
        let (mapped, wanted) = (ground.mapped(), ground.mailbox().request().min(most));
        if wanted <= mapped {
            continue;
        }
        match random(8) {
            0..4 => ground.map(wanted, false),
            4 => ground.map(wanted.max(any_page(most)), false),
            5 => ground.mailbox().refuse(mapped, wanted),
            _ => {}
        }
    }
    ground.map(ground.mapped(), true);
}

/// Any number of pages up to all.
fn any_page(most: u32) -> u32 {
    1 + u32::try_from(random(most.into())).expect("small")
}

#[test]
fn anything_is_asked_of_a_heap_that_grows() {
    explore(|| {
        let (capacity, low_water) = (any_capacity(), [0, 2, 4][below(3)]);
        let first = any_page(u32::try_from(capacity >> 10).expect("small"));
        let ground = Ground::growing(capacity, any_stripes(), first, 1 + random(200), low_water);
        let demand = Arc::new(Demand::of(capacity));
        let host = ground.clone();
        let host = shuttle::thread::spawn(move || answer(&host));
        run_any(&ground, &demand);
        host.join().expect("no panic");
        ground.map(ground.heap().layout().page_count, true);
        ground.finish();
    });
}
