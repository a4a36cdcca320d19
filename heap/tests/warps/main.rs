//! Emulated warps on small heaps under random schedules: divergence, contention, exhaustion.
//!
//! How many schedules each scenario has, and how a failure is repeated, is in [`exploration`].

#![cfg(shuttle)]

mod any_heap;
#[path = "../exploration/mod.rs"]
mod exploration;
mod ground;
#[path = "../host_heap/mod.rs"]
mod host_heap;
#[path = "../test_name/mod.rs"]
mod test_name;

use ground::{Block, Ground, in_calls, random};
use scatterheap_heap::class::class_of;
use scatterheap_heap::hardened::Hardening;
use scatterheap_heap::ticket::PACKED_SLOTS;
use scatterheap_simt::emulation::{run_warp, set_block, set_sm_id};
use scatterheap_simt::warp;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Explores a scenario, in half of the schedules with the functions that are called instead of `malloc` and `free`.
fn explore<S: Fn() + Send + Sync + 'static>(scenario: S) -> usize {
    exploration::explore(move || in_calls(random(2) == 0, &scenario))
}

/// Runs `body(warp, lane)` on several warps of `lanes` lanes, each on its multiprocessor.
fn run_warps(
    ground: &Arc<Ground>,
    warps: u32,
    lanes: u32,
    body: impl Fn(&Ground, u32, u32) + Send + Sync + 'static,
) {
    let body = Arc::new(body);
    let tasks: Vec<_> = (0..warps)
        .map(|index| {
            let (ground, body) = (ground.clone(), body.clone());
            shuttle::thread::spawn(move || {
                set_block(index);
                // Which block a multiprocessor runs is not known.
                set_sm_id(u32::try_from(random(warps.into())).expect("small"));
                run_warp(lanes, move |lane| body(&ground, index, lane));
            })
        })
        .collect();
    for task in tasks {
        task.join().expect("no panic");
    }
}

/// [`run_warps`], and then checks that everything is free.
fn on_warps(
    ground: &Arc<Ground>,
    warps: u32,
    lanes: u32,
    body: impl Fn(&Ground, u32, u32) + Send + Sync + 'static,
) {
    run_warps(ground, warps, lanes, body);
    ground.finish();
}

/// Any request, mostly of a few classes so that lanes meet.
fn request(ground: &Ground, bytes: u64) -> Option<Block> {
    match random(8) {
        0 => ground.calloc(bytes),
        1 => ground.aligned(bytes, 1 << random(8)),
        2 => ground.aligned(bytes, 2048),
        _ => ground.malloc(bytes),
    }
}

/// What a lane does by itself: requests of sizes that `size` gives, kept and freed in any order.
fn churn(ground: &Ground, rounds: u64, size: impl Fn() -> u64) {
    let mut blocks = Vec::new();
    for _ in 0..rounds {
        match random(4) {
            0 if !blocks.is_empty() => {
                let index = usize::try_from(random(blocks.len() as u64)).expect("small");
                ground.free(blocks.swap_remove(index));
            }
            1 if !blocks.is_empty() => {
                let block = blocks.pop().expect("some");
                blocks.push(ground.realloc(block, size()));
            }
            _ => blocks.extend(request(ground, size())),
        }
    }
    for block in blocks {
        ground.free(block);
    }
}

fn few_classes() -> u64 {
    [16, 24, 48, 100, 128, 128][usize::try_from(random(6)).expect("small")]
}

#[test]
fn a_diverging_warp() {
    explore(|| {
        let ground = Ground::new(16 << 10, 1);
        on_warps(&ground, 1, 32, |ground, _, lane| {
            if lane % 3 == 0 {
                churn(ground, 4, few_classes);
            } else if lane % 3 == 1 {
                churn(ground, 3, || random(400) + 1);
            }
        });
    });
}

#[test]
fn warps_of_all_lengths() {
    explore(|| {
        let ground = Ground::new(16 << 10 << random(5), 4);
        let (warps, lanes) = (1 + random(3), 2 + random(31) / (1 + random(3)));
        let [warps, lanes] = [warps, lanes].map(|number| u32::try_from(number).expect("small"));
        on_warps(&ground, warps, lanes, |ground, _, _| {
            churn(ground, 4, || random(600) + 1);
        });
    });
}

/// Fills most of the slots among which those of a class are packed, so that few are free, here and there: the blocks.
fn fill_packed(ground: &Ground, bytes: u32) -> Vec<Block> {
    let mut blocks = vec![ground.malloc(bytes.into()).expect("an empty heap")];
    ground.host.pack(class_of(bytes));
    blocks.extend((2..PACKED_SLOTS).filter_map(|_| ground.malloc(bytes.into())));
    for _ in 0..random(12) {
        let index = usize::try_from(random(blocks.len() as u64)).expect("small");
        ground.free(blocks.swap_remove(index));
    }
    blocks
}

/// Some lanes want packed slots, of which few are free, and the others wider ones. So a whole warp has two groups, often one of few lanes and one of more
/// than are packed, which take their row.
#[test]
fn slots_are_packed_while_warps_replace_blocks() {
    explore(|| {
        let ground = Ground::new(32 << 10, 1);
        let held = Mutex::new(fill_packed(&ground, 16));
        let warps = 1 + u32::try_from(random(2)).expect("small");
        let border = 1 + u32::try_from(random(31)).expect("small");
        on_warps(&ground, warps, 32, move |ground, warp, lane| {
            let bytes = if lane < border { 16 } else { 32 };
            let mut kept = Vec::new();
            for _ in 0..3 {
                // So that they often come together, all of them.
                warp::sync(u32::MAX);
                kept.extend(ground.malloc(bytes));
                if !kept.is_empty() && random(2) == 0 {
                    let index = usize::try_from(random(kept.len() as u64)).expect("small");
                    ground.free(kept.swap_remove(index));
                }
            }
            if (warp, lane) == (0, 0) {
                kept.append(&mut held.lock().expect("lock"));
            }
            for block in kept {
                ground.free(block);
            }
        });
    });
}

/// Two lanes replace blocks of a class: in some schedule who would rewind their slab finds that the other draws from it.
#[test]
fn who_rewinds_notes_that_others_draw() {
    static NOTED: AtomicBool = AtomicBool::new(false);
    /// Of so many schedules some come there.
    const MANY: usize = 2000;
    let schedules = explore(|| {
        let ground = Ground::new(32 << 10, 1);
        on_warps(&ground, 2, 1, |ground, _, _| {
            for _ in 0..6 {
                churn(ground, 3, || 16);
                if ground.host.stripe(class_of(16)).look().is_churned() {
                    NOTED.store(true, Relaxed);
                }
            }
        });
    });
    // One in a hundred schedules or so comes there: a failure that is repeated need not.
    assert!(NOTED.load(Relaxed) || schedules < MANY);
}

/// What a lane does with a block that grows and shrinks: within its slot, to other classes, to runs
/// of pages and back, and to more than there is.
fn resize(ground: &Ground, rounds: u64) {
    let sizes = [16, 40, 100, 128, 600, 1024, 3000, 6000, 64 << 10];
    let any = || sizes[usize::try_from(random(9)).expect("small")];
    let Some(mut block) = ground.malloc(any()) else {
        return;
    };
    for _ in 0..rounds {
        block = ground.realloc(block, any());
    }
    ground.free(block);
}

/// All lanes of a warp, or many of them, get blocks of zeroes where others left something, let them grow and shrink, and give them back: the lanes write them
/// for each other.
#[test]
fn lanes_write_in_each_others_blocks() {
    explore(|| {
        let ground = Ground::new(64 << 10, 1);
        let sizes = [1, 16, 17, 64, 100, 200][usize::try_from(random(6)).expect("small")];
        let absent = if random(2) == 0 { 32 } else { random(32) };
        on_warps(&ground, 1, 32, move |ground, _, lane| {
            for _ in 0..2 {
                // So that they often come together.
                warp::sync(u32::MAX);
                if u64::from(lane) == absent {
                    continue;
                }
                let block = ground.calloc(1 + random(sizes)).expect("there is memory");
                let block = ground.realloc(block, 1 + random(6 * sizes));
                ground.free(block);
            }
        });
    });
}

#[test]
fn diverging_lanes_of_several_warps_resize() {
    explore(|| {
        let ground = Ground::new(32 << 10, 2);
        let warps = 2 + u32::try_from(random(3)).expect("small");
        on_warps(&ground, warps, 8, |ground, warp, lane| {
            match (lane + warp) % 4 {
                0 | 1 => resize(ground, 3),
                2 => churn(ground, 3, few_classes),
                // Ends at once: the others go on without it.
                _ => {}
            }
        });
    });
}

#[test]
fn lanes_free_each_others_blocks() {
    explore(|| {
        let ground = Ground::new(32 << 10, 2);
        let exchange = Arc::new(Mutex::new([[None; 32]; 2]));
        on_warps(&ground, 2, 16, move |ground, warp, lane| {
            // Some lanes exit early; the others hand their blocks round.
            if lane % 5 == 4 {
                return;
            }
            let rest = (0..16)
                .filter(|lane| lane % 5 != 4)
                .fold(0, |mask, lane| mask | 1 << lane);
            for round in 1..3 {
                let bytes = if lane % 2 == 0 { 112 } else { few_classes() };
                let block = ground.malloc(bytes);
                exchange.lock().expect("lock")[warp as usize][lane as usize] = block;
                warp::sync(rest);
                let mut giver = (lane + round) % 16;
                while rest & 1 << giver == 0 {
                    giver = (giver + 1) % 16;
                }
                // Two lanes may name one giver: the first takes.
                let taken = exchange.lock().expect("lock")[warp as usize][giver as usize].take();
                if let Some(block) = taken {
                    ground.free(block);
                }
                warp::sync(rest);
                let left = exchange.lock().expect("lock")[warp as usize][lane as usize].take();
                if let Some(block) = left {
                    ground.free(block);
                }
            }
        });
    });
}

#[test]
fn every_slot_of_the_heap_is_found() {
    explore(|| {
        // 16 pages of 8 slots, for 4 times 32 lanes: NULL would be a lie.
        let ground = Ground::new(16 << 10, 4);
        let blocks = Arc::new(Mutex::new(Vec::new()));
        let kept = blocks.clone();
        let lanes: Vec<_> = (0..4)
            .map(|index| {
                let (ground, kept) = (ground.clone(), kept.clone());
                shuttle::thread::spawn(move || {
                    set_block(index);
                    run_warp(32, move |_| {
                        let block = ground.malloc(128).expect("a slot is left for each lane");
                        kept.lock().expect("lock").push(block);
                    });
                })
            })
            .collect();
        for task in lanes {
            task.join().expect("no panic");
        }
        assert!(ground.malloc(16).is_none());
        let blocks = std::mem::take(&mut *blocks.lock().expect("lock"));
        for block in blocks {
            ground.free(block);
        }
        ground.finish();
    });
}

#[test]
fn as_many_slots_as_lanes_are_enough_again_and_again() {
    explore(|| {
        // 14 of 16 pages are gone; 16 slots for 2 times 8 lanes.
        let ground = Ground::new(16 << 10, 2);
        let rest = ground.malloc(14 << 10).expect("14 of 16 pages");
        let tasks: Vec<_> = (0..2)
            .map(|index| {
                let ground = ground.clone();
                shuttle::thread::spawn(move || {
                    set_block(index);
                    run_warp(8, move |_| {
                        for _ in 0..3 {
                            let block = ground.malloc(128).expect("a slot is left for each lane");
                            ground.free(block);
                        }
                    });
                })
            })
            .collect();
        for task in tasks {
            task.join().expect("no panic");
        }
        ground.free(rest);
        ground.finish();
    });
}

#[test]
fn as_many_pages_as_lanes_are_enough_again_and_again() {
    explore(|| {
        let ground = Ground::new(16 << 10, 2);
        on_warps(&ground, 2, 8, |ground, _, lane| {
            for round in 0..3 {
                let bytes = if (lane + round) % 2 == 0 { 1024 } else { 500 };
                let block = ground.malloc(bytes).expect("a page is left for each lane");
                ground.free(block);
            }
        });
    });
}

#[test]
fn too_large_a_demand_ends_in_null() {
    explore(|| {
        let ground = Ground::new(16 << 10, 2);
        let served = Arc::new(Mutex::new(0));
        let counted = served.clone();
        let size = [128, 100, 1000, 5000, 16 << 10][usize::try_from(random(5)).expect("small")];
        on_warps(&ground, 2, 32, move |ground, _, _| {
            let blocks: Vec<_> = (0..4).map_while(|_| ground.malloc(size)).collect();
            *counted.lock().expect("lock") += blocks.len();
            for block in blocks {
                ground.free(block);
            }
        });
        assert!(*served.lock().expect("lock") > 0, "{size}");
    });
}

#[test]
fn idle_slabs_of_one_class_serve_another() {
    explore(|| {
        let ground = Ground::new(32 << 10, 2);
        on_warps(&ground, 3, 8, |ground, warp, _| {
            let mine = [64, 112, 128][warp as usize];
            for round in 0..2 {
                let block = ground.malloc(mine);
                if let Some(block) = block {
                    ground.free(block);
                }
                if round == 1 && warp == 1 {
                    let large = ground.malloc(2700);
                    if let Some(block) = large {
                        ground.free(block);
                    }
                }
            }
        });
    });
}

#[test]
fn two_classes_that_each_fill_the_heap() {
    explore(|| {
        let ground = Ground::new(16 << 10, 1);
        on_warps(&ground, 2, 32, |ground, warp, lane| {
            // Each class alone would fill the heap.
            let bytes = if warp == 0 { 128 } else { 96 };
            for _ in 0..=lane % 2 {
                let blocks: Vec<_> = (0..3).map_while(|_| ground.malloc(bytes)).collect();
                for block in blocks {
                    ground.free(block);
                }
            }
        });
    });
}

#[test]
fn runs_against_runs_and_slabs() {
    explore(|| {
        let ground = Ground::new(80 << 10, 2);
        on_warps(&ground, 3, 6, |ground, warp, lane| match (warp, lane % 3) {
            (0, _) => churn(ground, 4, || (1 + random(40)) << 10),
            (1, 0) => churn(ground, 3, || (1 + random(80)) << 10),
            (1, _) => churn(ground, 5, || 1500),
            _ => churn(ground, 5, || random(128) + 1),
        });
    });
}

#[test]
fn slabs_of_several_pages() {
    explore(|| {
        // Slabs of up to 4 pages; slots of up to 512 bytes.
        let ground = Ground::new(256 << 10, 4);
        let rest = (random(2) == 0).then(|| ground.malloc(230 << 10).expect("there is room"));
        let tasks: Vec<_> = (0..3)
            .map(|index| {
                let ground = ground.clone();
                shuttle::thread::spawn(move || {
                    set_block(index);
                    run_warp(10, move |_| churn(&ground, 5, || 300 + random(3) * 100));
                })
            })
            .collect();
        for task in tasks {
            task.join().expect("no panic");
        }
        if let Some(rest) = rest {
            ground.free(rest);
        }
        ground.finish();
    });
}

/// A slab of several pages keeps those alone in which blocks live, where lanes find no others.
#[test]
fn slabs_are_punched_while_lanes_churn() {
    explore(|| {
        let ground = Ground::new(256 << 10, 2);
        let mut left = Vec::new();
        for bytes in [128, 256, 512] {
            // Slabs of one, two and four pages. One block in twelve outlives the burst.
            let burst: Vec<_> = (0..48).map_while(|_| ground.malloc(bytes)).collect();
            for (number, block) in burst.into_iter().enumerate() {
                if number % 12 == 5 {
                    left.push(block);
                } else {
                    ground.free(block);
                }
            }
        }
        let rest = ground.malloc((180 + random(40)) << 10);
        let left = Arc::new(Mutex::new(left));
        let outlived = left.clone();
        let tasks: Vec<_> = (0..3)
            .map(|index| {
                let (ground, left) = (ground.clone(), left.clone());
                shuttle::thread::spawn(move || {
                    set_block(index);
                    run_warp(6, move |lane| {
                        let mut blocks = Vec::new();
                        for _ in 0..3 {
                            // Runs of pages, slots of slabs that may be punched, and what is left in these.
                            match random(4) {
                                0 => blocks.extend(ground.malloc(128 << random(3))),
                                1 if lane % 2 == 0 => {
                                    let block = left.lock().expect("lock").pop();
                                    block.into_iter().for_each(|block| ground.free(block));
                                }
                                _ => blocks.extend(ground.malloc(1024 << random(3))),
                            }
                        }
                        blocks.into_iter().for_each(|block| ground.free(block));
                    });
                })
            })
            .collect();
        for task in tasks {
            task.join().expect("no panic");
        }
        let left = core::mem::take(&mut *outlived.lock().expect("lock"));
        for block in left.into_iter().chain(rest) {
            ground.free(block);
        }
        ground.finish();
    });
}

#[test]
fn frees_of_one_block_by_many_lanes_are_one() {
    explore(|| {
        let ground = Ground::new(16 << 10, 2);
        for bytes in [128, 3000] {
            let block = ground.malloc(bytes).expect("room");
            ground.dismiss(block);
            let before = ground.misuses();
            on_warps(&ground, 2, 8, move |ground, _, _| {
                // SAFETY: the heap refuses all but one, and nobody allocates meanwhile.
                unsafe { ground.free_address(block.address) };
            });
            assert_eq!(
                ground.misuses() - before,
                15,
                "of 16 lanes one freed the block"
            );
        }
    });
}

/// A warp frees good blocks, one of them twice, one that is free already, a pointer into one, one into no heap, and NULL.
#[test]
fn each_misuse_in_a_warp_is_counted_once() {
    explore(|| {
        let ground = Ground::new(16 << 10, 1);
        let blocks: Vec<_> = (0..8).map(|_| ground.malloc(64).expect("room")).collect();
        ground.free(blocks[7]);
        let mut pointers: Vec<_> = blocks.iter().map(|block| block.address).collect();
        pointers.extend([blocks[3].address, blocks[7].address, blocks[5].address + 16]);
        pointers.extend([16, 0]);
        for block in &blocks[..7] {
            ground.dismiss(*block);
        }
        let lanes = u32::try_from(pointers.len()).expect("few");
        on_warps(&ground, 1, lanes, move |ground, _, lane| {
            // SAFETY: the heap refuses what is no block, and nobody allocates meanwhile.
            unsafe { ground.free_address(pointers[lane as usize]) };
        });
        assert_eq!(
            ground.misuses(),
            5,
            "a repetition, two of a free block, one inside a block, one outside of the heap"
        );
    });
}

/// Lanes that come through a handle from before a reset get nothing where a stripe is to be refilled for them, however many come together, and others what they want.
#[test]
fn stale_lanes_get_nothing_beside_good_ones() {
    explore(|| {
        let ground = Ground::new(16 << 10, 1);
        // SAFETY: nobody uses the heap, which has no block.
        let stale = unsafe { ground.host.reset() };
        on_warps(&ground, 1, 4, move |ground, _, lane| {
            if lane % 2 == 0 {
                // Each of a class of its own, so nothing is at hand.
                let bytes = 32 << lane;
                assert!(stale.malloc(bytes).is_null(), "{bytes} bytes");
            } else {
                let block = ground.malloc(256).expect("room");
                ground.free(block);
            }
        });
        assert_eq!(ground.misuses(), 2);
    });
}

/// Blocks go through the quarantine of a full heap: NULL is given only if nothing is in it, and each
/// block is freed once, though two lanes free it.
#[test]
fn a_quarantine_holds_back_and_gives_way() {
    explore(|| {
        let modes = Hardening::QUARANTINE | Hardening::RED_ZONES | Hardening::POISON;
        let ground = Ground::hardened(16 << 10, 2, modes);
        let before = ground.misuses();
        on_warps(&ground, 2, 4, |ground, _, _| {
            for _ in 0..2 {
                let bytes = [40, 90, 2000][usize::try_from(random(3)).expect("small")];
                if let Some(block) = ground.malloc(bytes) {
                    ground.free(block);
                }
            }
        });
        assert_eq!(
            ground.misuses(),
            before,
            "good lanes are accused of nothing"
        );
        let block = ground.malloc(100).expect("room");
        ground.dismiss(block);
        on_warps(&ground, 2, 4, move |ground, _, _| {
            // SAFETY: the heap refuses all but one, and nobody allocates meanwhile.
            unsafe { ground.free_address(block.address) };
        });
        assert_eq!(
            ground.misuses() - before,
            7,
            "of 8 lanes one freed the block"
        );
    });
}

#[test]
fn the_last_slots_serve_smaller_classes() {
    explore(|| {
        let ground = Ground::new(16 << 10, 2);
        let bytes = [48, 64, 96, 112, 128][usize::try_from(random(5)).expect("small")];
        let mut blocks: Vec<_> = std::iter::from_fn(|| ground.malloc(bytes)).collect();
        for _ in 0..6 {
            let index = usize::try_from(random(blocks.len() as u64)).expect("small");
            ground.free(blocks.swap_remove(index));
        }
        let kept = Arc::new(Mutex::new(blocks));
        let tasks: Vec<_> = (0..2)
            .map(|index| {
                let (ground, kept) = (ground.clone(), kept.clone());
                shuttle::thread::spawn(move || {
                    set_block(index);
                    run_warp(3, move |_| {
                        let block = ground.malloc(16).expect("a slot is left for each lane");
                        kept.lock().expect("lock").push(block);
                    });
                })
            })
            .collect();
        for task in tasks {
            task.join().expect("no panic");
        }
        let blocks = std::mem::take(&mut *kept.lock().expect("lock"));
        for block in blocks {
            ground.free(block);
        }
        ground.finish();
    });
}

#[test]
fn slots_are_found_though_others_want_too_much() {
    explore(|| {
        // One page is left, and is now an idle slab; some lanes want two pages of it.
        let ground = Ground::new(16 << 10, 2);
        let rest = ground.malloc(15 << 10).expect("15 of 16 pages");
        let tasks: Vec<_> = (0..3)
            .map(|index| {
                let ground = ground.clone();
                shuttle::thread::spawn(move || {
                    set_block(index);
                    run_warp(4, move |_| {
                        for _ in 0..3 {
                            if index == 2 {
                                assert!(ground.malloc(2000).is_none());
                            } else {
                                let block = ground.malloc(128);
                                ground.free(block.expect("a slot is left for each lane"));
                            }
                        }
                    });
                })
            })
            .collect();
        for task in tasks {
            task.join().expect("no panic");
        }
        ground.free(rest);
        ground.finish();
    });
}

#[test]
fn lanes_of_a_warp_use_two_heaps() {
    explore(|| {
        // Odd lanes use one heap, even lanes the other, in the same calls; and each tries the wrong one first.
        let grounds = [Ground::new(16 << 10, 1), Ground::new(16 << 10, 1)];
        let both = grounds.clone();
        run_warp(8, move |lane| {
            let [ground, other] = [lane, lane + 1].map(|lane| &both[lane as usize % 2]);
            for _ in 0..3 {
                let block = ground.malloc(64).expect("both heaps have room");
                // SAFETY: a heap refuses what is another's.
                unsafe { other.heap().free(block.address as *mut u8) };
                ground.free(block);
            }
        });
        for ground in grounds {
            assert_eq!(ground.misuses(), 4 * 3, "what was the other heap's");
            ground.finish();
        }
    });
}

/// A slot of 4 pages is asked for while five pages are free that no slab fits. Another frees a
/// slot, and only then takes these pages: at any time there was something.
#[test]
fn a_slot_freed_before_the_last_run_is_taken_is_found() {
    explore(|| {
        let page = 1024;
        let ground = Ground::new(2 << 20, 1);
        let (heap, base) = (ground.heap(), ground.heap().base());
        assert_eq!(u64::from(heap.layout().largest_slot), 4 * page);
        let take = |pages: u64| ground.malloc(pages * page).expect("pages are free");
        let place = |block: Block| (block.address - base) / page;
        let slots: Vec<_> = (0..8).map(|_| take(4)).collect();
        let (first, hole) = (take(33), take(33));
        let rest = take(2048 - 98);
        assert_eq!([first, hole, rest].map(place), [32, 65, 98]);
        ground.free(hole);
        let (hole, more) = (take(5), take(28));
        assert!(
            ground.malloc(4 * page).is_none(),
            "the stripe lets go of its slab"
        );
        // Five pages, of which no four are aligned.
        ground.free(hole);
        let (other, slot) = (ground.clone(), slots[3]);
        let other = shuttle::thread::spawn(move || {
            set_block(0);
            other.free(slot);
            other.malloc(5 * page)
        });
        let mine = ground
            .malloc(4 * page)
            .expect("there was a run, and then a slot");
        let run = other.join().expect("no panic");
        let kept = slots
            .into_iter()
            .filter(|block| block.address != slot.address);
        for block in kept.chain([first, rest, more, mine]).chain(run) {
            ground.free(block);
        }
        ground.finish();
    });
}

/// The crosser of a stripe holds a slab in which nothing is used, and is served by another.
#[test]
fn an_idle_slab_of_a_crosser_is_not_missed() {
    explore(|| {
        let ground = Ground::new(16 << 10, 1);
        let base = ground.heap().base();
        let slab = |ground: &Ground| -> Vec<_> {
            (0..8)
                .map(|_| ground.malloc(128).expect("a slot"))
                .collect()
        };
        let (mut listed, held) = (slab(&ground), slab(&ground));
        let rest = ground.malloc(14 << 10).expect("14 of 16 pages");
        ground.free(listed.remove(3));
        let crosser = ground.clone();
        let crosser = shuttle::thread::spawn(move || {
            set_block(0);
            crosser.malloc(128).expect("a slot is free")
        });
        for block in held {
            ground.free(block);
        }
        let page = ground.malloc(1024);
        let block = crosser.join().expect("no panic");
        let elsewhere = (block.address - base) / 1024 == (listed[0].address - base) / 1024;
        assert!(page.is_some() || !elsewhere, "nobody used the second page");
        for block in listed.into_iter().chain([rest, block]).chain(page) {
            ground.free(block);
        }
        ground.finish();
    });
}

/// Groups of any number of lanes draw rows that cross words: a page has 64 slots of 16 bytes.
#[test]
fn rows_cross_words() {
    explore(|| {
        let ground = Ground::new(16 << 10, 1);
        let lanes = 5 + u32::try_from(random(28)).expect("small");
        on_warps(&ground, 2, lanes, |ground, _, lane| {
            churn(ground, 4, || if lane % 3 == 0 { 32 } else { 16 });
        });
    });
}

/// Rows lie among blocks that outlive others: who lacks a slot of its group's row has another, whether these follow one another or not, and are in one place or two.
#[test]
fn rows_among_blocks_that_stay() {
    explore(|| {
        let ground = Ground::new(256 << 10, 1);
        // Until there is a slab of a few words.
        let mut kept: Vec<_> = (0..300).filter_map(|_| ground.malloc(16)).collect();
        kept.extend(ground.occupy(16));
        let border = 1 + u32::try_from(random(32)).expect("small");
        run_warps(&ground, 1, 32, move |ground, _, lane| {
            let bytes = if lane < border { 16 } else { 32 };
            let mut blocks = Vec::new();
            for _ in 0..2 {
                // So that they often come together, all of them.
                warp::sync(u32::MAX);
                blocks.extend(ground.malloc(bytes));
            }
            assert_eq!(blocks.len(), 2, "there is room");
            for block in blocks {
                ground.free(block);
            }
        });
        for block in kept {
            ground.free(block);
        }
        ground.finish();
    });
}

/// Each of so many lanes of two warps gets `each` blocks of 16 bytes, and frees them in any order.
fn two_warps_take(ground: &Arc<Ground>, lanes: u32, each: u64) {
    run_warps(ground, 2, lanes, move |ground, _, _| {
        let mut blocks: Vec<_> = (0..each).filter_map(|_| ground.malloc(16)).collect();
        assert_eq!(blocks.len() as u64, each, "there is room");
        while !blocks.is_empty() {
            let index = random(blocks.len() as u64);
            ground.free(blocks.swap_remove(usize::try_from(index).expect("small")));
        }
    });
}

/// Frees what was kept of a heap: then nothing is lost.
fn free_and_finish(ground: &Ground, kept: impl IntoIterator<Item = Block>) {
    for block in kept {
        ground.free(block);
    }
    ground.finish();
}

/// All of a slab is offered though a few blocks of it stay: whose units have no slot have the stripe leave these, while others draw and free.
#[test]
fn units_beyond_what_is_free() {
    explore(|| {
        let ground = Ground::new(16 << 10, 1);
        let left = || {
            let word = ground.host.stripe(class_of(16)).look();
            u64::from(word.units_left())
        };
        let mut blocks = vec![ground.malloc(16).expect("an empty heap")];
        while left() != 0 {
            blocks.push(ground.malloc(16).expect("a slot"));
        }
        let slots = blocks.len() as u64;
        let kept = [(); 2].map(|()| {
            let index = random(blocks.len() as u64);
            blocks.swap_remove(usize::try_from(index).expect("small"))
        });
        for block in blocks {
            ground.free(block);
        }
        assert_eq!(left(), slots, "all of it is offered");
        let lanes = 1 + u32::try_from(random(16)).expect("small");
        let each = (slots / 2).div_ceil(lanes.into());
        two_warps_take(&ground, lanes, each);
        free_and_finish(&ground, kept);
    });
}

/// A group that has too few slots, but some, comes again to the same slab.
#[test]
fn who_finds_some_slots_comes_again_to_the_same_slab() {
    /// In each word of the bitmap.
    const TAKEN: u32 = 20;
    explore(|| {
        let ground = Ground::new(256 << 10, 1);
        let stripe = ground.host.stripe(class_of(16));
        let mut kept = vec![ground.malloc(16).expect("an empty heap")];
        // Until there is a slab of a few words, of which one slot is in use, the highest.
        let (word, slots) = loop {
            let word = stripe.look();
            let slots = ground.heap().layout().slots(word.class(), word.order());
            if slots >= 128 && word.units_left() == slots - 1 {
                break (word, slots);
            }
            kept.push(ground.malloc(16).expect("a slot"));
        };
        let in_word = (0..slots - 1).filter(|slot| slot % 32 < TAKEN);
        let taken = u32::try_from(in_word.clone().count()).expect("few");
        let drawn = stripe.draw(taken);
        kept.extend(in_word.filter_map(|slot| ground.occupy_slot(drawn, slot, 16)));
        // A row of so many lanes has twelve of its own, and finds a few in another word.
        let blocks = Arc::new(Mutex::new(kept));
        let shared = blocks.clone();
        run_warps(&ground, 1, 24, move |ground, _, _| {
            let block = ground.malloc(16).expect("there is room");
            shared.lock().expect("lock").push(block);
        });
        assert!(stripe.look().is_of_slab_of(word));
        for block in blocks.lock().expect("lock").drain(..) {
            ground.free(block);
        }
        ground.finish();
    });
}

/// Nothing is free but a few slots of a slab that lie together: units that have none are left, while others draw and free.
#[test]
fn the_last_slots_lie_together() {
    explore(|| {
        let ground = Ground::new(16 << 10, 1);
        let mut blocks: Vec<_> = std::iter::from_fn(|| ground.malloc(16)).collect();
        blocks.sort_unstable_by_key(|block| block.address);
        let free = 4 + random(40);
        let first = usize::try_from(random(blocks.len() as u64 - free)).expect("small");
        let last = first + usize::try_from(free).expect("small");
        for block in blocks.drain(first..last) {
            ground.free(block);
        }
        let lanes = 1 + u32::try_from(random(8)).expect("small");
        let each = free / (2 * u64::from(lanes));
        two_warps_take(&ground, lanes, each);
        free_and_finish(&ground, blocks);
    });
}

/// Wherever runs of slots are free in a full heap, and however long they are, warps that draw together find them.
#[test]
fn what_is_free_is_found_wherever_it_lies() {
    explore(|| {
        let ground = Ground::new(16 << 10, 1);
        let mut blocks: Vec<_> = std::iter::from_fn(|| ground.malloc(16)).collect();
        blocks.sort_unstable_by_key(|block| block.address);
        let (gap, run) = (1 + random(40), 1 + random(40));
        let (mut freed, mut until_next, mut left_of_run) = (0, random(gap + 1), 0);
        blocks.retain(|block| {
            if left_of_run == 0 && until_next == 0 {
                (left_of_run, until_next) = (1 + random(run), 1 + random(gap));
            }
            let keep = left_of_run == 0;
            if keep {
                until_next -= 1;
            } else {
                left_of_run -= 1;
                freed += 1;
                ground.free(*block);
            }
            keep
        });
        let lanes = 1 + u32::try_from(random(16)).expect("small");
        // All of them, or a few.
        let each = (freed / (2 * u64::from(lanes))).min(1 + random(60));
        two_warps_take(&ground, lanes, each);
        free_and_finish(&ground, blocks);
    });
}

/// Lanes of one warp draw from an empty slab, from one with blocks, and with alignments of their own.
#[test]
fn rows_beside_spread_units() {
    explore(|| {
        let ground = Ground::new(16 << 10, 1);
        let pages = 3 + random(4);
        let mut blocks: Vec<_> = (0..pages * 64)
            .map(|_| ground.malloc(16).expect("a slot"))
            .collect();
        let share = 1 + random(8);
        let mut freed = Vec::new();
        blocks.retain(|block| {
            let keep = random(share) != 0;
            if !keep {
                freed.push(*block);
            }
            keep
        });
        for block in freed {
            ground.free(block);
        }
        let shared = ground.clone();
        let warps: Vec<_> = (0..2)
            .map(|_| {
                let ground = shared.clone();
                shuttle::thread::spawn(move || {
                    set_block(0);
                    run_warp(12, move |lane| match lane % 4 {
                        0 | 1 => churn(&ground, 4, || 16),
                        2 => ground
                            .aligned(64, 64)
                            .into_iter()
                            .for_each(|block| ground.free(block)),
                        _ => churn(&ground, 3, || 64),
                    });
                })
            })
            .collect();
        for warp in warps {
            warp.join().expect("no panic");
        }
        for block in blocks {
            ground.free(block);
        }
        ground.finish();
    });
}

/// Slots larger than a page, from slabs and from runs of the few pages that are left.
#[test]
fn large_slots_beside_runs() {
    explore(|| {
        let ground = Ground::new(1 << 20, 2);
        let mut kept = Vec::new();
        let mut left = 1024 - random(60);
        while left > 0 {
            let pages = (1 + random(200)).min(left);
            let Some(block) = ground.aligned(pages << 10, 2048) else {
                break;
            };
            kept.push(block);
            left -= pages;
        }
        let shared = ground.clone();
        let warps: Vec<_> = (0..2)
            .map(|index| {
                let ground = shared.clone();
                shuttle::thread::spawn(move || {
                    set_block(index);
                    run_warp(6, move |lane| {
                        churn(&ground, 5, || match (u64::from(lane) + random(2)) % 4 {
                            0 => 2048,
                            1 => 1200 + random(800),
                            2 => (1 + random(20)) << 10,
                            _ => 600,
                        });
                    });
                })
            })
            .collect();
        for warp in warps {
            warp.join().expect("no panic");
        }
        for block in kept {
            ground.free(block);
        }
        ground.finish();
    });
}
