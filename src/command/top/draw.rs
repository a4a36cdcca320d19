//! Draws the view: a function of it and of the room that there is.
//!
//! From the top: what it is of, two bars, figures, charts over time, sizes beside a map, keys. Where there is little room the lower
//! parts go first.

use super::charts::{over_time, pages_bar, sizes_table, used_bar};
use super::map::heap_map;
use super::view::{View, Watched};
use crate::command::output::{count, one_line, percent, rate};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Block;
use scatterheap::monitor::Reading;
use scatterheap::size::Bytes;

/// Rows of the charts over time.
const CHARTS: u16 = 5;
/// With fewer rows there are no charts.
const ROWS_FOR_CHARTS: u16 = 18;
/// With fewer columns there is no map beside the sizes.
const COLUMNS_FOR_MAP: u16 = 60;
/// A reading that is so many periods old is late.
const LATE: f64 = 4.0;

pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let area = frame.area();
    let charts = if area.height >= ROWS_FOR_CHARTS {
        CHARTS
    } else {
        0
    };
    let [title, bars, figures, over_time, rest, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(2),
        Constraint::Length(2),
        Constraint::Length(charts),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    if let Some(watched) = view.shown() {
        draw_title(frame, title, view, watched);
        draw_bars(frame, bars, view, &watched.reading);
        draw_figures(frame, figures, watched);
        draw_charts(frame, over_time, view, watched);
        draw_rest(frame, rest, view, &watched.reading);
    }
    draw_keys(frame, keys, view);
}

/// A style, if colours are wanted.
pub fn coloured(view: &View, colour: Color) -> Style {
    if view.colours {
        Style::new().fg(colour)
    } else {
        Style::new()
    }
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, view: &View, watched: &Watched) {
    let reading = &watched.reading;
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut first = vec![
        Span::styled(one_line(&reading.name), bold),
        format!("  process {}", reading.process).into(),
    ];
    if view.heaps.len() > 1 {
        let which = format!("  heap {} of {}", view.selected + 1, view.heaps.len());
        first.push(Span::styled(which, bold));
    }
    if !reading.doing.is_empty() {
        first.push(format!("  {}", one_line(&reading.doing)).into());
    }
    let state = &reading.state;
    let capacity = Bytes(state.capacity);
    let largest = Bytes(reading.largest_capacity);
    let heap = if largest > capacity {
        format!("heap of {capacity}, which may grow to {largest}")
    } else {
        format!("heap of {capacity}")
    };
    let (device, name) = (&reading.device, &reading.device_name);
    let second = vec![
        format!("{heap}, ").into(),
        when(view, watched),
        one_line(&format!(", on {device} ({name})")).into(),
    ];
    frame.render_widget(
        Text::from(vec![Line::from(first), Line::from(second)]),
        area,
    );
}

/// How old the reading is, and why, if it should not be.
fn when(view: &View, watched: &Watched) -> Span<'static> {
    let old = age(watched.age);
    let late = watched.age > LATE * watched.reading.period.max(0.25);
    let alarm = coloured(view, Color::Yellow).add_modifier(Modifier::BOLD);
    if watched.ended {
        Span::styled(format!("ended, {old}"), alarm)
    } else if view.paused {
        Span::styled("paused", alarm)
    } else if late {
        Span::styled(old, alarm)
    } else {
        old.into()
    }
}

fn draw_bars(frame: &mut Frame<'_>, area: Rect, view: &View, reading: &Reading) {
    let [used, pages] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    frame.render_widget(used_bar(view, reading, used.width), used);
    frame.render_widget(pages_bar(view, reading, pages.width), pages);
}

fn draw_figures(frame: &mut Frame<'_>, area: Rect, watched: &Watched) {
    let reading = &watched.reading;
    let state = &reading.state;
    let now = watched.now();
    let operations = now.and_then(|now| now.operations);
    let operations = operations.map_or("not known".into(), rate);
    let nulls = now.map_or(0.0, |now| now.nulls);
    let first = format!(
        "blocks {}  largest request {}  fragmented {}",
        count(state.used_blocks),
        Bytes(state.largest_request),
        percent(state.external_fragmentation)
    );
    let second = format!(
        "NULL {} ({})  misuse {}  operations {operations}  a copy takes {}",
        count(state.nulls),
        rate(nulls),
        count(reading.misuses),
        copying(reading)
    );
    frame.render_widget(Text::from(vec![first.into(), second.into()]), area);
}

fn draw_charts(frame: &mut Frame<'_>, area: Rect, view: &View, watched: &Watched) {
    let [used, nulls] = Layout::horizontal([Constraint::Fill(2), Constraint::Fill(1)]).areas(area);
    let most = watched
        .history
        .iter()
        .fold(0.0, |most: f64, sample| most.max(sample.nulls));
    let shares = watched.history.iter().map(|sample| sample.used);
    let chart = over_time(shares, 1.0, used.width, coloured(view, Color::Cyan));
    frame.render_widget(chart.block(titled("in use, of the heap")), used);
    let rates = watched.history.iter().map(|sample| sample.nulls);
    let chart = over_time(
        rates,
        most.max(1.0),
        nulls.width,
        coloured(view, Color::Red),
    );
    let title = format!("NULL, to {}", rate(most));
    frame.render_widget(chart.block(titled(&title)), nulls);
}

fn draw_rest(frame: &mut Frame<'_>, area: Rect, view: &View, reading: &Reading) {
    let wide = area.width >= COLUMNS_FOR_MAP;
    let shares = [Constraint::Fill(1), Constraint::Fill(u16::from(wide))];
    let [sizes, map] = Layout::horizontal(shares).areas(area);
    let block = titled("sizes");
    frame.render_widget(
        sizes_table(view, reading, block.inner(sizes)),
        block.inner(sizes),
    );
    frame.render_widget(block, sizes);
    if wide {
        let block = titled("map");
        frame.render_widget(
            heap_map(view, &reading.state.map, block.inner(map)),
            block.inner(map),
        );
        frame.render_widget(block, map);
    }
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let line = match &view.failure {
        Some(failure) => Line::styled(failure.clone(), coloured(view, Color::Red)),
        None => Line::styled(
            "q quit  p pause  Tab next heap",
            Style::new().add_modifier(Modifier::DIM),
        ),
    };
    frame.render_widget(line, area);
}

fn titled(title: &str) -> Block<'static> {
    Block::bordered().title(format!(" {title} "))
}

/// How old something is.
pub fn age(seconds: f64) -> String {
    if seconds < 60.0 {
        format!("{seconds:.1} s ago")
    } else if seconds < 3600.0 {
        format!("{:.0} min ago", seconds / 60.0)
    } else {
        format!("{:.1} h ago", seconds / 3600.0)
    }
}

/// How long the copy of a reading took.
pub fn copying(reading: &Reading) -> String {
    format!("{:.2} ms", reading.copying * 1000.0)
}
