//! A heap as a picture: a grid of cells, each a number of pages side by side. The colour of a cell tells how large its blocks are,
//! and how strong it is how much of it is handed out.

use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size};
use embedded_graphics::mono_font::{MonoTextStyle, ascii::FONT_7X13};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::prelude::{Drawable, Pixel, Primitive};
use embedded_graphics::primitives::{PrimitiveStyle, Rectangle};
use embedded_graphics::text::Text;
use scatterheap_host::heat_map::{Cell, HeatMap};
use scatterheap_host::size::Bytes;
use scatterheap_host::{Occupancy, Snapshot};
use std::collections::BTreeSet;
use std::convert::Infallible;

/// Cells of a row, and rows at most.
const COLUMNS: u32 = 128;
const MOST_ROWS: u32 = 64;
/// Pixels of a cell, with the gap behind it.
const CELL: u32 = 7;
const GAP: u32 = 1;
/// Pixels beside the grid: addresses to the left.
const LEFT: u32 = 78;
const MARGIN: u32 = 12;
/// Pixels of a line of text, and of an entry of the legend.
const LINE: u32 = 18;
const ENTRY: u32 = 112;
const WIDTH: u32 = LEFT + COLUMNS * CELL + MARGIN;

const PAPER: Rgb888 = Rgb888::WHITE;
const INK: Rgb888 = Rgb888::new(40, 40, 40);
const FREE: Rgb888 = Rgb888::new(232, 232, 232);
const RUNS: Rgb888 = Rgb888::new(70, 70, 70);
const LOST: Rgb888 = Rgb888::new(255, 0, 200);
/// From small blocks to large ones.
const HUES: [Rgb888; 7] = [
    Rgb888::new(49, 84, 163),
    Rgb888::new(33, 145, 190),
    Rgb888::new(31, 158, 110),
    Rgb888::new(120, 170, 40),
    Rgb888::new(214, 160, 20),
    Rgb888::new(217, 95, 14),
    Rgb888::new(180, 30, 60),
];

/// Blocks of sizes within a factor of two have a colour in common: the binary logarithm of the largest.
type Band = u32;

/// Draws what a heap held, as a PNG file.
///
/// # Errors
///
/// None that is known: the encoder writes to memory.
pub fn png(snapshot: &Snapshot) -> Result<Vec<u8>, png::EncodingError> {
    let occupancy = snapshot.occupancy();
    let most_cells = (COLUMNS * MOST_ROWS) as usize;
    let map = HeatMap::new(&snapshot.page_map(), occupancy.page_bytes, most_cells);
    let picture = Picture::new(&map, &occupancy, &snapshot.origin().device);
    picture.draw().encode()
}

/// Pixels.
struct Canvas {
    size: Size,
    bytes: Vec<u8>,
}

impl Canvas {
    fn new(size: Size) -> Self {
        let pixels = size.width as usize * size.height as usize;
        Self {
            size,
            bytes: [PAPER.r(), PAPER.g(), PAPER.b()].repeat(pixels),
        }
    }

    fn rectangle(&mut self, left: u32, top: u32, size: Size, colour: Rgb888) {
        let place = Rectangle::new(point(left, top), size);
        let Ok(()) = place
            .into_styled(PrimitiveStyle::with_fill(colour))
            .draw(self);
    }

    /// Writes a line whose letters stand on `bottom`.
    fn write(&mut self, text: &str, left: u32, bottom: u32) {
        let style = MonoTextStyle::new(&FONT_7X13, INK);
        let Ok(_end) = Text::new(text, point(left, bottom), style).draw(self);
    }

    fn encode(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.size.width, self.size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header()?.write_image_data(&self.bytes)?;
        Ok(file)
    }
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        self.size
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(
        &mut self,
        pixels: I,
    ) -> Result<(), Infallible> {
        for Pixel(place, colour) in pixels {
            // What is outside of the picture is not drawn.
            let (Ok(x), Ok(y)) = (u32::try_from(place.x), u32::try_from(place.y)) else {
                continue;
            };
            if x < self.size.width && y < self.size.height {
                let first = 3 * (y as usize * self.size.width as usize + x as usize);
                self.bytes[first..first + 3].copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

fn point(x: u32, y: u32) -> Point {
    Point::new(x.cast_signed(), y.cast_signed())
}

struct Picture<'a> {
    map: &'a HeatMap,
    title: [String; 2],
    bands: Vec<Band>,
    has_runs: bool,
    has_lost: bool,
}

impl<'a> Picture<'a> {
    fn new(map: &'a HeatMap, occupancy: &Occupancy, device: &str) -> Self {
        let bands: BTreeSet<Band> = map.cells.iter().filter_map(band).collect();
        Self {
            map,
            title: title(occupancy, device),
            bands: bands.into_iter().collect(),
            has_runs: map.cells.iter().any(is_run),
            has_lost: map.cells.iter().any(|cell| cell.lost > 0),
        }
    }

    fn draw(&self) -> Canvas {
        let cells = u32::try_from(self.map.cells.len()).unwrap_or(u32::MAX);
        let rows = cells.div_ceil(COLUMNS).max(1);
        let entries = self.legend();
        let per_line = (WIDTH - 2 * MARGIN) / ENTRY;
        let legend_lines = u32::try_from(entries.len()).unwrap_or(0).div_ceil(per_line);
        let top = MARGIN + 2 * LINE;
        let below = top + rows * CELL + LINE;
        let height = below + legend_lines * LINE + MARGIN;
        let mut canvas = Canvas::new(Size::new(WIDTH, height));
        for (line, bottom) in self.title.iter().zip([MARGIN + 11, MARGIN + LINE + 11]) {
            canvas.write(line, MARGIN, bottom);
        }
        self.draw_grid(&mut canvas, top);
        for (index, (colour, label)) in (0..).zip(&entries) {
            let left = MARGIN + index % per_line * ENTRY;
            let y = below + index / per_line * LINE;
            canvas.rectangle(left, y, Size::new(12, 12), *colour);
            canvas.write(label, left + 17, y + 10);
        }
        canvas
    }

    fn draw_grid(&self, canvas: &mut Canvas, top: u32) {
        let size = Size::new(CELL - GAP, CELL - GAP);
        for (index, cell) in (0..).zip(&self.map.cells) {
            let (column, row) = (index % COLUMNS, index / COLUMNS);
            let y = top + row * CELL;
            canvas.rectangle(LEFT + column * CELL, y, size, self.colour(cell));
            // Every other row has room for its address.
            if column == 0 && row % 2 == 0 {
                let address = cell.first_page as u64 * self.map.page_bytes;
                let label = format!("{:>8}", Bytes(address).to_string());
                canvas.write(&label, MARGIN, y + CELL);
            }
        }
    }

    fn colour(&self, cell: &Cell) -> Rgb888 {
        if cell.lost > 0 {
            LOST
        } else if is_run(cell) {
            RUNS
        } else if let Some(band) = band(cell) {
            // Something that is hardly used can still be told from free pages.
            blend(FREE, self.hue(band), 0.25 + 0.75 * cell.used)
        } else {
            FREE
        }
    }

    /// The sizes that there are spread over the hues.
    fn hue(&self, band: Band) -> Rgb888 {
        let place = self.bands.iter().position(|other| *other == band);
        let last = self.bands.len().saturating_sub(1).max(1);
        let way = place.unwrap_or(0) * (HUES.len() - 1);
        let (from, rest) = (way / last, way % last);
        let to = HUES[(from + 1).min(HUES.len() - 1)];
        #[allow(clippy::cast_precision_loss, reason = "there are few bands")]
        blend(HUES[from], to, rest as f64 / last as f64)
    }

    fn legend(&self) -> Vec<(Rgb888, String)> {
        let slots = self
            .bands
            .iter()
            .map(|&band| (self.hue(band), format!("to {}", Bytes(1 << band))));
        let mut entries: Vec<_> = slots.collect();
        if self.has_runs {
            entries.push((RUNS, "runs of pages".into()));
        }
        if self.has_lost {
            entries.push((LOST, "not known".into()));
        }
        entries.push((FREE, "free".into()));
        let cell = Bytes(self.map.cell_bytes());
        entries.push((PAPER, format!("a cell is {cell}")));
        entries
    }
}

fn title(occupancy: &Occupancy, device: &str) -> [String; 2] {
    #[allow(clippy::cast_precision_loss, reason = "for people, three digits do")]
    let share = 100.0 * occupancy.used_bytes as f64 / occupancy.capacity.max(1) as f64;
    [
        format!(
            "heap of {} on {device}: {} ({share:.1} %) in {} blocks",
            Bytes(occupancy.capacity),
            Bytes(occupancy.used_bytes),
            occupancy.used_blocks,
        ),
        format!(
            "largest request {}; {:.1} % of the free pages lie outside the longest run of them",
            Bytes(occupancy.largest_request),
            100.0 * occupancy.external_fragmentation,
        ),
    ]
}

/// Whether a cell mostly belongs to runs of pages.
fn is_run(cell: &Cell) -> bool {
    cell.in_runs > cell.in_slabs
}

/// What most of a cell's slab pages are used for.
fn band(cell: &Cell) -> Option<Band> {
    let bytes = cell.slot_bytes.filter(|_| !is_run(cell))?;
    Some(bytes.next_power_of_two().ilog2())
}

/// A colour between two: `share` of the second.
fn blend(from: Rgb888, to: Rgb888, share: f64) -> Rgb888 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between two bytes"
    )]
    let between = |from: u8, to: u8| {
        let (from, to) = (f64::from(from), f64::from(to));
        (from + (to - from) * share.clamp(0.0, 1.0)).round() as u8
    };
    Rgb888::new(
        between(from.r(), to.r()),
        between(from.g(), to.g()),
        between(from.b(), to.b()),
    )
}
