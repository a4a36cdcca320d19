//! The cases, and what each promises.

use crate::suite::table::Subject;
use crate::suite::{blocks, capacity, order, shadow, threads};
use scatterheap_host::Device;

/// What every resource must pass.
pub struct Case {
    pub name: &'static str,
    /// Its column in the matrix.
    pub column: &'static str,
    pub promise: &'static str,
    /// Panics if the promise is broken.
    pub check: fn(&Subject, &Device),
}

macro_rules! cases {
    ($($column:literal: $file:ident::$check:ident, $promise:literal;)*) => {
        &[$(Case {
            name: stringify!($check),
            column: $column,
            promise: $promise,
            check: $file::$check,
        }),*]
    };
}

pub const CASES: &[Case] = cases![
    "basic": blocks::basic,
        "blocks of 1 byte up to the largest are apart, keep what is written there, and are counted";
    "aligned": blocks::alignment,
        "every power of two up to the resource's largest is kept as an alignment, and 256 always";
    "refused": blocks::requests_that_make_no_sense,
        "no bytes, a bad alignment, sizes beyond any memory, another device's stream: an error, and nothing is taken";
    "misuse": blocks::blocks_that_are_not_there_to_be_freed,
        "a wrong size or alignment, a foreign or inner pointer, another device's stream, a double free: an error, and the block is as it was";
    "room": capacity::growth_exhaustion_and_recovery,
        "memory can be used up, is all there again afterwards, and then serves another size";
    "returned": capacity::trimmed_and_dropped_resources_give_their_memory_back,
        "`trim` leaves blocks as they are, and a dropped resource leaves nothing with its upstream";
    "running": order::memory_is_not_given_back_under_work_that_runs,
        "what is freed, trimmed or dropped is not taken from under a kernel that uses it";
    "order": order::a_block_is_not_used_again_before_the_work_on_it_is_done,
        "what one stream frees is used by another only after the first one's work";
    "streams": order::more_streams_than_a_resource_tells_apart,
        "80 streams, which free each other's blocks";
    "threads": threads::many_threads,
        "8 threads with 3 streams, which free each other's blocks: contents and counts are right";
    "random": shadow::random_sequences_against_a_shadow,
        "24 random sequences of calls, misuse among them, agree with a list of what is handed out";
];
