//! What a litmus test tried and found.

use super::{Settings, Variant};
use crate::device::Device;
use kernels::litmus::tally::LitmusCount;
use serde::Serialize;

/// Result of a litmus test. Same shape on every device.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was tried.
    pub variant: Variant,
    /// How the device is selected.
    pub device: String,
    /// The seed of the sizes.
    pub seed: u64,
    /// Rounds: a block was asked for, compared, stamped and freed.
    pub tries: u64,
    /// Seconds of the launches, by the device's clock.
    pub seconds: f64,
    /// Blocks in which another thread of the same launch had been last.
    pub meetings: u64,
    /// Pairs of rounds in which two threads freed a block each and then got each other's.
    pub crossings: u64,
    /// Calls that gave NULL.
    pub nulls: u64,
    /// Forbidden: granules whose content was not what the last owner wrote before `free`.
    pub stale_blocks: u64,
    /// Forbidden: what the last owner wrote elsewhere before `free` was not there.
    pub stale_elsewhere: u64,
    /// Forbidden: blocks that `realloc` copied wrong.
    pub stale_copies: u64,
    /// Forbidden: granules that had an owner already.
    pub shared: u64,
    /// Cells that could not be prepared.
    pub unprepared: u64,
    /// Invariants that did not hold in the first cells at the end.
    pub violations: Vec<String>,
}

impl Report {
    pub(super) fn new(
        device: &Device,
        variant: Variant,
        settings: &Settings,
        counts: &[u64],
        seconds: f64,
        violations: Vec<String>,
    ) -> Self {
        let of = |count: LitmusCount| counts[count as usize];
        Self {
            variant,
            device: device.label(),
            seed: settings.seed,
            tries: of(LitmusCount::Tries),
            seconds,
            meetings: of(LitmusCount::Meetings),
            crossings: of(LitmusCount::Crossings),
            nulls: of(LitmusCount::Nulls),
            stale_blocks: of(LitmusCount::StaleBlock),
            stale_elsewhere: of(LitmusCount::StaleElsewhere),
            stale_copies: of(LitmusCount::StaleCopy),
            shared: of(LitmusCount::Shared),
            unprepared: of(LitmusCount::Unprepared),
            violations,
        }
    }

    /// Forbidden outcomes of all kinds.
    #[must_use]
    pub fn forbidden(&self) -> u64 {
        self.stale_blocks + self.stale_elsewhere + self.stale_copies + self.shared
    }

    /// Whether something was tried, and nothing was wrong. NULL is not wrong.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.forbidden() == 0
            && self.unprepared == 0
            && self.violations.is_empty()
            && self.meetings > 0
    }
}
