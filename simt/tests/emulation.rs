//! The emulated warp against the PTX ISA: what each collective gives, to whom, and that lanes
//! which break its rules are caught.

#![cfg(shuttle)]

use scatterheap_simt::emulation::{run_warp, set_block, set_sm_id};
use scatterheap_simt::{thread, warp};
use shuttle::rand::Rng;
use std::sync::{Arc, Mutex};

const FULL: u32 = u32::MAX;
const SCHEDULES: usize = 200;

/// Explores `body(lane)` on a warp of `lanes` lanes, under random and under prioritised schedules.
fn explore(lanes: u32, body: impl Fn(u32) + Clone + Send + Sync + 'static) {
    let scenario = move || run_warp(lanes, body.clone());
    shuttle::check_random(scenario.clone(), SCHEDULES);
    shuttle::check_pct(scenario, SCHEDULES, 3);
}

fn random(bound: u32) -> u32 {
    shuttle::rand::thread_rng().gen_range(0..bound)
}

fn lanes_of(mask: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |lane| mask & 1 << lane != 0)
}

#[test]
fn lanes_know_their_place() {
    explore(32, |lane| {
        assert_eq!(warp::lane_id(), lane);
        assert_eq!(warp::lanes_below(), (1 << lane) - 1);
        assert_eq!(thread::thread_index(), lane);
    });
}

#[test]
fn lanes_have_the_multiprocessor_of_their_warp() {
    shuttle::check_random(
        || {
            let warps: Vec<_> = [3, 8]
                .map(|sm| {
                    shuttle::thread::spawn(move || {
                        set_block(sm + 5);
                        assert_eq!(thread::sm_id(), sm + 5);
                        set_sm_id(sm);
                        run_warp(4, move |_| {
                            assert_eq!((thread::sm_id(), thread::block_number()), (sm, sm + 5));
                        });
                    })
                })
                .into();
            for warp in warps {
                warp.join().expect("no panic");
            }
        },
        SCHEDULES,
    );
}

#[test]
fn ballot_gives_the_lanes_whose_predicate_is_true() {
    explore(32, |lane| {
        assert_eq!(warp::ballot(FULL, lane % 3 == 0), 0x4924_9249);
        assert_eq!(warp::ballot(FULL, false), 0);
        assert_eq!(warp::ballot(FULL, true), FULL);
    });
}

#[test]
fn match_any_gives_the_lanes_with_the_same_value() {
    explore(32, |lane| {
        let expected = 0x1111_1111 << (lane % 4);
        assert_eq!(warp::match_any(FULL, lane % 4), expected);
        assert_eq!(warp::match_any(FULL, lane), 1 << lane);
        assert_eq!(warp::match_any(FULL, 7), FULL);
    });
}

#[test]
fn shuffle_gives_the_value_of_the_lane_that_each_names() {
    explore(32, |lane| {
        let rotated = (lane + 5) % 32;
        assert_eq!(warp::shuffle(FULL, lane * 10, rotated), rotated * 10);
        assert_eq!(warp::shuffle(FULL, lane, 31), 31);
        let wide = u64::from(lane) << 40 | 1;
        assert_eq!(
            warp::shuffle_u64(FULL, wide, lane ^ 1) >> 40,
            u64::from(lane ^ 1)
        );
    });
}

#[test]
fn reductions_fold_all_lanes_modulo_the_word() {
    explore(32, |lane| {
        assert_eq!(warp::reduce_or(FULL, 1 << lane), FULL);
        assert_eq!(warp::reduce_or(FULL, lane & 4), 4);
        assert_eq!(warp::reduce_add(FULL, lane), 496);
        assert_eq!(warp::reduce_add(FULL, 1 << 31), 0);
    });
}

#[test]
fn disjoint_masks_do_not_wait_for_each_other() {
    explore(32, |lane| {
        let (mask, first) = if lane < 10 {
            (0x3ff, 0)
        } else {
            (FULL << 10, 10)
        };
        // The groups call different numbers of different collectives.
        if first == 0 {
            assert_eq!(warp::ballot(mask, true), mask);
        } else {
            assert_eq!(warp::shuffle(mask, lane, first), first);
            assert_eq!(
                warp::match_any(mask, lane / 16),
                if lane < 16 { 0xfc00 } else { FULL << 16 }
            );
        }
        assert_eq!(warp::reduce_add(mask, 1), mask.count_ones());
        warp::sync(FULL);
    });
}

#[test]
fn collectives_of_one_mask_follow_each_other() {
    explore(7, |lane| {
        for round in 0..6 {
            let source = (lane + round) % 7;
            assert_eq!(
                warp::shuffle(0x7f, lane << 8 | round, source),
                source << 8 | round,
                "no value of another round"
            );
        }
    });
}

#[test]
fn a_sync_waits_for_all_its_lanes() {
    shuttle::check_random(
        || {
            let came = Arc::new(Mutex::new(0_u32));
            run_warp(32, move |lane| {
                for _ in 0..random(5) {
                    shuttle::thread::yield_now();
                }
                *came.lock().expect("lock") |= 1 << lane;
                warp::sync(FULL);
                assert_eq!(*came.lock().expect("lock"), FULL);
            });
        },
        SCHEDULES,
    );
}

#[test]
fn active_masks_are_groups_that_agree() {
    shuttle::check_random(
        || {
            let groups = Arc::new(Mutex::new([0_u32; 32]));
            let seen = groups.clone();
            run_warp(32, move |lane| {
                let mask = warp::active_mask();
                assert!(mask & 1 << lane != 0, "the caller is in its group");
                // All of the group can meet, so they are converged.
                assert_eq!(warp::ballot(mask, true), mask);
                groups.lock().expect("lock")[lane as usize] = mask;
            });
            let groups = *seen.lock().expect("lock");
            for mask in groups {
                assert!(lanes_of(mask).all(|lane| groups[lane as usize] == mask));
            }
        },
        SCHEDULES,
    );
}

#[test]
fn active_masks_are_now_small_and_now_large() {
    let sizes = Arc::new(Mutex::new([0_u32; 33]));
    let counted = sizes.clone();
    shuttle::check_random(
        move || {
            let sizes = sizes.clone();
            run_warp(32, move |_| {
                let size = warp::active_mask().count_ones() as usize;
                sizes.lock().expect("lock")[size] += 1;
            });
        },
        SCHEDULES,
    );
    let sizes = *counted.lock().expect("lock");
    let between = |from: usize, to: usize| sizes[from..=to].iter().sum::<u32>();
    assert!(
        between(1, 1) > 0 && between(2, 16) > 0 && between(17, 31) > 0 && between(32, 32) > 0,
        "{sizes:?}"
    );
}

#[test]
fn lanes_on_different_paths_are_in_different_groups() {
    explore(32, |lane| {
        let even = FULL / 3;
        if lane % 2 == 0 {
            let mask = warp::active_mask();
            assert_eq!(mask & !even, 0);
            assert_eq!(warp::reduce_or(mask, 1 << lane), mask);
        } else {
            let mask = warp::active_mask();
            assert_eq!(mask & even, 0);
            warp::sync(mask);
        }
    });
}

#[test]
fn lanes_that_ended_are_in_no_group() {
    explore(32, |lane| {
        if lane % 4 == 1 {
            return;
        }
        let rest = !((FULL / 15) << 1);
        for _ in 0..3 {
            let mask = warp::active_mask();
            assert_eq!(mask & !rest, 0);
            assert_eq!(warp::match_any(mask, 1), mask);
        }
        warp::sync(rest);
    });
}

#[test]
fn a_short_warp_has_no_lanes_beyond_its_own() {
    for lanes in [2, 31] {
        explore(lanes, move |lane| {
            let all = FULL >> (32 - lanes);
            assert_eq!(warp::active_mask() & !all, 0);
            assert_eq!(warp::reduce_add(all, lane), lanes * (lanes - 1) / 2);
        });
    }
}

#[test]
fn outside_a_warp_a_task_is_a_warp_of_one_lane() {
    shuttle::check_random(
        || {
            let mask = warp::active_mask();
            assert_eq!((mask, warp::lane_id(), warp::lanes_below()), (1, 0, 0));
            assert_eq!(warp::ballot(mask, true), 1);
            assert_eq!(warp::match_any(mask, 9), 1);
            assert_eq!(warp::shuffle(mask, 9, 0), 9);
            assert_eq!(warp::reduce_add(mask, 9), 9);
        },
        1,
    );
}

#[test]
#[should_panic(expected = "calls Ballot of mask 0xfe")]
fn a_caller_outside_its_mask_is_caught() {
    shuttle::check_random(
        || {
            run_warp(8, |_| {
                let _ = warp::ballot(0xfe, true);
            });
        },
        10,
    );
}

#[test]
#[should_panic(expected = "outside mask")]
fn a_shuffle_from_outside_the_mask_is_caught() {
    shuttle::check_random(
        || {
            run_warp(8, |lane| {
                if lane < 4 {
                    let _ = warp::shuffle(0xf, lane, 5);
                }
            });
        },
        10,
    );
}

#[test]
#[should_panic(expected = "of its mask 0xff call")]
fn different_collectives_of_one_mask_are_caught() {
    shuttle::check_random(
        || {
            run_warp(8, |lane| {
                if lane == 3 {
                    warp::sync(0xff);
                } else {
                    let _ = warp::ballot(0xff, true);
                }
            });
        },
        10,
    );
}

#[test]
#[should_panic(expected = "ended")]
fn a_mask_with_a_lane_that_ended_is_caught() {
    shuttle::check_random(
        || {
            run_warp(8, |lane| {
                if lane != 3 {
                    warp::sync(0xff);
                }
            });
        },
        10,
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn lanes_that_wait_for_each_other_in_different_masks_are_caught() {
    shuttle::check_random(
        || {
            run_warp(3, |lane| {
                warp::sync(1 << lane | 1 << ((lane + 1) % 3));
            });
        },
        10,
    );
}
