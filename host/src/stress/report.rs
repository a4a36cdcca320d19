//! What a workload did and found.

use super::{Settings, Workload};
use crate::error::Result;
use crate::heap::Heap;
use crate::tally::Counted;
use crate::timeline::Moment;
use heap_core::inspect::{MisuseReport, Occupancy};
use heap_core::misuse::Misuse;
use kernels::tally::Count;
use serde::Serialize;

/// Result of a workload. Same shape on every device.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was run.
    pub workload: Workload,
    /// How the device is selected.
    pub device: String,
    /// Capacity of the heap in bytes.
    pub heap: u64,
    /// How large the workload was.
    #[serde(flatten)]
    pub settings: Settings,
    /// Calls that gave or took a block.
    pub operations: u64,
    /// Bytes asked for by calls that gave a block.
    pub bytes: u64,
    /// Seconds in kernels that allocate or free, by the device's clock. They fill and check too.
    pub seconds: f64,
    /// Operations divided by seconds.
    pub operations_per_second: f64,
    /// Calls that gave NULL.
    pub nulls: u64,
    /// Blocks whose content was not what their owner wrote.
    pub corrupt: u64,
    /// Blocks that shared a byte with another.
    pub overlaps: u64,
    /// Blocks not aligned as asked.
    pub misaligned: u64,
    /// Blocks not wholly inside the heap, or smaller than asked.
    pub out_of_bounds: u64,
    /// Blocks still allocated at the end.
    pub leaked: u64,
    /// Whether the heap's blocks were framed.
    pub framed: bool,
    /// Calls by which the workload misused the heap, of each kind that there is a plain pointer for.
    pub injected: u64,
    /// How many fewer of these calls passed a pointer into a page that is in no use, for there was no such page.
    pub retired_left_out: u64,
    /// Calls that the heap refused.
    pub misuses: MisuseReport,
    /// Whether one request took the whole heap at the end.
    pub whole_heap_at_end: bool,
    /// Invariants that did not hold at the end.
    pub violations: Vec<String>,
    /// The heap where it was fullest, as far as it was looked at.
    pub peak: Occupancy,
    /// The heap over time, if the settings ask for moments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Moment>,
}

impl Report {
    /// How often a misuse of a kind should have been counted.
    #[must_use]
    pub fn expected(&self, kind: Misuse) -> u64 {
        // A header tells what it is.
        let freed = if self.framed {
            Misuse::DoubleFree
        } else {
            Misuse::NotAllocated
        };
        match kind {
            Misuse::Retired => self.injected - self.retired_left_out,
            Misuse::Foreign | Misuse::Interior | Misuse::Stale => self.injected,
            other if other == freed => self.injected,
            _ => 0,
        }
    }

    /// Whether something was tried, and nothing was found wrong. NULL is not wrong.
    #[must_use]
    pub fn passed(&self) -> bool {
        let counts = [
            self.corrupt,
            self.overlaps,
            self.misaligned,
            self.out_of_bounds,
            self.leaked,
        ];
        self.operations > 0
            && counts.iter().all(|count| *count == 0)
            && self
                .misuses
                .iter()
                .all(|kind| kind.count == self.expected(kind.kind))
            && self.whole_heap_at_end
            && self.violations.is_empty()
    }
}

pub(super) fn make(
    heap: &Heap,
    workload: Workload,
    settings: &Settings,
    counted: &Counted,
    seconds: f64,
    peak: Occupancy,
    whole_heap_at_end: bool,
) -> Result<Report> {
    let snapshot = heap.snapshot()?;
    let occupancy = snapshot.occupancy();
    let operations = counted.of(Count::Operations);
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    let operations_per_second = operations as f64 / seconds.max(1e-9);
    Ok(Report {
        workload,
        device: heap.device().label(),
        heap: heap.capacity(),
        settings: *settings,
        operations,
        bytes: counted.of(Count::Bytes),
        seconds,
        operations_per_second,
        nulls: counted.of(Count::Nulls),
        corrupt: counted.of(Count::Corrupt),
        overlaps: counted.of(Count::Overlaps),
        misaligned: counted.of(Count::Misaligned),
        out_of_bounds: counted.of(Count::OutOfBounds),
        leaked: occupancy.used_blocks,
        framed: heap.hardening().is_framed(),
        injected: match workload {
            Workload::Misuse => u64::from(settings.threads) * u64::from(settings.rounds),
            _ => 0,
        },
        retired_left_out: 0,
        misuses: occupancy.misuses,
        whole_heap_at_end,
        violations: snapshot
            .violations()
            .iter()
            .map(ToString::to_string)
            .collect(),
        peak,
        timeline: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::stress;

    #[test]
    fn who_tried_nothing_has_not_passed() {
        let device = Device::cpu_with_threads(2);
        let heap = Heap::builder(&device).capacity(1 << 20).build();
        let heap = heap.expect("there is memory for it");
        let settings = Settings {
            threads: 32,
            rounds: 2,
            ..Settings::for_workload(Workload::Mixed, &heap)
        };
        let report = stress::run(&heap, Workload::Mixed, &settings, &mut |_, _| ());
        let mut report = report.expect("it runs");
        assert!(report.passed(), "{report:?}");
        report.operations = 0;
        assert!(!report.passed());
    }
}
