//! Logarithmic axes: their ends, their ticks, and the ticks' texts.

/// A logarithmic axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub least: f64,
    pub most: f64,
    pub ticks: Vec<f64>,
}

impl Axis {
    /// An axis over all of these values, with a little room at its ends and ticks at powers of
    /// `base`, of which there are at most `most_ticks`. Nothing if no value has a place on it.
    pub fn over(values: impl Iterator<Item = f64>, base: f64, most_ticks: usize) -> Option<Self> {
        let mut ends: Option<(f64, f64)> = None;
        for value in values.filter(|value| can_show(*value)) {
            let (least, most) = ends.unwrap_or((value, value));
            ends = Some((least.min(value), most.max(value)));
        }
        let (least, most) = ends?;
        let room = (most / least).powf(0.04).max(1.15);
        let (least, most) = (least / room, most * room);
        let ticks = ticks(least, most, base, most_ticks);
        Some(Self { least, most, ticks })
    }

    /// The same axis reaching at least from `least` to `most`.
    pub fn reaching(self, least: f64, most: f64, base: f64, most_ticks: usize) -> Self {
        let (least, most) = (self.least.min(least), self.most.max(most));
        let ticks = ticks(least, most, base, most_ticks);
        Self { least, most, ticks }
    }
}

/// Whether a value has a place on a logarithmic axis: no time, size or ratio is beyond these ends.
pub(super) fn can_show(value: f64) -> bool {
    (1e-9..1e18).contains(&value)
}

/// Every power of `base` from `least` to `most`, or every second, third and so on, so that they are
/// not too many. Where they are too few, multiples of powers of ten stand between them; where there
/// is none, there is one in the middle.
fn ticks(least: f64, most: f64, base: f64, most_ticks: usize) -> Vec<f64> {
    const FEW: usize = 3;
    const BETWEEN: [&[f64]; 2] = [&[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]];
    let mut powers = powers(least, most, base, most_ticks);
    if powers.is_empty() {
        powers.push((least * most).sqrt());
    }
    if powers.len() >= FEW || base < 10.0 {
        return powers;
    }
    let multiples = |digits: &[f64]| -> Vec<f64> {
        let powers = exponents(least, most, base).map(|exponent| base.powi(exponent));
        let all = powers.flat_map(|power| digits.iter().map(move |digit| digit * power));
        all.filter(|tick| (least..=most).contains(tick)).collect()
    };
    let [coarse, fine] = BETWEEN.map(multiples);
    let is_enough = |ticks: &Vec<f64>| (FEW..=most_ticks).contains(&ticks.len());
    let mut choices = [coarse, fine].into_iter();
    choices.find(is_enough).unwrap_or(powers)
}

/// Exponents of all powers of `base` from `least` to `most`, and the next ones on both sides.
fn exponents(least: f64, most: f64, base: f64) -> std::ops::RangeInclusive<i32> {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "exponents of finite numbers are small"
    )]
    let exponent = |value: f64| (value.ln() / base.ln()) as i32;
    exponent(least) - 1..=exponent(most) + 1
}

/// At most so many powers of `base` from `least` to `most`, at equal distances.
fn powers(least: f64, most: f64, base: f64, most_ticks: usize) -> Vec<f64> {
    let is_on_axis = |exponent: &i32| (least..=most).contains(&base.powi(*exponent));
    let all: Vec<i32> = exponents(least, most, base).filter(is_on_axis).collect();
    let step = i32::try_from(all.len().div_ceil(most_ticks.max(1))).unwrap_or(1);
    let shown = all
        .into_iter()
        .filter(|exponent| exponent.rem_euclid(step.max(1)) == 0);
    shown.map(|exponent| base.powi(exponent)).collect()
}

/// A time given in microseconds.
pub(super) fn time_text(microseconds: f64) -> String {
    match microseconds {
        1e6.. => format!("{} s", short(microseconds / 1e6)),
        1e3.. => format!("{} ms", short(microseconds / 1e3)),
        _ => format!("{} µs", short(microseconds)),
    }
}

/// A number of bytes.
pub(super) fn bytes_text(bytes: f64) -> String {
    let units = [
        ("GiB", 1024.0_f64.powi(3)),
        ("MiB", 1024.0_f64.powi(2)),
        ("KiB", 1024.0),
    ];
    match units.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{} {name}", short(bytes / unit)),
        None => format!("{} B", short(bytes)),
    }
}

/// A number of threads, in words.
pub(super) fn count_text(threads: f64) -> String {
    let plural = if threads > 1.0 { "s" } else { "" };
    format!("{} thread{plural}", threads_text(threads))
}

/// A number of threads: as a power of two if it is one and not small.
pub(super) fn threads_text(threads: f64) -> String {
    let power = threads.log2().round();
    if threads < 1024.0 || (power.exp2() - threads).abs() > 0.5 {
        return short(threads);
    }
    let superscript = |digit: char| match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        _ => digit
            .to_digit(10)
            .and_then(|digit| char::from_u32(u32::from('⁰') + digit))
            .unwrap_or(digit),
    };
    let exponent: String = power.to_string().chars().map(superscript).collect();
    format!("2{exponent}")
}

/// A ratio.
pub(super) fn ratio_text(ratio: f64) -> String {
    match ratio {
        1e6.. => format!("{} million×", short(ratio / 1e6)),
        1e4.. => format!("{} 000×", short(ratio / 1e3)),
        _ => format!("{}×", short(ratio)),
    }
}

/// Two digits at most behind the point, more where there would be nothing but zeros, without zeros at the end.
fn short(value: f64) -> String {
    // As many as it takes to show two of a small number.
    let small = (2..=12).find(|digits| value * 10_f64.powi(*digits) >= 10.0);
    let digits = match value {
        100.0.. => 0,
        0.1.. => 2,
        _ => small.map_or(2, i32::unsigned_abs) as usize,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_for_people() {
        assert_eq!(time_text(7.4), "7.4 µs");
        assert_eq!(time_text(100_000.0), "100 ms");
        assert_eq!(time_text(1e6), "1 s");
        assert_eq!(bytes_text(16.0), "16 B");
        assert_eq!(bytes_text(1536.0), "1.5 KiB");
        assert_eq!(threads_text(32.0), "32");
        assert_eq!(threads_text(1_048_576.0), "2²⁰");
        assert_eq!(threads_text(3000.0), "3000");
        assert_eq!(time_text(0.004), "0.004 µs");
        assert_eq!(ratio_text(0.05), "0.05×");
        assert_eq!(ratio_text(0.001), "0.001×");
        assert_eq!(ratio_text(0.000_25), "0.00025×");
        assert_eq!(ratio_text(1.5), "1.5×");
        assert_eq!(ratio_text(100_000.0), "100 000×");
    }

    #[test]
    fn ticks_are_few_and_on_the_axis() {
        let axis = Axis::over([1.0, 2e6].into_iter(), 10.0, 4).expect("values");
        assert!(axis.ticks.len() <= 4 && !axis.ticks.is_empty(), "{axis:?}");
        let on_axis = |tick: &f64| (axis.least..=axis.most).contains(tick);
        assert!(axis.ticks.iter().all(on_axis), "{axis:?}");
    }

    #[test]
    fn a_short_axis_has_ticks_between_the_powers() {
        let ticks =
            |least, most| Axis::over([least, most].into_iter(), 10.0, 8).map(|axis| axis.ticks);
        assert_eq!(ticks(18.0, 60.0), Some(vec![20.0, 30.0, 40.0, 50.0, 60.0]));
        assert_eq!(ticks(1.0, 10.0), Some(vec![1.0, 2.0, 5.0, 10.0]));
    }

    #[test]
    fn values_without_a_place_make_no_axis() {
        let values = [0.0, -1.0, f64::NAN, f64::INFINITY];
        assert_eq!(Axis::over(values.into_iter(), 10.0, 4), None);
    }

    #[test]
    fn one_value_makes_an_axis_with_room() {
        let axis = Axis::over([5.0].into_iter(), 10.0, 4).expect("a value");
        assert!(axis.least < 5.0 && 5.0 < axis.most);
        for value in [24.0, 3000.0, 65536.0, 0.37] {
            for base in [2.0, 10.0] {
                let axis = Axis::over([value].into_iter(), base, 4).expect("a value");
                let on_axis = |tick: &f64| (axis.least..=axis.most).contains(tick);
                assert!(axis.ticks.iter().any(on_axis), "{value}: {axis:?}");
            }
        }
    }
}
