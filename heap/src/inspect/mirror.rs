//! The heap's changing structures as plain old data.
//!
//! On the device these are atomics, which cannot be copied from bytes. Each struct here has the
//! size and the field order of the one it mirrors.

use crate::counters::{ClassCounters, FAILURES};
use crate::doubts::Doubts;
use crate::entry::PageEntry;
use crate::heap::{Globals, Shared};
use crate::misuse::{KEPT_ADDRESSES, MISUSES};
use crate::page_set::SetState;
use crate::slab::SlabState;
use crate::stripe::Stripe;
use bytemuck::{Pod, Zeroable};
use core::mem::offset_of;

/// Mirrors [`Globals`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct GlobalWords {
    pub installed: u32,
    pub admitted: u32,
    wanted: u32,
    pub lease: u32,
    limit: u32,
    shared_padding: [u32; 27],
    pub misuses: [u64; MISUSES],
    pub misused: [[u64; KEPT_ADDRESSES]; MISUSES],
    /// Blocks put in, exchanges begun, exchanges done.
    pub quarantine: [u64; 3],
    padding: [u64; GLOBAL_PADDING],
    /// Cache lines.
    doubts: [[u64; 16]; size_of::<Doubts>() / 128],
}

/// Words up to the next cache line.
const GLOBAL_PADDING: usize = (MISUSES * (1 + KEPT_ADDRESSES) + 3).wrapping_neg() % 16;

const _: () = {
    assert!(size_of::<GlobalWords>() == size_of::<Globals>());
    assert!(offset_of!(Shared, installed) == offset_of!(GlobalWords, installed));
    assert!(offset_of!(Shared, admitted) == offset_of!(GlobalWords, admitted));
    assert!(offset_of!(Shared, lease) == offset_of!(GlobalWords, lease));
    assert!(offset_of!(Globals, shared) == 0);
    assert!(offset_of!(GlobalWords, misuses) == offset_of!(Globals, misuses));
    assert!(offset_of!(GlobalWords, misused) == offset_of!(Globals, misused));
    assert!(offset_of!(GlobalWords, quarantine) == offset_of!(Globals, quarantined));
    assert!(offset_of!(GlobalWords, quarantine) + 8 == offset_of!(Globals, drains_begun));
    assert!(offset_of!(GlobalWords, quarantine) + 16 == offset_of!(Globals, drains_done));
    assert!(offset_of!(GlobalWords, doubts) == offset_of!(Globals, doubts));
};

/// Mirrors [`ClassCounters`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct CounterWords {
    pub failures: [u64; FAILURES],
    pub served: u64,
    pub asked: u64,
    padding: [u64; 2],
}

const _: () = {
    assert!(size_of::<CounterWords>() == size_of::<ClassCounters>());
    assert!(offset_of!(CounterWords, served) == offset_of!(ClassCounters, served));
    assert!(offset_of!(CounterWords, asked) == offset_of!(ClassCounters, asked));
};

/// Mirrors [`SetState`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct SetWords {
    pub count: u32,
    epoch: u32,
    pub holders: u32,
    thinned: [u32; 2],
    padding: [u32; 27],
}

const _: () = {
    assert!(size_of::<SetWords>() == size_of::<SetState>());
    assert!(offset_of!(SetWords, holders) == offset_of!(SetState, holders));
};

/// Mirrors [`Stripe`].
pub(super) type StripeWord = u64;

const _: () = assert!(size_of::<StripeWord>() == size_of::<Stripe>());

/// Mirrors [`PageEntry`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct EntryWords {
    pub entry: u64,
    padding: [u64; 3],
}

const _: () = assert!(size_of::<EntryWords>() == size_of::<PageEntry>());

/// Mirrors [`SlabState`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct SlabWords {
    pub usage: u32,
    padding: [u32; 7],
}

const _: () = assert!(size_of::<SlabWords>() == size_of::<SlabState>());
