//! Lanes that came together, as far as the compiler can make use of what they are: collectives
//! with a constant mask cost a third of those with any mask, and one lane alone needs none.
//!
//! Code that is generic over [`Lanes`] is compiled for each kind, and
//! [`with_active_lanes!`](crate::with_active_lanes) chooses when it runs. The rules of
//! [`crate::warp`] hold.

use crate::warp;

/// Lanes that came together; their collectives are those of [`crate::warp`] with their mask.
pub trait Lanes: Copy {
    /// Whether they are a whole warp.
    const ARE_WHOLE_WARP: bool = false;

    /// The lanes.
    fn mask(self) -> u32;

    /// Whether `group`, some of the lanes, are a whole warp. Only [`Whole`] can tell.
    #[inline(always)]
    fn is_whole_warp(self, _group: u32) -> bool {
        false
    }

    /// How many lanes of a group come before the calling one, which is one of them.
    #[inline(always)]
    fn rank_in(self, group: u32) -> u32 {
        (group & warp::lanes_below()).count_ones()
    }

    /// Whether the calling lane is the first of its group.
    #[inline(always)]
    fn leads(self, group: u32) -> bool {
        group & warp::lanes_below() == 0
    }

    /// How many lanes a group has that the calling one is in.
    #[inline(always)]
    fn count_of(self, group: u32) -> u32 {
        group.count_ones()
    }

    /// See [`warp::match_any_u64`].
    #[inline(always)]
    fn match_any_u64(self, value: u64) -> u32 {
        warp::match_any_u64(self.mask(), value)
    }

    /// See [`warp::shuffle`].
    #[inline(always)]
    fn shuffle(self, value: u32, source: u32) -> u32 {
        warp::shuffle(self.mask(), value, source)
    }

    /// See [`warp::shuffle_u64`].
    #[inline(always)]
    fn shuffle_u64(self, value: u64, source: u32) -> u64 {
        warp::shuffle_u64(self.mask(), value, source)
    }

    /// See [`warp::ballot`].
    #[inline(always)]
    fn ballot(self, predicate: bool) -> u32 {
        warp::ballot(self.mask(), predicate)
    }

    /// See [`warp::reduce_or`].
    #[inline(always)]
    fn reduce_or(self, value: u32) -> u32 {
        warp::reduce_or(self.mask(), value)
    }

    /// See [`warp::sync`].
    #[inline(always)]
    fn sync(self) {
        warp::sync(self.mask());
    }
}

/// All 32 lanes of a warp.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

impl Lanes for Whole {
    const ARE_WHOLE_WARP: bool = true;

    #[inline(always)]
    fn mask(self) -> u32 {
        u32::MAX
    }

    #[inline(always)]
    fn is_whole_warp(self, group: u32) -> bool {
        group == u32::MAX
    }
}

/// The lanes of a mask, which must be the caller's [own](warp::own_mask).
#[derive(Clone, Copy, Debug)]
pub struct Part(pub u32);

impl Lanes for Part {
    #[inline(always)]
    fn mask(self) -> u32 {
        self.0
    }
}

/// The one lane of a mask, which is the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Single(pub u32);

impl Lanes for Single {
    #[inline(always)]
    fn mask(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn rank_in(self, _group: u32) -> u32 {
        0
    }

    #[inline(always)]
    fn leads(self, _group: u32) -> bool {
        true
    }

    #[inline(always)]
    fn count_of(self, _group: u32) -> u32 {
        1
    }

    #[inline(always)]
    fn match_any_u64(self, _value: u64) -> u32 {
        self.0
    }

    #[inline(always)]
    fn shuffle(self, value: u32, _source: u32) -> u32 {
        value
    }

    #[inline(always)]
    fn shuffle_u64(self, value: u64, _source: u32) -> u64 {
        value
    }

    #[inline(always)]
    fn ballot(self, predicate: bool) -> u32 {
        if predicate { self.0 } else { 0 }
    }

    #[inline(always)]
    fn reduce_or(self, value: u32) -> u32 {
        value
    }

    #[inline(always)]
    fn sync(self) {}
}

/// Evaluates an expression with a variable that is the active lanes: a [`Whole`](crate::lanes::Whole),
/// [`Single`](crate::lanes::Single) or [`Part`](crate::lanes::Part) of a warp.
#[macro_export]
macro_rules! with_active_lanes {
    ($lanes:ident => $expression:expr) => {{
        let active = $crate::warp::raw_active_mask();
        if active == u32::MAX {
            let $lanes = $crate::lanes::Whole;
            $expression
        } else {
            let active = $crate::warp::own_mask(active);
            if active & active.wrapping_sub(1) == 0 {
                let $lanes = $crate::lanes::Single(active);
                $expression
            } else {
                let $lanes = $crate::lanes::Part(active);
                $expression
            }
        }
    }};
}
