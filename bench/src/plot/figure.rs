//! Draws a figure: a title, and panels side by side, each with lines over two logarithmic axes. A
//! line has its name at its right end, in its colour; the floor is dashed, and the spread is a band
//! behind the line.

use super::axis::{Axis, time_text};
use super::error::{Error, Result};
use super::labels;
use super::line::{Line, Point};
use super::style::{Colours, FAINT_INK, FLOOR, FRAME, GRID, GROUND, INK, OURS};
use plotters::coord::Shift;
use plotters::coord::combinators::{BindKeyPoints, WithKeyPoints};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Scale = WithKeyPoints<LogCoord<f64>>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Scale, Scale>>;

const FONT: &str = "Helvetica, Arial, 'DejaVu Sans', sans-serif";
pub(super) const HEAD_HEIGHT: u32 = 64;
const PANEL: (u32, u32) = (500, 390);
const LABEL_WIDTH: u32 = 128;
const LABEL_GAP: i32 = 15;
const EARLY_END_LIFT: i32 = 9;

/// A diagram of lines.
pub(super) struct Panel {
    pub title: String,
    pub x_name: &'static str,
    pub x_text: fn(f64) -> String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
}

/// A picture; each element of `rows` is panels side by side.
pub(super) struct Figure<'a> {
    pub title: String,
    pub machine: &'a str,
    pub rows: Vec<Vec<Panel>>,
}

impl Figure<'_> {
    /// The picture as SVG.
    pub fn draw(&self, colours: &Colours) -> Result<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        // Titles are as long as two panels.
        let width = PANEL.0 * count(columns.max(2));
        let height = HEAD_HEIGHT + PANEL.1 * count(self.rows.len());
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
            head(&root, &self.title, self.machine)?;
            for (row, panels) in self.rows.iter().enumerate() {
                for (column, panel) in panels.iter().enumerate() {
                    let corner = (PANEL.0 * count(column), HEAD_HEIGHT + PANEL.1 * count(row));
                    panel.draw(&root, corner, colours)?;
                }
            }
            root.present().map_err(Error::draw)?;
        }
        Ok(svg)
    }
}

/// The white ground, the title and the line about the machine.
pub(super) fn head(root: &Area<'_>, title: &str, machine: &str) -> Result<()> {
    root.fill(&GROUND).map_err(Error::draw)?;
    put(root, title, (16, 14), &text(21, INK))?;
    put(root, machine, (16, 39), &text(15, FAINT_INK))
}

/// Text of a size in pixels, written to the right of and below its place.
pub(super) fn text(size: u32, colour: RGBColor) -> TextStyle<'static> {
    let mut style = TextStyle::from((FONT, size).into_font());
    style.color = colour.to_backend_color();
    style
}

/// Text beside its place, in the middle of its height.
pub(super) fn beside(size: u32, colour: RGBColor, horizontal: HPos) -> TextStyle<'static> {
    text(size, colour).pos(Pos::new(horizontal, VPos::Center))
}

pub(super) fn put(
    root: &Area<'_>,
    words: &str,
    place: (i32, i32),
    style: &TextStyle<'_>,
) -> Result<()> {
    root.draw(&Text::new(words.to_owned(), place, style.clone()))
        .map_err(Error::draw)
}

impl Panel {
    fn draw(&self, root: &Area<'_>, corner: (u32, u32), colours: &Colours) -> Result<()> {
        let area = root.clone().shrink(corner, PANEL);
        let x = (self.x.least..self.x.most).log_scale();
        let y = (self.y.least..self.y.most).log_scale();
        let mut chart = ChartBuilder::on(&area)
            .margin_top(34)
            .margin_left(8)
            .margin_bottom(8)
            .margin_right(LABEL_WIDTH)
            .set_label_area_size(LabelAreaPosition::Left, 58)
            .set_label_area_size(LabelAreaPosition::Bottom, 44)
            .build_cartesian_2d(
                x.with_key_points(self.x.ticks.clone()),
                y.with_key_points(self.y.ticks.clone()),
            )
            .map_err(Error::draw)?;
        self.draw_mesh(&mut chart)?;
        for line in &self.lines {
            draw_line(&mut chart, line, colours).map_err(Error::draw)?;
        }
        let (left, top) = (pixel(corner.0), pixel(corner.1));
        put(root, &self.title, (left + 66, top + 8), &text(16, INK))?;
        self.draw_labels(root, &chart, top, colours)
    }

    fn draw_mesh(&self, chart: &mut Chart<'_>) -> Result<()> {
        let x_text = |value: &f64| (self.x_text)(*value);
        let y_text = |value: &f64| time_text(*value);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(GRID)
            .bold_line_style(GRID)
            .axis_style(FRAME)
            .label_style(text(14, FAINT_INK))
            .axis_desc_style(text(15, FAINT_INK))
            .x_desc(self.x_name)
            .x_label_formatter(&x_text)
            .y_label_formatter(&y_text);
        mesh.draw().map_err(Error::draw)
    }

    /// Writes each line's name beside its last point.
    fn draw_labels(
        &self,
        root: &Area<'_>,
        chart: &Chart<'_>,
        top: i32,
        colours: &Colours,
    ) -> Result<()> {
        let last = self.lines.iter().filter_map(|line| line.points.last());
        let ends: Vec<(i32, i32)> = last
            .map(|point| chart.backend_coord(&(point.x, point.median)))
            .collect();
        let rightmost = ends.iter().map(|(x, _)| *x).max();
        // Further right other lines go on below a label that stands a little higher.
        let heights = ends.iter().map(|(x, height)| {
            let ends_early = Some(*x) != rightmost;
            height - if ends_early { EARLY_END_LIFT } else { 0 }
        });
        let heights: Vec<i32> = heights.collect();
        let bottom = top + pixel(PANEL.1) - 60;
        let placed = labels::spread(&heights, LABEL_GAP, top + 40, bottom);
        for ((line, end), height) in self.lines.iter().zip(ends).zip(placed) {
            let style = beside(15, colours.of(&line.allocator), HPos::Left);
            put(root, &line.label, (end.0 + 9, height), &style)?;
        }
        Ok(())
    }
}

type DrawResult = std::result::Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn draw_line(chart: &mut Chart<'_>, line: &Line, colours: &Colours) -> DrawResult {
    let colour = colours.of(&line.allocator);
    let spread = |point: &Point| point.spread.unwrap_or((point.median, point.median));
    if line.points.iter().any(|point| point.spread.is_some()) {
        let low = line.points.iter().map(|point| (point.x, spread(point).0));
        let high = line.points.iter().map(|point| (point.x, spread(point).1));
        let outline: Vec<_> = low.chain(high.rev()).collect();
        let band = colours.band_of(&line.allocator);
        chart.draw_series([Polygon::new(outline, band)])?;
    }
    let width = if line.allocator == OURS { 3 } else { 2 };
    let points = line.points.iter().map(|point| (point.x, point.median));
    if line.allocator == FLOOR {
        let style = colour.stroke_width(width);
        chart.draw_series(DashedLineSeries::new(points.clone(), 6, 4, style))?;
    } else {
        chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(width)))?;
    }
    let dots = points.map(|point| Circle::new(point, width + 1, colour.filled()));
    chart.draw_series(dots)?;
    Ok(())
}

/// A length on the picture as the drawing library counts them.
pub(super) fn pixel(length: u32) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
