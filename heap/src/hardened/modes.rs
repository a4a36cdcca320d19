//! The modes, and how they are named.

use core::fmt;
use core::ops::BitOr;
use core::str::FromStr;

/// A set of modes. They share a word with the heap's other flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hardening(u32);

impl Hardening {
    /// No mode.
    pub const NONE: Self = Self(0);
    /// What lies before and behind the bytes asked for is verified when a block is freed or resized.
    pub const RED_ZONES: Self = Self(1 << 1);
    /// Freed memory is filled with a pattern, and verified when it is handed out again.
    pub const POISON: Self = Self(1 << 2);
    /// The bytes asked for are zero.
    pub const ZERO: Self = Self(1 << 3);
    /// Freed blocks go round a ring before their memory can be handed out again.
    pub const QUARANTINE: Self = Self(1 << 4);
    /// The first misuse ends the kernel.
    pub const TRAP: Self = Self(1 << 5);
    /// Blocks know the site that `malloc_tagged` was given.
    pub const TAGS: Self = Self(1 << 6);

    /// Each mode and its name on a command line.
    pub const NAMES: [(Self, &'static str); 6] = [
        (Self::RED_ZONES, "red-zones"),
        (Self::POISON, "poison"),
        (Self::ZERO, "zero"),
        (Self::QUARANTINE, "quarantine"),
        (Self::TRAP, "trap"),
        (Self::TAGS, "tags"),
    ];

    /// The modes whose blocks are framed.
    const FRAMED: Self =
        Self(Self::RED_ZONES.0 | Self::POISON.0 | Self::QUARANTINE.0 | Self::TAGS.0);

    /// All modes.
    #[must_use]
    pub const fn all() -> Self {
        Self(Self::FRAMED.0 | Self::ZERO.0 | Self::TRAP.0)
    }

    /// Those modes that flags of a heap have.
    #[must_use]
    pub const fn of_flags(flags: u32) -> Self {
        Self(flags & Self::all().0)
    }

    /// The modes as flags of a heap.
    #[must_use]
    pub const fn flags(self) -> u32 {
        self.0
    }

    /// Whether all of `other` are in the set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The modes that are in this set, and not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there is no mode.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether blocks have a header.
    #[must_use]
    pub const fn is_framed(self) -> bool {
        self.0 & Self::FRAMED.0 != 0
    }

    /// Bytes that a block takes beyond those asked for, at the usual alignment and before rounding.
    #[must_use]
    pub const fn overhead(self) -> u64 {
        let header = if self.is_framed() { 16 } else { 0 };
        header + self.tail()
    }

    /// Bytes that a tail has at least.
    pub(crate) const fn tail(self) -> u64 {
        if self.contains(Self::RED_ZONES) {
            super::LEAST_TAIL
        } else {
            0
        }
    }
}

impl BitOr for Hardening {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The modes' names, with commas between; `none` of none.
impl fmt::Display for Hardening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return formatter.write_str("none");
        }
        let mut separator = "";
        for (mode, name) in Self::NAMES {
            if self.contains(mode) {
                write!(formatter, "{separator}{name}")?;
                separator = ",";
            }
        }
        Ok(())
    }
}

/// A name that no mode has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMode;

impl fmt::Display for UnknownMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("this is no mode: use all, none, or some of ")?;
        let mut separator = "";
        for (_, name) in Hardening::NAMES {
            write!(formatter, "{separator}{name}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl core::error::Error for UnknownMode {}

/// Names with commas between, `all` or `none`.
impl FromStr for Hardening {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        let mode = |name: &str| match name.trim() {
            "all" => Ok(Self::all()),
            "none" => Ok(Self::NONE),
            name => Self::NAMES
                .into_iter()
                .find_map(|(mode, known)| (known == name).then_some(mode))
                .ok_or(UnknownMode),
        };
        text.split(',')
            .try_fold(Self::NONE, |modes, name| Ok(modes | mode(name)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let all = Hardening::all();
        assert_eq!(
            all.to_string(),
            "red-zones,poison,zero,quarantine,trap,tags"
        );
        assert_eq!(all.to_string().parse(), Ok(all));
        assert_eq!("all".parse(), Ok(all));
        assert_eq!("none".parse(), Ok(Hardening::NONE));
        assert_eq!("zero, tags".parse(), Ok(Hardening::ZERO | Hardening::TAGS));
        assert_eq!("red".parse::<Hardening>(), Err(UnknownMode));
        assert_eq!("".parse::<Hardening>(), Err(UnknownMode));
    }
}
