//! Naps between two attempts, which grow.
//!
//! The lanes of a warp that diverged take turns, and a turn is no slice of time: who has it goes on until it naps, yields where the compiler
//! put that, or waits for lanes. Measured on an H200 (`docs/experiments.md`, "Who waits keeps the turn"), a lane that others wait for gets one turn for several
//! of theirs, and needs one for each of its own naps and yields. So who waits looks and naps, and does not search: the other would pay several
//! searches for each turn. And where a search is all there is to do, the naps grow: while all that wait sleep, the other has all turns.

use simt::time;

/// How often naps double. So 2^24 of them, after which a request gives up ([`crate::ATTEMPTS_LOG2`]), take minutes, not hours.
const DOUBLINGS: u32 = 8;

/// A nap after `vain` attempts in vain, of `first` nanoseconds after none, and then each time twice as long, up to 256 times.
#[inline(always)]
pub(crate) fn nap(first: u32, vain: u32) {
    time::nanosleep(first << vain.min(DOUBLINGS));
}
