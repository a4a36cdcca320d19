//! A warp of one lane: masks are 1, and collectives give back what they were given.

#[inline(always)]
pub fn lane_id() -> u32 {
    0
}

#[inline(always)]
pub fn lanes_below() -> u32 {
    0
}

#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    value
}

#[inline(always)]
pub fn raw_active_mask() -> u32 {
    1
}

#[inline(always)]
pub fn own_mask(mask: u32) -> u32 {
    mask
}

#[inline(always)]
pub fn sync(_mask: u32) {}

#[inline(always)]
pub fn ballot(_mask: u32, predicate: bool) -> u32 {
    u32::from(predicate)
}

#[inline(always)]
pub fn match_any(_mask: u32, _value: u32) -> u32 {
    1
}

#[inline(always)]
pub fn match_any_u64(_mask: u32, _value: u64) -> u32 {
    1
}

#[inline(always)]
pub fn shuffle(_mask: u32, value: u32, _source: u32) -> u32 {
    value
}

#[inline(always)]
pub fn shuffle_u64(_mask: u32, value: u64, _source: u32) -> u64 {
    value
}

#[inline(always)]
pub fn reduce_or(_mask: u32, value: u32) -> u32 {
    value
}

#[inline(always)]
pub fn reduce_add(_mask: u32, value: u32) -> u32 {
    value
}
