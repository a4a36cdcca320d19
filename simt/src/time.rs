//! Time: waiting without burning issue slots, and a clock to wait by.

/// Suspends the calling lane for about `nanoseconds` (PTX `nanosleep.u32`: between 0 and twice
/// that); on the CPU it yields the thread, under an explorer it yields to the scheduler.
#[inline(always)]
pub fn nanosleep(nanoseconds: u32) {
    crate::backend::nanosleep(nanoseconds);
}

/// Gives the turn to other lanes of the caller's warp that diverged from it, if there are any (PTX `nanosleep.u32 0`). Without it, or a longer nap,
/// or a wait for lanes, one that runs long may keep it: for a long search, or until it got what only those others can give. Under shuttle it yields to the
/// scheduler; on the CPU, and under loom, lanes need no turn.
#[inline(always)]
pub fn give_turn() {
    crate::backend::give_turn();
}

/// Ticks of a clock for short times, of which only differences within a thread mean anything. On a GPU it is PTX `%clock64`, the
/// multiprocessor's own; elsewhere it ticks nanoseconds, as [`now`].
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    crate::backend::ticks()
}

/// A clock in nanoseconds, the same for all threads of the device, of which only differences mean
/// anything. On a GPU it is PTX `%globaltimer`, which may step by a microsecond or more; under an explorer each
/// look at it takes a microsecond, and nothing else does.
#[inline(always)]
#[must_use]
pub fn now() -> u64 {
    crate::backend::now()
}
