//! How the heap was misused: what it counted, by kind.

use super::Snapshot;
use crate::misuse::{MISUSES, Misuse};
use core::fmt;
use serde::Serialize;

/// Misuses of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Misused {
    /// The kind.
    pub kind: Misuse,
    /// How many there were since the heap was made or reset.
    pub count: u64,
    /// The addresses that were passed first, one for each call: at most
    /// [`KEPT_ADDRESSES`](crate::misuse::KEPT_ADDRESSES). Calls that passed none have none here.
    pub addresses: Vec<u64>,
}

/// Misuses of a heap, by kind. Its `Display` has one line for each kind that there was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MisuseReport {
    /// By the kind's number.
    kinds: [Misused; MISUSES],
}

impl MisuseReport {
    /// Misuses of a kind.
    #[must_use]
    pub fn of(&self, kind: Misuse) -> &Misused {
        &self.kinds[kind as usize]
    }

    /// How many misuses of a kind there were.
    #[must_use]
    pub fn count(&self, kind: Misuse) -> u64 {
        self.of(kind).count
    }

    /// Every kind, also those that there were none of.
    pub fn iter(&self) -> impl Iterator<Item = &Misused> {
        self.kinds.iter()
    }

    /// All misuses.
    #[must_use]
    pub fn total(&self) -> u64 {
        let counts = self.kinds.iter().map(|kind| kind.count);
        counts.fold(0, u64::saturating_add)
    }

    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }
}

impl fmt::Display for MisuseReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut found = self.kinds.iter().filter(|kind| kind.count > 0);
        let Some(first) = found.next() else {
            return formatter.write_str("no misuse");
        };
        first.fmt(formatter)?;
        found.try_for_each(|kind| write!(formatter, "\n{kind}"))
    }
}

impl fmt::Display for Misused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = if self.count == 1 { "time" } else { "times" };
        write!(formatter, "{}: {} {times}", self.kind.name(), self.count)?;
        let separators = [", at "].into_iter().chain(core::iter::repeat(", "));
        let mut addresses = self.addresses.iter().zip(separators);
        addresses.try_for_each(|(address, separator)| write!(formatter, "{separator}{address:#x}"))
    }
}

impl Snapshot {
    /// How the heap was misused since it was made or reset.
    #[must_use]
    pub fn misuse_report(&self) -> MisuseReport {
        let globals = self.globals();
        let kinds = Misuse::ALL.map(|kind| Misused {
            kind,
            count: globals.misuses[kind as usize],
            addresses: globals.misused[kind as usize]
                .into_iter()
                .filter(|address| *address != 0)
                .collect(),
        });
        MisuseReport { kinds }
    }
}
