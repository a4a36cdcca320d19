//! The lanes of a warp, and what they do together.
//!
//! Every collective takes the mask of its lanes. All lanes of the mask must call it, with the
//! same mask; the caller must be in the mask. Nothing checks that on a GPU: if it does not hold, lanes wait for ever or
//! get what is undefined. Only [`sync`] orders memory between lanes: the
//! PTX ISA promises nothing of the kind for `shfl`, `vote`, `match` and `redux`.

use crate::backend;

/// Lanes of a warp at most.
pub const LANES: u32 = 32;

/// Index of the calling lane in its warp, 0 to 31.
#[inline(always)]
#[must_use]
pub fn lane_id() -> u32 {
    backend::warp::lane_id()
}

/// Mask of the lanes below the calling one (PTX `%lanemask_lt`).
#[inline(always)]
#[must_use]
pub fn lanes_below() -> u32 {
    backend::warp::lanes_below()
}

/// The lowest lane of a mask that is not empty.
#[inline(always)]
#[must_use]
#[allow(
    clippy::manual_ilog2,
    reason = "ilog2 would bring a panic into every malloc"
)]
pub fn lowest(mask: u32) -> u32 {
    // Not `trailing_zeros`, which on a GPU reverses the bits and tests for zero.
    31 - (mask & mask.wrapping_neg()).leading_zeros()
}

/// The same value, but the compiler does not see that it is: it cannot compute with what it knows of the one where the other is used.
#[inline(always)]
#[must_use]
pub fn opaque(value: u32) -> u32 {
    backend::warp::opaque(value)
}

/// Some set of lanes that are converged with the caller, the caller among them: a mask for collectives.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn active_mask() -> u32 {
    own_mask(raw_active_mask())
}

/// [`active_mask`] before [`own_mask`]: to be compared at once, not for collectives.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn raw_active_mask() -> u32 {
    backend::warp::raw_active_mask()
}

/// The same mask, in which the caller must be, for collectives of some lanes of a warp.
///
/// ptxas takes what `activemask` gives for the same in all lanes that execute an instruction together, and asks one of them whether all of its mask are
/// there. But where lanes diverged, and call the same function again and again, those of one mask come together with those of another: then
/// some go on without their mates, who wait for ever (seen on an H100, driver 580.159). Of a mask that depends on the lane it knows that it may
/// differ, and asks each.
#[inline(always)]
#[must_use]
pub fn own_mask(mask: u32) -> u32 {
    backend::warp::own_mask(mask)
}

/// Waits for all lanes of `mask`, and makes what each wrote before visible to the others after.
#[inline(always)]
pub fn sync(mask: u32) {
    backend::warp::sync(mask);
}

/// The lanes of `mask` whose `predicate` is true.
#[inline(always)]
#[must_use]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    backend::warp::ballot(mask, predicate)
}

/// The lanes of `mask` whose `value` equals the caller's.
#[inline(always)]
#[must_use]
pub fn match_any(mask: u32, value: u32) -> u32 {
    backend::warp::match_any(mask, value)
}

/// [`match_any`] of 64 bits.
#[inline(always)]
#[must_use]
pub fn match_any_u64(mask: u32, value: u64) -> u32 {
    backend::warp::match_any_u64(mask, value)
}

/// The `value` of lane `source`, which must be in `mask`; lanes may name different sources.
#[inline(always)]
#[must_use]
pub fn shuffle(mask: u32, value: u32, source: u32) -> u32 {
    backend::warp::shuffle(mask, value, source)
}

/// [`shuffle`] of 64 bits (two shuffles on PTX).
#[inline(always)]
#[must_use]
pub fn shuffle_u64(mask: u32, value: u64, source: u32) -> u64 {
    backend::warp::shuffle_u64(mask, value, source)
}

/// Bitwise or of `value` over the lanes of `mask`, which must be the same mask for all of them.
/// One `redux.sync` from `sm_80` on; before, a loop with a shuffle for each lane of the mask.
#[inline(always)]
#[must_use]
pub fn reduce_or(mask: u32, value: u32) -> u32 {
    backend::warp::reduce_or(mask, value)
}

/// Sum of `value` over the lanes of `mask`, modulo 2^32. It costs what [`reduce_or`] does.
#[inline(always)]
#[must_use]
pub fn reduce_add(mask: u32, value: u32) -> u32 {
    backend::warp::reduce_add(mask, value)
}
