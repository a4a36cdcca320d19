//! A coarse map of the heap: what its pages are used for, from the first to the last.

use super::draw::coloured;
use super::view::View;
use crate::command::picture::hue_of_slots;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::text::{Line, Span, Text};
use scatterheap::timeline::MomentMap;
use std::collections::BTreeMap;

/// The map in as many cells as there is room for.
pub fn heap_map(view: &View, map: &MomentMap, area: Rect) -> Text<'static> {
    let width = usize::from(area.width);
    let room = width * usize::from(area.height);
    let count = map.contents.len().min(map.used.len());
    if room == 0 || count == 0 {
        return Text::default();
    }
    let cells: Vec<_> = (0..count.min(room))
        .map(|cell| {
            let parts = count.min(room);
            let range = cell * count / parts..(cell + 1) * count / parts;
            symbol(view, &map.contents[range.clone()], &map.used[range])
        })
        .collect();
    cells
        .chunks(width)
        .map(|line| Line::from(line.to_vec()))
        .collect::<Vec<_>>()
        .into()
}

/// A cell: its symbol tells how much is handed out, its colour of what size most of it is.
fn symbol(view: &View, contents: &[u32], used: &[u8]) -> Span<'static> {
    let mut counts = BTreeMap::<u32, usize>::new();
    for content in contents
        .iter()
        .filter(|content| **content != MomentMap::FREE)
    {
        *counts.entry(*content).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    let Some((content, _)) = most else {
        return "·".into();
    };
    let sum: usize = used.iter().map(|used| usize::from(*used)).sum();
    let symbol = match sum / used.len().max(1) {
        _ if content == MomentMap::LOST => "?",
        0..=25 => "░",
        26..=50 => "▒",
        51..=75 => "▓",
        _ => "█",
    };
    let colour = match content {
        MomentMap::RUN => Color::White,
        MomentMap::LOST => Color::Red,
        bytes => Color::Indexed(hue_of_slots(bytes.into())),
    };
    Span::styled(symbol, coloured(view, colour))
}
