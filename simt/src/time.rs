//! Waiting without burning issue slots.

/// Suspends the calling lane for about `nanoseconds` (PTX `nanosleep.u32`: between 0 and twice
/// that); on the CPU it yields the thread, under an explorer it yields to the scheduler.
#[inline(always)]
pub fn nanosleep(nanoseconds: u32) {
    crate::backend::nanosleep(nanoseconds);
}
