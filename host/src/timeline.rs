//! A heap over time: what it held at moments between the launches of a run.
//!
//! Who looks waits for the device, so a moment is never inside of what is timed. A run may have any
//! number of steps; there are at most as many moments as were asked for, evenly spread, and of a step
//! either all moments or none: where blocks come and go in turns, both are seen.

use crate::heat_map::HeatMap;
use crate::snapshot::Snapshot;
use heap_core::inspect::{Occupancy, PageOccupancy, PageUse};
use serde::{Deserialize, Serialize};

/// Cells of a moment's map at most.
const MOST_CELLS: usize = 1024;

/// A heap at a moment of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// What was done last, such as `window 3`.
    pub after: String,
    /// Seconds that the launches took so far, by the device's clock.
    pub seconds: f64,
    /// Calls so far that gave or took a block.
    pub operations: u64,
    /// Bytes that the live blocks were asked for with, where that is known.
    pub asked_bytes: Option<u64>,
    /// What the heap held.
    #[serde(flatten)]
    pub state: HeapState,
}

/// What a heap holds, in few bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeapState {
    /// Bytes that can be allocated so far.
    pub capacity: u64,
    /// Bytes of all blocks that are handed out, as they were rounded up.
    pub used_bytes: u64,
    /// Blocks that are handed out.
    pub used_blocks: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// What the pages are used for.
    pub pages: PageOccupancy,
    /// The largest request that `malloc` would serve.
    pub largest_request: u64,
    /// Share of the available pages outside of the longest run of them, 0 to 1.
    pub external_fragmentation: f64,
    /// Requests answered with NULL so far.
    pub nulls: u64,
    /// The sizes of which there are slabs, from the smallest.
    pub sizes: Vec<SizeUse>,
    /// Runs of pages that are handed out.
    pub runs: u64,
    /// The heap from its first page to its last.
    pub map: MomentMap,
}

impl HeapState {
    /// The state of a heap that is so full, and whose pages are used like that.
    #[must_use]
    pub fn new(occupancy: &Occupancy, pages: &[PageUse]) -> Self {
        Self {
            capacity: occupancy.capacity,
            used_bytes: occupancy.used_bytes,
            used_blocks: occupancy.used_blocks,
            page_bytes: occupancy.page_bytes,
            pages: occupancy.pages,
            largest_request: occupancy.largest_request,
            external_fragmentation: occupancy.external_fragmentation,
            nulls: nulls(occupancy),
            sizes: sizes(occupancy),
            runs: occupancy.runs.count,
            map: MomentMap::new(pages, occupancy.page_bytes),
        }
    }
}

/// The slots of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeUse {
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Slots handed out.
    pub used: u64,
    /// Slots of all slabs.
    pub slots: u64,
}

/// A [`HeatMap`] in few bytes: an entry of each list for each cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MomentMap {
    /// Pages of each cell.
    pub pages_per_cell: usize,
    /// What most pages of a cell are used for: [`FREE`](Self::FREE), [`RUN`](Self::RUN), [`LOST`](Self::LOST), or
    /// else the bytes of the slots of their slabs.
    pub contents: Vec<u32>,
    /// Per cent of the cell's bytes that are handed out.
    pub used: Vec<u8>,
}

impl MomentMap {
    /// Free pages; no slot has so few bytes.
    pub const FREE: u32 = 0;
    /// Pages of runs.
    pub const RUN: u32 = 1;
    /// Pages in no use that makes sense.
    pub const LOST: u32 = 2;

    fn new(pages: &[PageUse], page_bytes: u64) -> Self {
        let map = HeatMap::new(pages, page_bytes, MOST_CELLS);
        let contents = map.cells.iter().map(|cell| {
            let slots = (cell.in_slabs, cell.slot_bytes.unwrap_or(Self::FREE));
            let other = [
                (cell.in_runs, Self::RUN),
                (cell.lost, Self::LOST),
                // Of a cell that is half free it is of interest what is in the other half.
                (cell.free.min(1), Self::FREE),
            ];
            let most = other.into_iter().fold(
                slots,
                |most, next| if next.0 > most.0 { next } else { most },
            );
            most.1
        });
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share from 0 to 1"
        )]
        let used = map
            .cells
            .iter()
            .map(|cell| (cell.used * 100.0).round() as u8);
        Self {
            pages_per_cell: map.pages_per_cell,
            contents: contents.collect(),
            used: used.collect(),
        }
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    pub seconds: f64,
    pub operations: u64,
    pub asked_bytes: Option<u64>,
}

/// The moments of a run, as they are collected.
#[derive(Debug)]
pub(crate) struct Timeline {
    most: u32,
    moments: Vec<Moment>,
}

impl Timeline {
    /// A line of at most so many moments, besides the first and the last.
    pub fn new(most: u32) -> Self {
        Self {
            most,
            moments: Vec::new(),
        }
    }

    /// Whether step `step` of `steps` is to be looked at, of which each has `looks` moments.
    pub fn wants(&self, step: u32, steps: u32, looks: u32) -> bool {
        if self.most == 0 {
            return false;
        }
        let stride = steps.saturating_mul(looks).div_ceil(self.most).max(1);
        step.is_multiple_of(stride) || step + 1 == steps
    }

    /// Whether there are to be any moments.
    pub fn is_wanted(&self) -> bool {
        self.most > 0
    }

    pub fn add(&mut self, after: String, reached: Reached, snapshot: &Snapshot) {
        self.moments.push(Moment {
            after,
            seconds: reached.seconds,
            operations: reached.operations,
            asked_bytes: reached.asked_bytes,
            state: HeapState::new(&snapshot.occupancy(), &snapshot.page_map()),
        });
    }

    pub fn finish(self) -> Vec<Moment> {
        self.moments
    }
}

fn nulls(occupancy: &Occupancy) -> u64 {
    let classes = occupancy.classes.iter().map(|class| &class.failures);
    let failures = classes.chain([&occupancy.runs.failures]);
    failures.fold(0, |sum, failures| sum.saturating_add(failures.total()))
}

fn sizes(occupancy: &Occupancy) -> Vec<SizeUse> {
    let classes = occupancy.classes.iter().filter(|class| class.slabs > 0);
    let sizes = classes.map(|class| SizeUse {
        slot_bytes: class.slot_bytes,
        used: class.used,
        slots: class.slots,
    });
    sizes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Grid};
    use crate::heap::Heap;
    use kernels::blocks::{Allocate, Block, BlocksArguments};
    use kernels::sizes::Sizes;
    use kernels::tally::Tally;

    #[test]
    fn there_are_as_many_moments_as_asked_for() {
        for most in 1..40 {
            let timeline = Timeline::new(most);
            for steps in 1..200_u32 {
                for looks in 1..3 {
                    let wanted = (0..steps).filter(|step| timeline.wants(*step, steps, looks));
                    let moments = u32::try_from(wanted.count()).expect("few") * looks;
                    // The last step is always looked at, and of a step all moments.
                    assert!((1..=most + 2 * looks).contains(&moments), "{most} {steps}");
                    assert!(
                        timeline.wants(0, steps, looks) && timeline.wants(steps - 1, steps, looks)
                    );
                }
            }
        }
        assert!(!Timeline::new(0).wants(0, 1, 1));
    }

    #[test]
    fn a_moment_says_what_the_heap_holds() {
        let device = Device::cpu();
        let heap = Heap::builder(&device)
            .capacity(1 << 20)
            .build()
            .expect("a heap");
        let blocks = device
            .allocate(100 * size_of::<Block>() as u64)
            .expect("memory");
        let tally = device.allocate(size_of::<Tally>() as u64).expect("memory");
        tally.clear().expect("cleared");
        let arguments = BlocksArguments {
            heap: heap.handle().expect("a handle"),
            blocks: blocks.address(),
            count: 100,
            tally: tally.address(),
            first_owner: 1,
            sizes: Sizes {
                least: 64,
                most: 64,
                seed: 1,
            },
            stride: 1,
        };
        // SAFETY: there are 100 blocks.
        unsafe {
            heap.launch::<Allocate>(Grid::of(100), &arguments)
                .expect("launched");
        };
        let snapshot = heap.snapshot().expect("a snapshot");
        let mut timeline = Timeline::new(1);
        timeline.add("all".into(), Reached::default(), &snapshot);
        let moments = timeline.finish();
        let [Moment { state: moment, .. }] = &moments[..] else {
            panic!("{moments:?}")
        };
        assert_eq!((moment.used_blocks, moment.used_bytes), (100, 6400));
        let of_64 = moment.sizes.iter().find(|size| size.slot_bytes == 64);
        assert_eq!(of_64.map(|size| size.used), Some(100));
        let map = &moment.map;
        assert_eq!(map.contents.len(), map.used.len());
        assert!(map.contents.len() <= MOST_CELLS && map.contents.contains(&64));
        let used: u64 = map.used.iter().map(|used| u64::from(*used)).sum();
        let cell_bytes = map.pages_per_cell as u64 * moment.page_bytes;
        // Shares are rounded to whole per cents.
        let rounding = cell_bytes * map.used.len() as u64 / 200;
        assert!((used * cell_bytes / 100).abs_diff(6400) <= rounding);
    }
}
