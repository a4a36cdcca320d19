//! How full a heap is, how fragmented, and what it refused.

use super::Snapshot;
use super::mirror::CounterWords;
use super::misused::MisuseReport;
use super::region::Region;
use crate::class;
use crate::counters::Failure;
use serde::{Deserialize, Serialize};

/// How full a heap is. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Occupancy {
    /// Bytes that can be allocated so far.
    pub capacity: u64,
    /// Bytes that can be allocated once the heap has grown as far as it can.
    pub largest_capacity: u64,
    /// Page size.
    pub page_bytes: u64,
    /// What the pages are used for.
    pub pages: PageOccupancy,
    /// Bytes of all blocks that are handed out, as they were rounded up.
    pub used_bytes: u64,
    /// Blocks that are handed out.
    pub used_blocks: u64,
    /// The size classes that have slabs or have counted something.
    pub classes: Vec<ClassOccupancy>,
    /// The runs of pages, which serve requests above the largest slot.
    pub runs: RunOccupancy,
    /// The largest request, at the usual alignment, that `malloc` would serve now. It counts on
    /// slabs without a block in them, whose pages `malloc` reclaims when it needs them, but not on empty pages of other slabs, which it may give back.
    pub largest_request: u64,
    /// Share of the bytes handed out for slots so far that was not asked for, 0 to 1. None if the
    /// heap does not count bytes, or has handed out nothing. Runs are not part of it: their
    /// rounded sizes are not counted.
    pub internal_fragmentation: Option<f64>,
    /// Share of the bytes in available pages (free, or in slabs without a block) that does not lie
    /// in the longest run of them, 0 to 1; 0 if there are none.
    pub external_fragmentation: f64,
    /// How the heap was misused.
    pub misuses: MisuseReport,
}

/// What the pages of a heap are used for; each page is counted once, but for `reclaimable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageOccupancy {
    /// Free pages.
    pub free: u64,
    /// Pages of slabs.
    pub in_slabs: u64,
    /// Those of them in slabs without a block, which are reclaimed when they are needed.
    pub reclaimable: u64,
    /// Pages of runs.
    pub in_runs: u64,
    /// None of these: the heap was in use, or its metadata is damaged.
    pub lost: u64,
}

/// How full a size class is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClassOccupancy {
    /// Number of the class.
    pub class: u32,
    /// Size of its slots in bytes.
    pub slot_bytes: u64,
    /// Its slabs.
    pub slabs: u64,
    /// Those of them that a stripe holds and that have no block in them.
    pub idle_slabs: u64,
    /// Slots of its slabs.
    pub slots: u64,
    /// Slots handed out.
    pub used: u64,
    /// Bytes of the slots handed out.
    pub handed_out_bytes: u64,
    /// Requests served so far, if the heap counts them.
    pub served: Option<u64>,
    /// Bytes that these asked for, if the heap counts them.
    pub asked_bytes: Option<u64>,
    /// Requests refused so far.
    pub failures: Failures,
}

/// The runs of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RunOccupancy {
    /// Runs handed out.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests served so far, if the heap counts them.
    pub served: Option<u64>,
    /// Bytes that these asked for, if the heap counts them.
    pub asked_bytes: Option<u64>,
    /// Requests refused so far.
    pub failures: Failures,
}

/// Requests that were answered with NULL, by [`Failure`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// [`Failure::Exhausted`]
    pub exhausted: u64,
    /// [`Failure::Fragmented`]
    pub fragmented: u64,
    /// [`Failure::Impossible`]
    pub impossible: u64,
    /// [`Failure::Damaged`]
    pub damaged: u64,
}

impl Failures {
    /// All failures.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.exhausted
            .saturating_add(self.fragmented)
            .saturating_add(self.impossible)
            .saturating_add(self.damaged)
    }
}

/// `part / whole`, between 0 and 1; 0 of nothing.
#[allow(
    clippy::cast_precision_loss,
    reason = "a share needs no more than 52 bits"
)]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        (part as f64 / whole as f64).min(1.0)
    }
}

impl CounterWords {
    fn failures(&self) -> Failures {
        Failures {
            exhausted: self.failures[Failure::Exhausted as usize],
            fragmented: self.failures[Failure::Fragmented as usize],
            impossible: self.failures[Failure::Impossible as usize],
            damaged: self.failures[Failure::Damaged as usize],
        }
    }
}

impl ClassOccupancy {
    fn has_something_to_say(&self) -> bool {
        self.slabs > 0 || self.failures.total() > 0 || self.served.is_some_and(|served| served > 0)
    }
}

/// What the walk over the heap's regions counts.
struct Tally {
    /// All classes, by number.
    classes: Vec<ClassOccupancy>,
    runs: RunOccupancy,
    pages: PageOccupancy,
    /// Whether a request for pages can have the page, by number.
    available: Vec<bool>,
}

impl Tally {
    fn count(&mut self, snapshot: &Snapshot, region: Region) {
        let count = u64::from(region.pages());
        let mut available = false;
        match region {
            Region::Slab(slab) => {
                let class = &mut self.classes[slab.class() as usize];
                let used = u64::from(snapshot.used_blocks(region));
                available = snapshot.is_idle(slab);
                class.slabs += 1;
                class.idle_slabs += u64::from(available);
                class.slots += u64::from(snapshot.slots(slab));
                class.used += used;
                class.handed_out_bytes += used * class.slot_bytes;
                self.pages.in_slabs += count;
                self.pages.reclaimable += if available { count } else { 0 };
            }
            Region::Punched(slab) | Region::Kept { slab, .. } => {
                let class = &mut self.classes[slab.class() as usize];
                let used = snapshot.used_at_page(region);
                class.slabs += u64::from(matches!(region, Region::Punched(_)));
                // No more of it is handed out.
                class.slots += used;
                class.used += used;
                class.handed_out_bytes += used * class.slot_bytes;
                self.pages.in_slabs += count;
            }
            Region::Run { .. } => {
                self.runs.count += 1;
                self.runs.bytes += snapshot.block_bytes(region);
                self.pages.in_runs += count;
            }
            Region::Other { page } if snapshot.is_free(page) => {
                available = true;
                self.pages.free += count;
            }
            Region::Other { .. } => self.pages.lost += count,
        }
        self.available.extend((0..count).map(|_| available));
    }
}

impl Snapshot {
    /// How full the heap is.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let classes = 0..self.layout.class_count;
        let mut tally = Tally {
            classes: classes.map(|class| self.unused_class(class)).collect(),
            runs: self.no_runs(),
            pages: PageOccupancy::default(),
            available: Vec::new(),
        };
        for region in self.regions() {
            tally.count(self, region);
        }
        let Tally {
            mut classes,
            runs,
            pages,
            available,
        } = tally;
        let longest = longest_run(&available);
        let available_pages = pages.free + pages.reclaimable;
        let largest_request = self.largest_request(&classes, longest);
        let internal_fragmentation = internal_fragmentation(&classes);
        classes.retain(ClassOccupancy::has_something_to_say);
        Occupancy {
            capacity: self.capacity(),
            largest_capacity: self.layout.capacity,
            page_bytes: self.layout.page_bytes(),
            pages,
            used_bytes: runs.bytes
                + classes
                    .iter()
                    .map(|class| class.handed_out_bytes)
                    .sum::<u64>(),
            used_blocks: runs.count + classes.iter().map(|class| class.used).sum::<u64>(),
            classes,
            runs,
            largest_request,
            internal_fragmentation,
            external_fragmentation: share(available_pages - longest, available_pages),
            misuses: self.misuse_report(),
        }
    }

    fn unused_class(&self, class: u32) -> ClassOccupancy {
        let counters = self.counters(class);
        ClassOccupancy {
            class,
            slot_bytes: class::slot_bytes(class).into(),
            slabs: 0,
            idle_slabs: 0,
            slots: 0,
            used: 0,
            handed_out_bytes: 0,
            served: self.counts_bytes().then_some(counters.served),
            asked_bytes: self.counts_bytes().then_some(counters.asked),
            failures: counters.failures(),
        }
    }

    fn no_runs(&self) -> RunOccupancy {
        let counters = self.counters(self.layout.class_count);
        RunOccupancy {
            count: 0,
            bytes: 0,
            served: self.counts_bytes().then_some(counters.served),
            asked_bytes: self.counts_bytes().then_some(counters.asked),
            failures: counters.failures(),
        }
    }

    /// See [`Occupancy::largest_request`]: a run of pages, or a free slot, less what a hardened heap keeps of it.
    fn largest_request(&self, classes: &[ClassOccupancy], longest: u64) -> u64 {
        let largest = classes
            .iter()
            .rev()
            .find(|class| class.used < class.slots)
            .map_or(0, |class| class.slot_bytes);
        let block = largest.max(longest << self.layout.page_shift);
        block.saturating_sub(self.hardening().overhead())
    }
}

/// See [`Occupancy::internal_fragmentation`].
fn internal_fragmentation(classes: &[ClassOccupancy]) -> Option<f64> {
    let (mut asked, mut handed_out) = (0_u64, 0_u64);
    for class in classes {
        asked = asked.saturating_add(class.asked_bytes?);
        handed_out = handed_out.saturating_add(class.served?.saturating_mul(class.slot_bytes));
    }
    (handed_out > 0).then(|| share(handed_out.saturating_sub(asked), handed_out))
}

/// Length of the longest run of `true`.
fn longest_run(available: &[bool]) -> u64 {
    let (mut longest, mut length) = (0, 0);
    for available in available {
        length = if *available { length + 1 } else { 0 };
        longest = longest.max(length);
    }
    longest
}
