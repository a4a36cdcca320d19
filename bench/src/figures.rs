//! What a test finds out about an allocator, told as it is found.

use crate::case::Case;
use crate::row::{Event, Row};

/// Takes the figures of one allocator in one case.
pub(crate) struct Figures<'a> {
    /// The case.
    pub case: Case,
    /// The allocator's name, or that of a baseline.
    pub allocator: String,
    /// Is told.
    pub on_event: &'a mut dyn FnMut(Event),
}

impl Figures<'_> {
    /// One figure.
    pub fn one(&mut self, metric: &str, value: f64) {
        (self.on_event)(Event::Row(Row {
            test: self.case.test.name().into(),
            allocator: self.allocator.clone(),
            size: self.case.most,
            n: u64::from(self.case.n),
            metric: metric.into(),
            value,
        }));
    }

    /// A count.
    #[allow(clippy::cast_precision_loss, reason = "counts are below 2^52")]
    pub fn count(&mut self, metric: &str, count: u64) {
        self.one(metric, count as f64);
    }

    /// The median of samples, and their spread as `metric_p10` and `metric_p90`. Nothing if there are none.
    pub fn spread(&mut self, metric: &str, samples: &[f64]) {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        for (suffix, share) in [("", 0.5), ("_p10", 0.1), ("_p90", 0.9)] {
            if let Some(value) = quantile(&sorted, share) {
                self.one(&format!("{metric}{suffix}"), value);
            }
        }
    }
}

/// The value below which `share` of the sorted samples lie, between two of them by proportion.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "there are few samples, and the place is between the first and the last"
)]
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let part = place - place.floor();
    let (below, above) = (sorted[below], sorted[above]);
    // Never beyond the two: rounding would put the tenth percentile of equal samples above them.
    Some((below + (above - below) * part).min(above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Test;

    #[test]
    fn quantiles_lie_between_samples() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0], 0.9), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.5));
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), Some(2.0));
        for share in 0..=100 {
            let share = f64::from(share) / 100.0;
            assert_eq!(quantile(&[41.352; 3], share), Some(41.352), "{share}");
        }
    }

    #[test]
    fn samples_in_any_order_give_a_median_and_a_spread() {
        let mut rows = Vec::new();
        let mut on_event = |event| match event {
            Event::Row(row) => rows.push((row.metric, row.value)),
            other => panic!("{other:?}"),
        };
        let mut figures = Figures {
            case: Case {
                test: Test::Uniform,
                least: 16,
                most: 16,
                n: 1,
            },
            allocator: "any".into(),
            on_event: &mut on_event,
        };
        figures.spread("alloc_us", &[5.0, 1.0, 3.0, 2.0, 4.0]);
        figures.spread("free_us", &[]);
        let expected = [
            ("alloc_us", 3.0),
            ("alloc_us_p10", 1.4),
            ("alloc_us_p90", 4.6),
        ];
        assert_eq!(rows.len(), expected.len());
        for ((metric, value), expected) in rows.iter().zip(expected) {
            assert_eq!(metric, expected.0);
            assert!((value - expected.1).abs() < 1e-9, "{value}");
        }
    }
}
