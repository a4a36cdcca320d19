//! Panels of one figure share their axes, so that they can be compared at a glance.

use super::axis::Axis;
use super::figure::Panel;
use super::line::{Line, Point};
use super::style::FLOOR;

const MOST_X_TICKS: usize = 6;
const MOST_Y_TICKS: usize = 8;

/// What lies on the horizontal axis.
pub(super) struct XAxis {
    pub name: &'static str,
    pub text: fn(f64) -> String,
}

/// A panel for each diagram (a title and its lines) that has a line; the axes reach over all lines.
pub(super) fn panels(mut diagrams: Vec<(String, Vec<Line>)>, x_axis: &XAxis) -> Vec<Panel> {
    share_floor(&mut diagrams);
    let points: Vec<Point> = diagrams
        .iter()
        .flat_map(|(_, lines)| lines.iter().flat_map(|line| line.points.clone()))
        .collect();
    let x = Axis::over(points.iter().map(|point| point.x), 2.0, MOST_X_TICKS);
    let heights = points.iter().flat_map(|point| {
        let (low, high) = point.spread.unwrap_or((point.median, point.median));
        [low, point.median, high]
    });
    let y = Axis::over(heights, 10.0, MOST_Y_TICKS);
    let (Some(x), Some(y)) = (x, y) else {
        return Vec::new();
    };
    let diagrams = diagrams.into_iter().filter(|(_, lines)| !lines.is_empty());
    let panels = diagrams.map(|(title, lines)| Panel {
        title,
        x_name: x_axis.name,
        x_text: x_axis.text,
        x: x.clone(),
        y: y.clone(),
        lines,
    });
    panels.collect()
}

/// A launch that allocates nothing frees nothing either: where it was timed for one diagram only,
/// it is the floor of the others too.
fn share_floor(diagrams: &mut [(String, Vec<Line>)]) {
    let is_floor = |line: &&Line| line.allocator == FLOOR;
    let mut all = diagrams.iter().flat_map(|(_, lines)| lines);
    let Some(floor) = all.find(is_floor).cloned() else {
        return;
    };
    for (_, lines) in diagrams {
        if !lines.is_empty() && lines.iter().find(is_floor).is_none() {
            lines.insert(0, floor.clone());
        }
    }
}
