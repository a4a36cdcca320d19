//! Turns, as the lanes of a warp take them on a GPU once they diverged.
//!
//! A lane goes on until it naps, gives the turn, waits or ends; nobody takes the turn from it. Then another gets it at random. One lane, another in each schedule, is unlucky: it
//! yields often, as the compiler has it in loops, and seldom gets the turn while there are others. So who waits for it without a nap waits for ever, which exceeds the bound of steps; and who waits with naps
//! waits long.

use shuttle::scheduler::{DataSource, RandomDataSource, Schedule, Scheduler, Task, TaskId};

/// One turn of so many goes to any task, the unlucky one too, while there are others.
const SELDOM: usize = 16;
/// The unlucky one yields after one step of so many.
const YIELDS: usize = 8;
/// The unlucky one is among the first so many tasks: the lanes of a few warps.
const TASKS: usize = 24;

/// The scheduler of one schedule.
pub struct Turns {
    seed: u64,
    random: RandomDataSource,
    unlucky: usize,
    begun: bool,
}

impl Turns {
    pub fn new(seed: u64) -> Self {
        let mut turns = Self {
            seed,
            random: RandomDataSource::initialize(seed),
            unlucky: 0,
            begun: false,
        };
        turns.unlucky = turns.below(TASKS);
        turns
    }

    fn below(&mut self, end: usize) -> usize {
        let random = usize::try_from(self.random.next_u64() >> 32).expect("32 bits");
        random % end
    }

    /// Whether a task that could go on yields, as the compiler has it.
    fn yields(&mut self, id: TaskId) -> bool {
        usize::from(id) == self.unlucky && self.below(YIELDS) == 0
    }

    /// Who gets the turn.
    fn pick(&mut self, runnable: &[&Task]) -> TaskId {
        let is_lucky = |task: &&&Task| usize::from(task.id()) != self.unlucky;
        let lucky: Vec<_> = runnable.iter().filter(is_lucky).collect();
        if lucky.is_empty() || self.below(SELDOM) == 0 {
            return runnable[self.below(runnable.len())].id();
        }
        lucky[self.below(lucky.len())].id()
    }
}

impl Scheduler for Turns {
    fn new_execution(&mut self) -> Option<Schedule> {
        let is_first = !std::mem::replace(&mut self.begun, true);
        is_first.then(|| Schedule::new(self.seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let goes_on = |id: &TaskId| !is_yielding && runnable.iter().any(|task| task.id() == *id);
        let next = current.filter(goes_on).filter(|id| !self.yields(*id));
        Some(next.unwrap_or_else(|| self.pick(runnable)))
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next_u64()
    }
}
