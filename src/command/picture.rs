//! Draws a heat map in the terminal: the shade of a cell tells how full it is, its colour the
//! size of its blocks. Where there are no colours, a second grid has letters in their place.

use super::output::{count, percent_of, table};
use anstyle::{Ansi256Color, AnsiColor, Color, Style};
use scatterheap::Occupancy;
use scatterheap::heat_map::{Cell, HeatMap};
use scatterheap::size::Bytes;
use std::collections::BTreeMap;

/// Hues from small blocks to large ones: blue, cyan, green, yellow, red, magenta, in the numbers of
/// the terminals' 256 colours.
const HUES: [u8; 26] = [
    27, 33, 39, 45, 51, 50, 49, 48, 47, 46, 82, 118, 154, 190, 226, 220, 214, 208, 202, 196, 197,
    198, 199, 200, 201, 165,
];
/// Binary logarithm, rounded up, of any number that a file may have.
fn log2_up(number: u64) -> u32 {
    number
        .checked_next_power_of_two()
        .map_or(u64::BITS, u64::ilog2)
}

/// The hue of slots of this size, of all sizes that there may be.
pub fn hue_of_slots(bytes: u64) -> u8 {
    let octave = log2_up(bytes).saturating_sub(4) as usize;
    HUES[(2 * octave).min(HUES.len() - 1)]
}

/// Lines of the grid at most.
const MOST_LINES: usize = 24;
/// Columns beside the grid: the address, and the frame.
const MARGIN: usize = 14;

/// Blocks of sizes within a factor of two have a colour in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Band {
    /// Slots up to this binary logarithm of their size.
    Slots(u32),
    /// Runs of pages.
    Runs,
}

impl Band {
    fn of_slot(bytes: u64) -> Self {
        Self::Slots(log2_up(bytes))
    }

    /// What a cell is mostly used for, if for anything.
    fn of(cell: &Cell) -> Option<Self> {
        match cell.slot_bytes {
            Some(bytes) if cell.in_slabs >= cell.in_runs => Some(Self::of_slot(bytes.into())),
            _ if cell.in_runs > 0 => Some(Self::Runs),
            _ => None,
        }
    }

    fn label(self) -> String {
        match self {
            Self::Slots(log) => format!("to {}", Bytes(1 << log)),
            Self::Runs => "runs".into(),
        }
    }
}

/// The figures of a band.
#[derive(Default)]
struct BandUse {
    classes: u64,
    slabs: u64,
    blocks: u64,
    room: u64,
    used_bytes: u64,
    failures: u64,
}

/// A drawing of one heap.
pub struct Picture<'a> {
    map: &'a HeatMap,
    occupancy: &'a Occupancy,
    colours: bool,
    columns: usize,
    bands: BTreeMap<Band, BandUse>,
}

/// Columns of a grid in a terminal of this width: multiples of 8, so that lines begin at round
/// addresses.
pub fn grid_columns(terminal: usize) -> usize {
    (terminal.saturating_sub(MARGIN) / 8 * 8).clamp(16, 128)
}

/// Cells that a grid has room for.
pub fn most_cells(columns: usize) -> usize {
    columns * MOST_LINES
}

impl<'a> Picture<'a> {
    pub fn new(map: &'a HeatMap, occupancy: &'a Occupancy, colours: bool, columns: usize) -> Self {
        Self {
            map,
            occupancy,
            colours,
            columns,
            bands: bands(occupancy),
        }
    }

    /// The whole drawing: grid, scale, legend.
    pub fn draw(&self) -> String {
        let cell = Bytes(self.map.cell_bytes());
        let mut parts = vec![
            self.grid(|cell| self.shade(cell)),
            format!("{:11}a cell is {cell}, handed out to\n", ""),
            format!("{:11}░ 25 %  ▒ 50 %  ▓ 75 %  █ 100 %; blank is free\n", ""),
        ];
        if !self.colours {
            let title = "mostly used for blocks of these sizes:";
            parts.push(format!("\n{:11}{title}\n", ""));
            parts.push(self.grid(|cell| self.letter(Band::of(cell)).to_string()));
        }
        parts.push("\n".into());
        parts.push(self.legend());
        parts.concat()
    }

    fn grid(&self, symbol: impl Fn(&Cell) -> String) -> String {
        let columns = self.columns.min(self.map.cells.len());
        let edge = "─".repeat(columns);
        let line = |cells: &[Cell]| {
            let start = cells[0].first_page as u64 * self.map.page_bytes;
            let start = Bytes(start).to_string();
            let symbols: String = cells.iter().map(&symbol).collect();
            let blank = " ".repeat(columns - cells.len());
            format!("{start:>10} │{symbols}{blank}│\n")
        };
        let mut lines = vec![format!("{:11}┌{edge}┐\n", "")];
        lines.extend(self.map.cells.chunks(self.columns).map(line));
        lines.push(format!("{:11}└{edge}┘\n", ""));
        lines.concat()
    }

    /// A cell as a shade in its colour.
    fn shade(&self, cell: &Cell) -> String {
        if cell.lost > 0 {
            return self.paint('?', Some(AnsiColor::Red.into()));
        }
        let Some(band) = Band::of(cell) else {
            return " ".into();
        };
        let shade = match cell.used {
            ..=0.25 => '░',
            ..=0.5 => '▒',
            ..=0.75 => '▓',
            _ => '█',
        };
        self.paint(shade, self.colour(band))
    }

    fn paint(&self, symbol: char, colour: Option<Color>) -> String {
        if !self.colours {
            return symbol.into();
        }
        let style = Style::new().fg_color(colour);
        format!("{style}{symbol}{style:#}")
    }

    /// Runs are white; the sizes that there are spread over the hues.
    fn colour(&self, band: Band) -> Option<Color> {
        if band == Band::Runs {
            return Some(AnsiColor::White.into());
        }
        let slots = self
            .bands
            .keys()
            .filter(|band| **band != Band::Runs)
            .count();
        let place = self.bands.keys().position(|other| *other == band)?;
        let hue = place * (HUES.len() - 1) / slots.saturating_sub(1).max(1);
        Some(Ansi256Color(HUES[hue]).into())
    }

    fn letter(&self, band: Option<Band>) -> char {
        match band {
            None => ' ',
            Some(Band::Runs) => '#',
            Some(band) => {
                let place = self.bands.keys().position(|other| *other == band);
                (b'a'..=b'z').nth(place.unwrap_or(0)).unwrap_or(b'z').into()
            }
        }
    }

    /// The bands as a table, each with its colour or letter before it.
    fn legend(&self) -> String {
        let head = [
            "blocks", "classes", "slabs", "in use", "of slots", "full", "bytes", "of heap", "NULL",
        ];
        let rows = self.bands.iter().map(|(band, figures)| {
            [
                band.label(),
                count(figures.classes),
                count(figures.slabs),
                count(figures.blocks),
                count(figures.room),
                percent_of(figures.blocks, figures.room),
                Bytes(figures.used_bytes).to_string(),
                percent_of(figures.used_bytes, self.occupancy.capacity),
                count(figures.failures),
            ]
        });
        let text = table(head, rows);
        // The head and the line under it have no colour.
        let swatches = [None, None].into_iter().chain(self.bands.keys().map(Some));
        let lines = text.lines().zip(swatches).map(|(line, band)| match band {
            None => format!("   {line}\n"),
            Some(band) if self.colours => {
                format!(" {} {line}\n", self.paint('█', self.colour(*band)))
            }
            Some(band) => format!(" {} {line}\n", self.letter(Some(*band))),
        });
        lines.collect()
    }
}

fn bands(occupancy: &Occupancy) -> BTreeMap<Band, BandUse> {
    let mut bands = BTreeMap::<_, BandUse>::new();
    for class in &occupancy.classes {
        let band = bands.entry(Band::of_slot(class.slot_bytes)).or_default();
        band.classes += 1;
        band.slabs += class.slabs;
        band.blocks += class.used;
        band.room += class.slots;
        band.used_bytes += class.handed_out_bytes;
        band.failures += class.failures.total();
    }
    let runs = &occupancy.runs;
    if runs.count > 0 || runs.failures.total() > 0 {
        let band = BandUse {
            blocks: runs.count,
            room: runs.count,
            used_bytes: runs.bytes,
            failures: runs.failures.total(),
            ..BandUse::default()
        };
        bands.insert(Band::Runs, band);
    }
    bands
}
