//! How allocators look: names for people, and colours that colour-blind people can tell apart.

use crate::row::Row;
use plotters::style::{BLACK, Color, RGBAColor, RGBColor, WHITE};
use std::collections::BTreeSet;

pub(super) const FLOOR: &str = "floor";
pub(super) const OURS: &str = "scatterheap";

pub(super) const GROUND: RGBColor = WHITE;
pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(super) const FAINT_INK: RGBColor = RGBColor(0x59, 0x59, 0x59);
pub(super) const GRID: RGBColor = RGBColor(0xe2, 0xe2, 0xe2);
pub(super) const FRAME: RGBColor = RGBColor(0x9a, 0x9a, 0x9a);
pub(super) const TARGET: RGBColor = BLACK;
const FLOOR_COLOUR: RGBColor = RGBColor(0x6e, 0x6e, 0x6e);
const OUR_COLOUR: RGBColor = RGBColor(0x00, 0x5a, 0x9c);

/// Allocators in the order of their lines, and their names.
const KNOWN: [(&str, &str); 7] = [
    ("ouro_p_s", "Ouroboros P-S"),
    ("gallatin", "Gallatin"),
    ("scatteralloc", "ScatterAlloc"),
    ("cuda", "CUDA"),
    ("system", "system malloc"),
    ("two_pass", "two passes"),
    ("packed", "packed array"),
];

/// After Okabe and Ito, darkened where they are for text on white.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x87, 0x62),
    RGBColor(0xb3, 0x52, 0x8c),
    RGBColor(0xa8, 0x74, 0x00),
    RGBColor(0x2b, 0x93, 0xcf),
    RGBColor(0x7a, 0x3f, 0x1d),
    RGBColor(0x4b, 0x4b, 0xa8),
];

/// What an allocator is called in a plot.
#[must_use]
pub fn title(allocator: &str) -> String {
    match allocator {
        FLOOR => "no allocation".into(),
        _ => KNOWN
            .iter()
            .find(|(name, _)| *name == allocator)
            .map_or_else(|| allocator.replace('_', " "), |(_, title)| (*title).into()),
    }
}

/// Colours of the allocators of a table: the same in each of its plots.
pub(super) struct Colours {
    others: BTreeSet<(usize, String)>,
}

impl Colours {
    pub fn new(rows: &[Row]) -> Self {
        let allocators = rows.iter().map(|row| row.allocator.as_str());
        let others = allocators.filter(|name| ![FLOOR, OURS].contains(name));
        Self {
            others: others.map(rank).collect(),
        }
    }

    pub fn of(&self, allocator: &str) -> RGBColor {
        match allocator {
            FLOOR => FLOOR_COLOUR,
            OURS => OUR_COLOUR,
            _ => {
                let place = self.others.iter().position(|(_, name)| name == allocator);
                PALETTE[place.unwrap_or(0) % PALETTE.len()]
            }
        }
    }

    /// For the band of the spread behind a line.
    pub fn band_of(&self, allocator: &str) -> RGBAColor {
        self.of(allocator).mix(0.18)
    }
}

/// Where an allocator stands among others: the floor first, then ours, then those known, then the
/// rest by name.
#[must_use]
pub fn rank(allocator: &str) -> (usize, String) {
    let place = match allocator {
        FLOOR => 0,
        OURS => 1,
        _ => KNOWN
            .iter()
            .position(|(name, _)| *name == allocator)
            .map_or(2 + KNOWN.len(), |place| 2 + place),
    };
    (place, allocator.to_owned())
}
