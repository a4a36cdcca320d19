//! How many of a run's schedules each scenario has: more of those that are quick, by the root of the time
//! that a schedule was seen to take, so that a run is not spent on the slowest and all have many.

/// Shares of scenarios by their tests' names.
const SHARES: [(&str, u64); 25] = [
    ("an_idle_slab_of_a_crosser_is_not_missed", 199),
    ("anything_is_asked_of_any_heap", 150),
    ("anything_is_asked_of_a_heap_that_grows", 100),
    ("each_misuse_in_a_warp_is_counted_once", 117),
    ("as_many_pages_as_lanes_are_enough_again_and_again", 87),
    ("frees_of_one_block_by_many_lanes_are_one", 85),
    ("lanes_of_a_warp_use_two_heaps", 74),
    ("a_quarantine_holds_back_and_gives_way", 72),
    ("slots_are_found_though_others_want_too_much", 64),
    ("the_last_slots_serve_smaller_classes", 62),
    ("diverging_lanes_of_several_warps_resize", 50),
    ("runs_against_runs_and_slabs", 50),
    ("as_many_slots_as_lanes_are_enough_again_and_again", 47),
    ("a_diverging_warp", 46),
    ("idle_slabs_of_one_class_serve_another", 46),
    ("warps_of_all_lengths", 44),
    ("lanes_free_each_others_blocks", 39),
    ("rows_beside_spread_units", 38),
    ("a_slot_freed_before_the_last_run_is_taken_is_found", 31),
    ("rows_cross_words", 31),
    ("slabs_of_several_pages", 28),
    ("large_slots_beside_runs", 27),
    ("every_slot_of_the_heap_is_found", 21),
    ("too_large_a_demand_ends_in_null", 19),
    ("two_classes_that_each_fill_the_heap", 14),
];

/// The share of a scenario that is not in the table.
const USUAL: u64 = 50;

/// A scenario's part of `all` schedules, rounded up. Those in the table have at least `all` together.
pub fn of(scenario: &str, all: u64) -> u64 {
    let known = SHARES.iter().find(|(known, _)| *known == scenario);
    let share = known.map_or(USUAL, |(_, share)| *share);
    let whole: u64 = SHARES.iter().map(|(_, share)| *share).sum();
    (all * share).div_ceil(whole)
}
