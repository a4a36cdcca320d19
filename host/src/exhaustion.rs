//! What a heap does when nothing is left: it is filled wholly, asked for all sizes by all threads, thinned
//! out, filled and asked again, and emptied.

use crate::device::Grid;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::memory::Memory;
use crate::stress::{Progress, takes_whole_heap};
use crate::tally::DeviceTally;
use kernels::churn::RoundsArguments;
use kernels::exhaust::{Exhaust, ExhaustArguments, Recover};
use kernels::sizes::Sizes;
use kernels::starve::{Starve, StarveArguments, Thin, size_count};
use kernels::tally::Count;
use serde::Serialize;
use simt::kernel::Kernel;

/// Sizes that the heap is filled with, one after the other, in bytes: the last takes what is left of any slab.
const FILLINGS: [(u64, u64); 3] = [(16, 16 << 10), (16, 512), (16, 16)];
/// How often the heap is filled: at first, and after every other block was freed.
const TIMES: usize = 2;
/// Steps that progress is told of.
const STEPS: u64 = (TIMES * (FILLINGS.len() + 1) + 2) as u64;

/// How large a test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Threads that fill the heap, and that ask when it is full.
    pub threads: u32,
    /// Requests of each when it is full, of sizes that cover all.
    pub requests: u32,
    /// Different seeds give different sizes.
    pub seed: u64,
}

/// What a full heap answered.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Share of the heap's bytes that were in blocks, from 0 to 1.
    pub used: f64,
    /// Blocks that were allocated.
    pub blocks: u64,
    /// Requests that were made.
    pub requests: u64,
    /// Requests that were served, though nothing had been freed since others got NULL for 16 bytes.
    pub served: u64,
    /// Seconds that all requests took together, by the device's clock.
    pub seconds: f64,
}

impl Answer {
    /// Whether there were blocks, and requests of which none was served.
    fn is_right(&self) -> bool {
        self.blocks > 0 && self.requests > 0 && self.served == 0
    }
}

/// Result of a test. Same shape on every device.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How the device is selected.
    pub device: String,
    /// Capacity of the heap in bytes.
    pub heap: u64,
    /// How large the test was.
    #[serde(flatten)]
    pub settings: Settings,
    /// The first time, and with a heap in which every other block had been freed.
    pub answers: Vec<Answer>,
    /// Blocks whose content was not what their owner wrote.
    pub corrupt: u64,
    /// Blocks not aligned, not inside the heap, or smaller than asked.
    pub misplaced: u64,
    /// Blocks still allocated at the end.
    pub leaked: u64,
    /// Frees that the heap refused.
    pub refused: u64,
    /// Whether one request took the whole heap at the end.
    pub whole_heap_at_end: bool,
    /// Invariants that did not hold when the heap was full, or at the end.
    pub violations: Vec<String>,
}

impl Report {
    /// Whether the heap was filled and asked, and nothing was found wrong. How much of it was in blocks says nothing about
    /// that: it depends on the heap's size and modes, and on what other sizes left.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.corrupt + self.misplaced + self.leaked + self.refused == 0
            && self.answers.len() == TIMES
            && self.answers.iter().all(Answer::is_right)
            && self.whole_heap_at_end
            && self.violations.is_empty()
    }
}

/// What the steps of a test share.
struct Test<'a> {
    heap: &'a Heap,
    settings: &'a Settings,
    tally: DeviceTally,
    /// A list of blocks for each thread and filling.
    lists: Memory,
    violations: Vec<String>,
}

/// Runs the test on a heap, which must be empty. Other threads' calls that empty or read it wait meanwhile.
///
/// `progress` is called before each launch: whoever wants to know that a launch hangs measures the time since.
///
/// # Errors
///
/// If there are no threads or requests, or the device fails. What the test finds wrong is in the report.
pub fn run(heap: &Heap, settings: &Settings, progress: Progress<'_>) -> Result<Report> {
    if settings.threads == 0 || settings.requests == 0 {
        return Err(Error::BadSettings {
            asked: format!(
                "{} threads and {} requests",
                settings.threads, settings.requests
            ),
            advice: "use at least one of each",
        });
    }
    let _turn = heap.take_turn();
    let device = heap.device();
    let fillings = (TIMES * FILLINGS.len()) as u64;
    let mut test = Test {
        heap,
        settings,
        tally: DeviceTally::new(device)?,
        lists: device.allocate(fillings * u64::from(settings.threads) * 8)?,
        violations: Vec::new(),
    };
    test.lists.clear()?;
    let mut step = 0;
    let mut next = || {
        progress(step, STEPS);
        step += 1;
    };
    let mut answers = Vec::new();
    for time in 0..TIMES {
        if time > 0 {
            next();
            test.launch_of_all::<Thin>(0..FILLINGS.len())?;
        }
        for filling in 0..FILLINGS.len() {
            next();
            test.launch::<Exhaust>(time * FILLINGS.len() + filling)?;
        }
        next();
        answers.push(test.ask()?);
    }
    next();
    test.launch_of_all::<Recover>(0..TIMES * FILLINGS.len())?;
    test.report(answers)
}

impl Test<'_> {
    fn grid(&self) -> Grid {
        Grid::of(self.settings.threads)
    }

    /// Launches a kernel of lists and waits for it.
    fn launch<K: Kernel<Arguments = ExhaustArguments>>(&self, filling: usize) -> Result<()> {
        let (least, most) = FILLINGS[filling % FILLINGS.len()];
        let threads = u64::from(self.settings.threads);
        let most = most.min(self.heap.capacity() / 16).max(least);
        let arguments = ExhaustArguments {
            rounds: RoundsArguments {
                heap: self.heap.handle()?,
                count: threads,
                tally: self.tally.address(),
                rounds: u64::MAX,
                sizes: Sizes {
                    least,
                    most,
                    seed: self.settings.seed.wrapping_add(filling as u64),
                },
                first_owner: 1 + ((filling as u64) << 40),
                held: 0,
            },
            lists: self.lists.address() + filling as u64 * threads * 8,
        };
        // SAFETY: there is a list for each thread, empty or as `Exhaust` left it.
        unsafe { self.heap.launch::<K>(self.grid(), &arguments)? };
        self.heap.device().synchronize()
    }

    fn launch_of_all<K: Kernel<Arguments = ExhaustArguments>>(
        &self,
        fillings: std::ops::Range<usize>,
    ) -> Result<()> {
        fillings
            .into_iter()
            .try_for_each(|filling| self.launch::<K>(filling))
    }

    /// Lets all threads ask the full heap.
    fn ask(&mut self) -> Result<Answer> {
        let device = self.heap.device();
        let snapshot = self.heap.snapshot()?;
        let before = snapshot.occupancy();
        let tally = DeviceTally::new(device)?;
        let arguments = StarveArguments {
            heap: self.heap.handle()?,
            threads: u64::from(self.settings.threads),
            rounds: u64::from(self.settings.requests),
            sizes: size_count(self.heap.capacity()),
            tally: tally.address(),
        };
        // SAFETY: the tally lives until the launch ended.
        let seconds = unsafe { device.time::<Starve>(self.grid(), &arguments)? };
        let counted = tally.read()?;
        let snapshot = self.heap.snapshot()?;
        self.note(&snapshot, "when it was full");
        if snapshot.occupancy().used_blocks != before.used_blocks {
            self.violations.push(format!(
                "{} blocks were allocated before the requests, and {} after them",
                before.used_blocks,
                snapshot.occupancy().used_blocks
            ));
        }
        #[allow(clippy::cast_precision_loss, reason = "a share for people")]
        let used = before.used_bytes as f64 / before.capacity as f64;
        Ok(Answer {
            used,
            blocks: before.used_blocks,
            requests: counted.of(Count::Nulls) + counted.of(Count::Operations),
            served: counted.of(Count::Operations),
            seconds,
        })
    }

    fn note(&mut self, snapshot: &crate::Snapshot, when: &str) {
        let violations = snapshot.violations();
        let lines = violations
            .iter()
            .map(|violation| format!("{when}: {violation}"));
        self.violations.extend(lines);
    }

    fn report(mut self, answers: Vec<Answer>) -> Result<Report> {
        self.heap.drain_quarantine()?;
        let counted = self.tally.read()?;
        let snapshot = self.heap.snapshot()?;
        self.note(&snapshot, "at the end");
        let occupancy = snapshot.occupancy();
        Ok(Report {
            device: self.heap.device().label(),
            heap: self.heap.capacity(),
            settings: *self.settings,
            answers,
            corrupt: counted.of(Count::Corrupt),
            misplaced: counted.of(Count::Misaligned) + counted.of(Count::OutOfBounds),
            leaked: occupancy.used_blocks,
            refused: occupancy.misuses.total(),
            whole_heap_at_end: takes_whole_heap(self.heap)?,
            violations: self.violations,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn who_filled_nothing_has_not_passed() {
        let device = Device::cpu_with_threads(2);
        let heap = Heap::builder(&device).capacity(1 << 20).build();
        let heap = heap.expect("there is memory for it");
        let settings = Settings {
            threads: 32,
            requests: 4,
            seed: 1,
        };
        let report = run(&heap, &settings, &mut |_, _| ()).expect("it runs");
        assert!(report.passed(), "{report:?}");
        let changes: [fn(&mut Answer); 3] = [
            |answer| answer.blocks = 0,
            |answer| answer.requests = 0,
            |answer| answer.served = 1,
        ];
        for change in changes {
            let mut report = report.clone();
            change(&mut report.answers[1]);
            assert!(!report.passed(), "{report:?}");
        }
    }
}
