//! Keeps the labels of lines apart.

/// Moves heights (pixels from the top) apart until each is at least `gap` from the next, and all
/// lie between `top` and `bottom` if there is room. Their order from top to bottom stays.
pub(super) fn spread(heights: &[i32], gap: i32, top: i32, bottom: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by_key(|index| heights[*index]);
    let mut placed = heights.to_vec();
    let mut next = top;
    for index in &order {
        placed[*index] = placed[*index].max(next);
        next = placed[*index] + gap;
    }
    let mut last = bottom;
    for index in order.iter().rev() {
        placed[*index] = placed[*index].min(last);
        last = placed[*index] - gap;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn labels_that_are_apart_stay() {
        assert_eq!(spread(&[50, 10, 90], 14, 0, 100), [50, 10, 90]);
    }

    #[test]
    fn labels_that_meet_are_moved_within_the_panel() {
        let placed = spread(&[98, 99, 97, 20], 14, 0, 100);
        assert_eq!(placed, [86, 100, 72, 20]);
    }
}
