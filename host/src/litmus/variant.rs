//! The ways on which a block comes from one thread to another.

use kernels::litmus::SIZES;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A way from `free` to `malloc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Slots of one slab, as many as players.
    Slots,
    /// Two players, two slots: each frees its own and takes one.
    StoreBuffering,
    /// Three pages for four players of four classes: slabs are retired, and their pages reused.
    Retirement,
    /// Runs of pages, and slabs in the same pages.
    Runs,
    /// Blocks that `realloc` moves.
    Resize,
    /// Warps that free together and allocate together: a lane's data is published by its leader's atomic.
    Warps,
    /// Warps that free together and allocate in turns.
    WarpFrees,
    /// Warps that free in turns and allocate together.
    WarpMallocs,
}

/// What a variant is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes of requests.
    pub sizes: [u64; SIZES],
    /// Pages of a cell that players share.
    pub free_pages: u64,
    /// Slots of the first size that are taken and kept.
    pub kept_slots: u64,
    /// Players of a cell.
    pub players: u64,
    /// Lanes of a player.
    pub width: u64,
    /// Turns of `malloc` in a warp.
    pub malloc_turns: u64,
    /// Turns of `free` in a warp.
    pub free_turns: u64,
    /// Whether `realloc` is called.
    pub resize: bool,
    /// Of this many granules one is checked.
    pub step: u64,
}

/// Slots of 128 bytes, of which a page has eight.
const OF_SLOTS: Shape = Shape {
    sizes: [128; SIZES],
    free_pages: 1,
    kept_slots: 4,
    players: 4,
    width: 1,
    malloc_turns: 1,
    free_turns: 1,
    resize: false,
    step: 1,
};

impl Variant {
    /// All variants.
    pub const ALL: [Self; 8] = [
        Self::Slots,
        Self::StoreBuffering,
        Self::Retirement,
        Self::Runs,
        Self::Resize,
        Self::Warps,
        Self::WarpFrees,
        Self::WarpMallocs,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::StoreBuffering => "store-buffering",
            Self::Retirement => "retirement",
            Self::Runs => "runs",
            Self::Resize => "resize",
            Self::Warps => "warps",
            Self::WarpFrees => "warp-frees",
            Self::WarpMallocs => "warp-mallocs",
        }
    }

    pub(super) fn shape(self, gpu: bool) -> Shape {
        // Two pages have 128 slots of 16 bytes. The CPU's warps have one lane.
        let warps = Shape {
            sizes: [16; SIZES],
            free_pages: 2,
            kept_slots: if gpu { 128 - 3 * 32 } else { 128 - 8 },
            players: if gpu { 3 } else { 8 },
            width: if gpu { 32 } else { 1 },
            ..OF_SLOTS
        };
        match self {
            Self::Slots => OF_SLOTS,
            Self::StoreBuffering => Shape {
                players: 2,
                kept_slots: 6,
                ..OF_SLOTS
            },
            Self::Retirement => Shape {
                sizes: [128, 96, 48, 16],
                free_pages: 3,
                kept_slots: 0,
                ..OF_SLOTS
            },
            Self::Runs => Shape {
                sizes: [1024, 2048, 3072, 128],
                free_pages: 4,
                kept_slots: 0,
                // The pages' and the slots' sizes are multiples of eight granules.
                step: 8,
                ..OF_SLOTS
            },
            Self::Resize => Shape {
                sizes: [48, 112, 128, 1024],
                free_pages: 4,
                kept_slots: 0,
                resize: true,
                ..OF_SLOTS
            },
            Self::Warps => warps,
            Self::WarpFrees => Shape {
                malloc_turns: 4,
                ..warps
            },
            Self::WarpMallocs => Shape {
                free_turns: 4,
                ..warps
            },
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|variant| variant.name() == text)
            .ok_or_else(|| format!("`{text}` is no litmus test: use one of {}", names()))
    }
}
