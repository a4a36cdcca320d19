//! Workloads that try a heap hard and verify everything: contents, overlap, alignment, bounds,
//! invariants and leaks.

mod blocks;
mod lists;
mod misuse;
mod report;
mod rounds;
mod workload;

pub(crate) use blocks::takes_whole_heap;
pub use blocks::{Filled, fill};
pub use report::Report;
pub use workload::{Settings, Workload};

use crate::device::Grid;
use crate::error::Result;
use crate::heap::Heap;
use crate::monitor::ShownOperations;
use crate::tally::{Counted, DeviceTally};
use crate::timeline::{Reached, Timeline};
use kernels::churn::RoundsArguments;
use kernels::sizes::Sizes;
use kernels::tally::Count;
use simt::kernel::Kernel;

/// Is told how much of the work is done, and how much there is.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Number of the first owner of blocks.
const FIRST_OWNER: u64 = 1;

/// What the parts of a workload share.
struct Run<'a> {
    heap: &'a Heap,
    settings: &'a Settings,
    /// Before the tally, so that nobody looks at it when it is released.
    _shown: ShownOperations<'a>,
    tally: DeviceTally,
    /// Seconds in kernels that allocate or free.
    seconds: f64,
    /// As in the [report](Report::retired_left_out).
    retired_left_out: u64,
    peak: Option<crate::Occupancy>,
    timeline: Timeline,
}

impl Run<'_> {
    fn grid(&self) -> Grid {
        Grid::of(self.settings.threads)
    }

    fn sizes(&self, round: u32) -> Sizes {
        Sizes {
            least: self.settings.least,
            most: self.settings.most,
            seed: self.settings.seed.wrapping_add(u64::from(round) << 32),
        }
    }

    /// Arguments of the kernels whose threads work alone for `rounds` rounds.
    fn rounds(&self, round: u32, rounds: u32) -> Result<RoundsArguments> {
        Ok(RoundsArguments {
            heap: self.heap.handle()?,
            count: u64::from(self.settings.threads),
            tally: self.tally.address(),
            rounds: u64::from(rounds),
            sizes: self.sizes(round),
            first_owner: FIRST_OWNER + (u64::from(round) << 40),
            held: 0,
        })
    }

    /// Launches a kernel that allocates or frees, and waits for it.
    ///
    /// # Safety
    ///
    /// As for [`crate::Device::launch`].
    unsafe fn timed<K: Kernel>(&mut self, arguments: &K::Arguments) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.timed_on::<K>(self.grid(), arguments) }
    }

    /// [`timed`](Self::timed) on another grid than one of the workload's threads.
    ///
    /// # Safety
    ///
    /// As for [`crate::Device::launch`].
    unsafe fn timed_on<K: Kernel>(&mut self, grid: Grid, arguments: &K::Arguments) -> Result<()> {
        // SAFETY: as the caller promises.
        self.seconds += unsafe { self.heap.time::<K>(grid, arguments)? };
        Ok(())
    }

    /// Launches a kernel that only checks, and waits for it.
    ///
    /// # Safety
    ///
    /// As for [`crate::Device::launch`].
    unsafe fn untimed<K: Kernel>(&self, arguments: &K::Arguments) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.heap.launch::<K>(self.grid(), arguments)? };
        self.heap.device().synchronize()
    }

    /// Looks at the heap for the timeline.
    fn look(&mut self, after: String) -> Result<()> {
        let reached = Reached {
            seconds: self.seconds,
            operations: self.tally.read()?.of(Count::Operations),
            asked_bytes: None,
        };
        let snapshot = self.heap.snapshot()?;
        self.timeline.add(after, reached, &snapshot);
        self.keep_if_peak(snapshot.occupancy());
        Ok(())
    }

    /// [`look`](Self::look) if step `step` of `steps` is looked at, of which each has `looks` moments.
    fn look_at(
        &mut self,
        step: u32,
        steps: u32,
        looks: u32,
        after: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.timeline.wants(step, steps, looks) {
            self.look(after())?;
        }
        Ok(())
    }

    /// Launches that rounds of threads that work alone are cut into: more if more is to be looked at.
    fn launches(&self, usual: u32) -> u32 {
        self.settings.rounds.min(usual.max(self.settings.moments))
    }

    /// Keeps the occupancy if it is the highest so far.
    fn note_peak(&mut self) -> Result<()> {
        let occupancy = self.heap.snapshot()?.occupancy();
        self.keep_if_peak(occupancy);
        Ok(())
    }

    fn keep_if_peak(&mut self, occupancy: crate::Occupancy) {
        let higher = self
            .peak
            .as_ref()
            .is_none_or(|peak| occupancy.used_bytes > peak.used_bytes);
        if higher {
            self.peak = Some(occupancy);
        }
    }
}

/// Runs a workload on a heap, which must be empty, and checks the heap at the end. Other threads' calls that empty or read it wait meanwhile.
///
/// # Errors
///
/// If the settings make no sense for the heap, or the device fails. What the workload finds wrong
/// is in the report.
pub fn run(
    heap: &Heap,
    workload: Workload,
    settings: &Settings,
    progress: Progress<'_>,
) -> Result<Report> {
    settings.check(workload, heap)?;
    let _turn = heap.take_turn();
    let tally = DeviceTally::new(heap.device())?;
    let mut run = Run {
        heap,
        settings,
        _shown: ShownOperations::new(heap, &tally),
        tally,
        seconds: 0.0,
        retired_left_out: 0,
        peak: None,
        timeline: Timeline::new(settings.moments),
    };
    if run.timeline.is_wanted() {
        run.look("the heap was made".into())?;
    }
    match workload {
        Workload::Uniform | Workload::Mixed => blocks::run(&mut run, progress)?,
        Workload::Churn => rounds::churn(&mut run, progress)?,
        Workload::Divergent => rounds::divergent(&mut run, progress)?,
        Workload::Grow => rounds::grow(&mut run, progress)?,
        Workload::CrossWarp => lists::exchange(&mut run, progress)?,
        Workload::Exhaust => lists::exhaust(&mut run, progress)?,
        Workload::Misuse => misuse::run(&mut run, progress)?,
    }
    let counted: Counted = run.tally.read()?;
    let peak = match run.peak.take() {
        Some(peak) => peak,
        None => heap.snapshot()?.occupancy(),
    };
    let whole = blocks::takes_whole_heap(heap)?;
    heap.drain_quarantine()?;
    let timeline = std::mem::replace(&mut run.timeline, Timeline::new(0)).finish();
    let report = report::make(heap, workload, settings, &counted, run.seconds, peak, whole)?;
    Ok(Report {
        timeline,
        retired_left_out: run.retired_left_out,
        ..report
    })
}
