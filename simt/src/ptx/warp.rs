//! Warp collectives as inline PTX. None is `pure`: they must neither move nor be merged.

use core::arch::asm;

#[inline(always)]
pub fn lane_id() -> u32 {
    let lane: u32;
    // SAFETY: reads a special register that is constant for the thread.
    unsafe { asm!("mov.u32 {0}, %laneid;", out(reg32) lane, options(pure, nomem, nostack)) };
    lane
}

#[inline(always)]
pub fn lanes_below() -> u32 {
    let mask: u32;
    // SAFETY: reads a special register that is constant for the thread.
    unsafe { asm!("mov.u32 {0}, %lanemask_lt;", out(reg32) mask, options(pure, nomem, nostack)) };
    mask
}

#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    let same: u32;
    // SAFETY: copies a register.
    unsafe { asm!("mov.b32 {0}, {1};", out(reg32) same, in(reg32) value, options(nomem, nostack)) };
    same
}

#[inline(always)]
pub fn raw_active_mask() -> u32 {
    let mask: u32;
    // SAFETY: reads the set of converged lanes.
    unsafe { asm!("activemask.b32 {0};", out(reg32) mask, options(nostack)) };
    mask
}

#[inline(always)]
pub fn own_mask(mask: u32) -> u32 {
    let own: u32;
    // SAFETY: reads a special register that is constant for the thread. Assembly, and not `pure`: no compiler is to see that it changes nothing.
    unsafe {
        asm!(
            "{{ .reg .b32 lane; mov.u32 lane, %lanemask_eq; or.b32 {own}, {mask}, lane; }}",
            own = out(reg32) own,
            mask = in(reg32) mask,
            options(nostack)
        );
    }
    own
}

#[inline(always)]
pub fn sync(mask: u32) {
    // SAFETY: the caller is in the mask, as are all lanes that call with it.
    unsafe { asm!("bar.warp.sync {0};", in(reg32) mask, options(nostack)) };
}

#[inline(always)]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    let lanes: u32;
    // SAFETY: as for `sync`.
    unsafe {
        asm!(
            "{{ .reg .pred p; setp.ne.u32 p, {predicate}, 0; vote.sync.ballot.b32 {lanes}, p, {mask}; }}",
            lanes = out(reg32) lanes,
            predicate = in(reg32) u32::from(predicate),
            mask = in(reg32) mask,
            options(nostack)
        );
    }
    lanes
}

#[inline(always)]
pub fn match_any(mask: u32, value: u32) -> u32 {
    let lanes: u32;
    // SAFETY: as for `sync`.
    unsafe {
        asm!(
            "match.any.sync.b32 {0}, {1}, {2};",
            out(reg32) lanes, in(reg32) value, in(reg32) mask,
            options(nostack)
        );
    }
    lanes
}

#[inline(always)]
pub fn match_any_u64(mask: u32, value: u64) -> u32 {
    let lanes: u32;
    // SAFETY: as for `sync`.
    unsafe {
        asm!(
            "match.any.sync.b64 {0}, {1}, {2};",
            out(reg32) lanes, in(reg64) value, in(reg32) mask,
            options(nostack)
        );
    }
    lanes
}

#[inline(always)]
pub fn shuffle(mask: u32, value: u32, source: u32) -> u32 {
    let result: u32;
    // SAFETY: as for `sync`; `source` is in the mask.
    unsafe {
        asm!(
            "shfl.sync.idx.b32 {0}, {1}, {2}, 31, {3};",
            out(reg32) result, in(reg32) value, in(reg32) source, in(reg32) mask,
            options(nostack)
        );
    }
    result
}

#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "splits a value into halves"
)]
pub fn shuffle_u64(mask: u32, value: u64, source: u32) -> u64 {
    let low = shuffle(mask, value as u32, source);
    let high = shuffle(mask, (value >> 32) as u32, source);
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub fn reduce_or(mask: u32, value: u32) -> u32 {
    let result: u32;
    // SAFETY: as for `sync`.
    unsafe {
        asm!(
            "redux.sync.or.b32 {0}, {1}, {2};",
            out(reg32) result, in(reg32) value, in(reg32) mask,
            options(nostack)
        );
    }
    result
}

#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub fn reduce_add(mask: u32, value: u32) -> u32 {
    let result: u32;
    // SAFETY: as for `sync`.
    unsafe {
        asm!(
            "redux.sync.add.u32 {0}, {1}, {2};",
            out(reg32) result, in(reg32) value, in(reg32) mask,
            options(nostack)
        );
    }
    result
}

/// Folds the lanes of `mask` in ascending order; every lane gets the result.
#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
fn fold(mask: u32, value: u32, combine: impl Fn(u32, u32) -> u32) -> u32 {
    let mut rest = mask;
    let mut result = 0;
    while rest != 0 {
        result = combine(result, shuffle(mask, value, rest.trailing_zeros()));
        rest &= rest - 1;
    }
    result
}

#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
pub fn reduce_or(mask: u32, value: u32) -> u32 {
    fold(mask, value, |left, right| left | right)
}

#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
pub fn reduce_add(mask: u32, value: u32) -> u32 {
    fold(mask, value, u32::wrapping_add)
}
