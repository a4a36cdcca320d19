//! The cases, and what each promises.

use crate::suite::table::Subject;
use crate::suite::{blocks, capacity, order, shadow, threads};
use scatterheap_host::Device;

/// What every resource must pass.
pub struct Case {
    pub name: &'static str,
    /// Panics if the promise is broken.
    pub check: fn(&Subject, &Device),
}

macro_rules! cases {
    ($($file:ident::$check:ident),* $(,)?) => {
        &[$(Case { name: stringify!($check), check: $file::$check }),*]
    };
}

pub const CASES: &[Case] = cases![
    blocks::basic,
    blocks::alignment,
    blocks::requests_that_make_no_sense,
    blocks::blocks_that_are_not_there_to_be_freed,
    capacity::growth_exhaustion_and_recovery,
    capacity::trimmed_and_dropped_resources_give_their_memory_back,
    order::memory_is_not_given_back_under_work_that_runs,
    order::a_block_is_not_used_again_before_the_work_on_it_is_done,
    order::more_streams_than_a_resource_tells_apart,
    threads::many_threads,
    shadow::random_sequences_against_a_shadow,
];
