//! Bars of ratios to the floor, a group for each case: malloc on the left, free on the right. A
//! black mark stands where scatterheap's target is.

use super::axis::{Axis, ratio_text};
use super::error::{Error, Result};
use super::figure::{Area, HEAD_HEIGHT, beside, head, pixel, put, text};
use super::join::Joined;
use super::ratio::{Group, Key, groups};
use super::style::{Colours, FAINT_INK, GRID, INK, TARGET, rank, title};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use std::collections::BTreeMap;

const WIDTH: i32 = 1000;
/// Room for the labels of the groups.
const LEFT: i32 = 230;
const PANEL_WIDTH: i32 = 365;
const PANEL_GAP: i32 = 30;
const BAR: i32 = 8;
const GROUP_GAP: i32 = 10;
const LEGEND_HEIGHT: i32 = 58;
const FOOT_HEIGHT: i32 = 34;
const MOST_TICKS: usize = 6;

/// Draws every case that has a floor.
pub(super) fn draw(tables: &Joined, machine: &str) -> Result<Option<String>> {
    let metrics = [("malloc", "alloc_us"), ("free", "free_us")];
    let panels = metrics.map(|(title, metric)| (title, groups(tables, metric)));
    let Some(picture) = Picture::new(&panels, Colours::new(&tables.rows)) else {
        return Ok(None);
    };
    picture.draw(&panels, machine).map(Some)
}

/// Where the groups of a case lie, in pixels.
struct Place {
    key: Key,
    label: String,
    top: i32,
    height: i32,
}

/// Where everything lies. Groups of the same case stand side by side.
struct Picture {
    colours: Colours,
    axis: Axis,
    /// The cases in the order of the picture.
    places: Vec<Place>,
    allocators: Vec<String>,
    has_targets: bool,
    height: i32,
}

impl Picture {
    /// Nothing if there are no bars.
    fn new(panels: &[(&str, Vec<Group>)], colours: Colours) -> Option<Self> {
        let all = || panels.iter().flat_map(|(_, groups)| groups);
        let ratios = all().flat_map(|group| group.bars.iter().map(|(_, ratio)| *ratio));
        let targets = all().filter_map(|group| group.target);
        let axis = Axis::over(ratios.chain(targets), 10.0, MOST_TICKS)?;
        let axis = axis.reaching(0.9, 11.0, 10.0, MOST_TICKS);
        let mut allocators: Vec<String> = all()
            .flat_map(|group| group.bars.iter().map(|(allocator, _)| allocator.clone()))
            .collect();
        allocators.sort_by_key(|allocator| rank(allocator));
        allocators.dedup();
        let mut top = pixel(HEAD_HEIGHT) + LEGEND_HEIGHT;
        let mut places = places(panels);
        for place in &mut places {
            place.top = top;
            top += place.height + GROUP_GAP;
        }
        Some(Self {
            colours,
            axis,
            places,
            allocators,
            has_targets: all().any(|group| group.target.is_some()),
            height: top + FOOT_HEIGHT,
        })
    }

    fn draw(&self, panels: &[(&str, Vec<Group>)], machine: &str) -> Result<String> {
        let size = (WIDTH.unsigned_abs(), self.height.unsigned_abs());
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            head(
                &root,
                "Times in multiples of a launch that allocates nothing",
                machine,
            )?;
            self.draw_legend(&root)?;
            for place in &self.places {
                let style = beside(14, INK, HPos::Right);
                let middle = place.top + place.height / 2;
                put(&root, &place.label, (LEFT - 10, middle), &style)?;
            }
            for (column, (title, groups)) in (0..).zip(panels) {
                let left = LEFT + column * (PANEL_WIDTH + PANEL_GAP);
                self.draw_grid(&root, left, title)?;
                for group in groups {
                    self.draw_group(&root, left, group)?;
                }
            }
            root.present().map_err(Error::draw)?;
        }
        Ok(svg)
    }

    /// A square and a name for each allocator, and the mark of a target if there are any.
    fn draw_legend(&self, root: &Area<'_>) -> Result<()> {
        let middle = pixel(HEAD_HEIGHT) + 12;
        let mut left = 16;
        for allocator in &self.allocators {
            let colour = self.colours.of(allocator);
            let square = [(left, middle - 6), (left + 12, middle + 6)];
            root.draw(&Rectangle::new(square, colour.filled()))
                .map_err(Error::draw)?;
            let name = title(allocator);
            put(
                root,
                &name,
                (left + 18, middle),
                &beside(15, colour, HPos::Left),
            )?;
            left += 40 + 8 * i32::try_from(name.chars().count()).unwrap_or(0);
        }
        if !self.has_targets {
            return Ok(());
        }
        let mark = [(left, middle - 8), (left + 3, middle + 8)];
        root.draw(&Rectangle::new(mark, TARGET.filled()))
            .map_err(Error::draw)?;
        let words = "target of scatterheap, at most";
        put(
            root,
            words,
            (left + 9, middle),
            &beside(15, INK, HPos::Left),
        )
    }

    fn draw_grid(&self, root: &Area<'_>, left: i32, title: &str) -> Result<()> {
        let top = pixel(HEAD_HEIGHT) + LEGEND_HEIGHT - 6;
        let bottom = self.height - FOOT_HEIGHT;
        put(root, title, (left, top - 20), &text(16, INK))?;
        for tick in &self.axis.ticks {
            let x = left + self.x(*tick);
            root.draw(&PathElement::new([(x, top), (x, bottom)], GRID))
                .map_err(Error::draw)?;
            let style = beside(14, FAINT_INK, HPos::Center);
            put(root, &ratio_text(*tick), (x, bottom + 12), &style)?;
        }
        // The floor itself.
        let floor = left + self.x(1.0);
        root.draw(&PathElement::new(
            [(floor, top), (floor, bottom)],
            FAINT_INK,
        ))
        .map_err(Error::draw)
    }

    /// Bars from the floor to the ratio, and behind them the target's mark.
    fn draw_group(&self, root: &Area<'_>, left: i32, group: &Group) -> Result<()> {
        let place = self.places.iter().find(|place| place.key == group.key);
        let Some(Place { top, .. }) = place else {
            return Ok(());
        };
        let mut bar_top = *top;
        for (allocator, ratio) in &group.bars {
            let colour = self.colours.of(allocator);
            let (from, to) = (left + self.x(1.0), left + self.x(*ratio));
            let bar = [
                (from.min(to), bar_top),
                (from.max(to).max(from + 1), bar_top + BAR - 1),
            ];
            root.draw(&Rectangle::new(bar, colour.filled()))
                .map_err(Error::draw)?;
            bar_top += BAR;
        }
        if let Some(target) = group.target {
            let x = left + self.x(target);
            let mark = [(x - 1, top - 3), (x + 2, top + BAR + 2)];
            root.draw(&Rectangle::new(mark, TARGET.filled()))
                .map_err(Error::draw)?;
        }
        Ok(())
    }

    /// Where a ratio lies, in pixels from the left end of its panel.
    fn x(&self, ratio: f64) -> i32 {
        let Axis { least, most, .. } = self.axis;
        let share = (ratio / least).ln() / (most / least).ln();
        #[allow(clippy::cast_possible_truncation, reason = "within the panel")]
        let x = (share.clamp(0.0, 1.0) * f64::from(PANEL_WIDTH)) as i32;
        x
    }
}

/// The cases of all groups, each as high as the most bars that it has.
fn places(panels: &[(&str, Vec<Group>)]) -> Vec<Place> {
    let mut places = BTreeMap::<Key, Place>::new();
    for group in panels.iter().flat_map(|(_, groups)| groups) {
        let height = BAR * i32::try_from(group.bars.len()).unwrap_or(0);
        let place = places.entry(group.key).or_insert_with(|| Place {
            key: group.key,
            label: group.label.clone(),
            top: 0,
            height,
        });
        place.height = place.height.max(height);
    }
    places.into_values().collect()
}
