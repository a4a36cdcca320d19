//! Bars, charts over time and the table of sizes.

use super::draw::coloured;
use super::view::{View, all_pages, bytes_in_use};
use crate::command::output::{count, percent_of};
use crate::command::picture::hue_of_slots;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Row, Sparkline, Table};
use scatterheap::monitor::Reading;
use scatterheap::size::Bytes;
use scatterheap::timeline::SizeUse;

/// Columns of a label before a bar.
const LABEL: usize = 6;
/// Columns of a bar at least, and of what is written behind it.
const LEAST_BAR: usize = 8;
const FULL: usize = 10;

/// How much of the heap is handed out.
pub fn used_bar(view: &View, reading: &Reading, width: u16) -> Line<'static> {
    let state = &reading.state;
    let text = format!(
        " {} ({})",
        Bytes(state.used_bytes),
        percent_of(state.used_bytes, state.capacity)
    );
    let parts = [(state.used_bytes, '█', Color::Cyan)];
    bar(view, "in use", &parts, state.capacity, &text, width)
}

/// What the pages are used for.
pub fn pages_bar(view: &View, reading: &Reading, width: u16) -> Line<'static> {
    let pages = &reading.state.pages;
    let all = all_pages(pages);
    let text = format!(
        " slabs {}, runs {}, free {}",
        percent_of(pages.in_slabs, all),
        percent_of(pages.in_runs, all),
        percent_of(pages.free, all)
    );
    let parts = [
        (pages.in_slabs, '█', Color::Green),
        (pages.in_runs, '▒', Color::Magenta),
        (pages.lost, '?', Color::Red),
    ];
    bar(view, "pages", &parts, all, &text, width)
}

/// A bar of parts of a whole, with a label before it and text behind, in a line of so many columns.
fn bar(
    view: &View,
    label: &str,
    parts: &[(u64, char, Color)],
    whole: u64,
    text: &str,
    width: u16,
) -> Line<'static> {
    let room = usize::from(width).saturating_sub(LABEL + 1 + text.chars().count());
    let room = room.max(LEAST_BAR);
    let columns = |amount: u64| {
        let columns = u128::from(amount) * room as u128 / u128::from(whole.max(1));
        usize::try_from(columns).unwrap_or(room).min(room)
    };
    let mut spans = vec![format!("{label:<LABEL$} ").into()];
    let (mut sum, mut drawn) = (0, 0);
    for &(amount, symbol, colour) in parts {
        sum = amount.saturating_add(sum);
        // Rounded as sums, so that the whole bar is as long as it should be.
        let end = columns(sum);
        let symbols = symbol.to_string().repeat(end.saturating_sub(drawn));
        spans.push(Span::styled(symbols, coloured(view, colour)));
        drawn = drawn.max(end);
    }
    let rest = "·".repeat(room.saturating_sub(drawn));
    spans.push(Span::styled(rest, Style::new().add_modifier(Modifier::DIM)));
    spans.push(text.to_owned().into());
    Line::from(spans)
}

/// The last values, as many as there is room for, from 0 to `most`.
pub fn over_time(
    values: impl DoubleEndedIterator<Item = f64>,
    most: f64,
    width: u16,
    style: Style,
) -> Sparkline<'static> {
    const STEPS: f64 = 1000.0;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share from 0 to 1"
    )]
    let step = |value: f64| ((value / most).clamp(0.0, 1.0) * STEPS).round() as u64;
    // Without the frame.
    let room = usize::from(width.saturating_sub(2));
    let mut steps: Vec<_> = values.rev().take(room).map(step).collect();
    steps.reverse();
    Sparkline::default().data(steps).max(1000).style(style)
}

/// The sizes that most bytes are handed out in, as many as there is room for, from the smallest.
pub fn sizes_table(view: &View, reading: &Reading, area: Rect) -> Table<'static> {
    let head = ["bytes", "in use", "of slots"];
    let right = |text: &str| Cell::from(Text::from(text.to_owned()).right_aligned());
    let head = Row::new(head.map(right).into_iter().chain(["full".into()]))
        .style(Style::new().add_modifier(Modifier::DIM));
    let sizes = largest(
        &reading.state.sizes,
        usize::from(area.height.saturating_sub(1)),
    );
    let rows = sizes.into_iter().map(|size| {
        let hue = coloured(view, Color::Indexed(hue_of_slots(size.slot_bytes)));
        Row::new([
            right(&count(size.slot_bytes)).style(hue),
            right(&count(size.used)),
            right(&count(size.slots)),
            Cell::from(fill(size)).style(hue),
        ])
    });
    let widths = [
        Constraint::Length(7),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(10),
    ];
    Table::new(rows.collect::<Vec<_>>(), widths).header(head)
}

fn largest(sizes: &[SizeUse], room: usize) -> Vec<SizeUse> {
    let mut largest = sizes.to_vec();
    largest.sort_by_key(|size| std::cmp::Reverse(bytes_in_use(size)));
    largest.truncate(room);
    largest.sort_by_key(|size| size.slot_bytes);
    largest
}

/// How many of the slots are handed out, as a bar.
fn fill(size: SizeUse) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u128::from(size.used) * 8 * FULL as u128 / u128::from(size.slots.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0).min(8 * FULL);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}
