//! One schedule or a few of each seed, so that a seed alone repeats what it gave.
//!
//! All run in one [`shuttle::Runner`], which keeps the lanes' stacks from schedule to schedule.

use super::turns::Turns;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of this many seeds one is of the scheduler of priorities, one of that of turns, and the others of the random one.
const KINDS: u64 = 4;
/// Schedules that a seed of the scheduler of priorities gives: the first only measures.
const SCHEDULES_BY_PRIORITY: usize = 4;
/// Changes of priority in a schedule, less one.
const DEPTH: usize = 4;

/// The seed that is being explored; after the last, the one that would come next.
#[derive(Clone, Debug)]
pub struct Current(Arc<AtomicU64>);

impl Current {
    pub fn new(first: u64) -> Self {
        Self(Arc::new(AtomicU64::new(first)))
    }

    pub fn seed(&self) -> u64 {
        // Relaxed: one thread runs the schedules, and looks.
        self.0.load(Ordering::Relaxed)
    }

    fn advance(&self) {
        // Relaxed: as above.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The scheduler of one seed.
enum OfSeed {
    /// Tries anything. Never dropped: it owns nothing, and prints advice of its own when dropped in
    /// a panic, which our seeds make wrong.
    Random(ManuallyDrop<RandomScheduler>),
    /// Tries a few changes at depth.
    Prioritising(PctScheduler),
    /// Leaves a lane its turn until it gives it up.
    TakingTurns(Turns),
}

impl OfSeed {
    fn new(seed: u64) -> Self {
        match seed % KINDS {
            0 => {
                let depth = PctScheduler::new_from_seed(seed, DEPTH, SCHEDULES_BY_PRIORITY);
                Self::Prioritising(depth)
            }
            2 => Self::TakingTurns(Turns::new(seed)),
            _ => Self::Random(ManuallyDrop::new(RandomScheduler::new_from_seed(seed, 1))),
        }
    }

    fn scheduler(&mut self) -> &mut dyn Scheduler {
        match self {
            Self::Random(random) => &mut **random,
            Self::Prioritising(prioritising) => prioritising,
            Self::TakingTurns(turns) => turns,
        }
    }
}

/// Seeds, one after the other, until there were enough schedules.
pub struct Seeds {
    current: Current,
    of_seed: OfSeed,
    left: u64,
}

impl Seeds {
    pub fn new(current: Current, schedules: u64) -> Self {
        let of_seed = OfSeed::new(current.seed());
        Self {
            current,
            of_seed,
            left: schedules,
        }
    }
}

impl Scheduler for Seeds {
    fn new_execution(&mut self) -> Option<Schedule> {
        let schedule = self.of_seed.scheduler().new_execution().or_else(|| {
            self.current.advance();
            if self.left == 0 {
                return None;
            }
            self.of_seed = OfSeed::new(self.current.seed());
            self.of_seed.scheduler().new_execution()
        })?;
        // A seed that was begun is finished, whatever is left.
        self.left = self.left.saturating_sub(1);
        Some(schedule)
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let scheduler = self.of_seed.scheduler();
        scheduler.next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.of_seed.scheduler().next_u64()
    }
}
