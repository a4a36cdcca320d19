//! `uniform_new` and `mixed_new`: each pair of launches that is timed, as in `uniform` and `mixed`, is the first in a heap that was just made. There the launches of those tests find
//! slabs that earlier ones refilled; here there is none yet.

use super::blocks;
use crate::bench::Bench;
use crate::error::Result;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let bytes = bench.ground.plan.heap_bytes;
    // All blocks of the one before have been freed.
    blocks::run_after(bench, |allocator| {
        allocator.destroy();
        allocator.create(bytes)
    })
}
