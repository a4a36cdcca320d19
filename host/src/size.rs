//! Sizes as people write them: `512MiB`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes that reads and prints with a binary unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Units by their binary logarithm.
const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

/// The first number of bytes that 64 bits do not hold.
const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;

impl fmt::Display for Bytes {
    #[allow(clippy::cast_precision_loss, reason = "for people, three digits do")]
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, shift) = UNITS
            .into_iter()
            .find(|(_, shift)| self.0 >> shift != 0)
            .unwrap_or(("B", 0));
        if self.0.trailing_zeros() >= shift {
            write!(formatter, "{} {unit}", self.0 >> shift)
        } else {
            let amount = self.0 as f64 / (1_u64 << shift) as f64;
            write!(
                formatter,
                "{amount:.*} {unit}",
                if amount < 10.0 { 2 } else { 1 }
            )
        }
    }
}

/// A size that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no size, or one of 2^64 bytes and more: write a number with a unit, such as `512MiB`, `16GiB` or `4096`"
)]
pub struct BadSize(String);

impl FromStr for Bytes {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let bad = || BadSize(text.into());
        let trimmed = text.trim();
        let digits = trimmed.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (number, unit) = trimmed.split_at(digits.unwrap_or(trimmed.len()));
        let unit = unit.trim().to_ascii_lowercase();
        let shift = UNITS
            .into_iter()
            .find(|(name, _)| {
                let name = name.to_ascii_lowercase();
                // "m", "mb" and "mib" all mean 2^20.
                unit == name || unit == name[..1] || unit == name.replace('i', "")
            })
            .map(|(_, shift)| shift)
            .or(unit.is_empty().then_some(0))
            .ok_or_else(bad)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(1 << shift).map(Self).ok_or_else(bad);
        }
        let fraction = number.parse::<f64>().map_err(|_| bad())?;
        #[allow(
            clippy::cast_precision_loss,
            reason = "a fraction of a unit is approximate"
        )]
        let bytes = fraction * (1_u64 << shift) as f64;
        if !(0.0..TOO_LARGE).contains(&bytes) {
            return Err(bad());
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above"
        )]
        Ok(Self(bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("4096", 4096),
            ("512MiB", 512 << 20),
            ("512 mb", 512 << 20),
            ("16G", 16 << 30),
            ("1.5KiB", 1536),
            ("0", 0),
            ("7b", 7),
            ("6452245.2TiB", 7_094_318_622_661_882_880),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in [
            "",
            "MiB",
            "12 parsecs",
            "-1",
            "1e9",
            "99999999999TiB",
            "16777216.0TiB",
            "1.2.3K",
            "NaN",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn prints_with_the_largest_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1 << 20, "1 MiB"),
            (1_500_000, "1.43 MiB"),
            (141 << 30, "141 GiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
