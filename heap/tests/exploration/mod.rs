//! Explores the scenarios of emulated warps by random schedules, each of which a seed repeats.
//!
//! A run explores a number of schedules in all, of which each scenario has its [share](shares).
//! The environment says how many, and which:
//!
//! | variable | what it says |
//! |---|---|
//! | `SCATTERHEAP_SCHEDULES` | schedules of all scenarios together |
//! | `SCATTERHEAP_EACH` | schedules of each scenario, instead |
//! | `SCATTERHEAP_SEED` | the first seed; without a number of schedules, this seed alone |
//! | `SCATTERHEAP_EXPLORED` | a file that gets a line for each scenario that passed: its name, first seed, seeds, schedules and seconds |
//!
//! A failure prints the command that repeats it.

mod seeds;
mod shares;
mod turns;

use crate::test_name::test_of;
use seeds::{Current, Seeds};
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Schedules of all scenarios together, unless the environment says otherwise.
const SCHEDULES: u64 = 100_000;
/// Larger than any schedule that ends.
const STEPS: usize = 4_000_000;
/// Bytes of the stack of a lane.
const STACK: usize = 1 << 16;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
    )
}

/// Which seeds a scenario is explored by: the first, and at least how many schedules.
fn extent(scenario: &str) -> (u64, u64) {
    let seed = variable("SCATTERHEAP_SEED");
    let each = variable("SCATTERHEAP_EACH");
    let all = variable("SCATTERHEAP_SCHEDULES");
    let schedules = match (each, all, seed) {
        (Some(each), _, _) => each,
        (None, Some(all), _) => shares::of(scenario, all),
        (None, None, Some(_)) => 1,
        (None, None, None) => shares::of(scenario, SCHEDULES),
    };
    let first = seed.unwrap_or_else(|| {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        u64::from(now.subsec_nanos()) << 20
    });
    (first, schedules)
}

/// Explores a scenario, which is a closure in a test: it has the test's name. Gives how many schedules that were.
///
/// # Panics
///
/// If the scenario does, after the command that repeats it was printed.
pub fn explore<S: Fn() + Send + Sync + 'static>(scenario: S) -> usize {
    let name = test_of::<S>();
    let (first, schedules) = extent(name);
    let begin = Instant::now();
    let mut config = shuttle::Config::new();
    config.stack_size = STACK;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS);
    config.failure_persistence = shuttle::FailurePersistence::None;
    // That orderings are taken for sequential consistency is known: loom explores them.
    config.silence_warnings = true;
    let current = Current::new(first);
    let seeds = Seeds::new(current.clone(), schedules);
    let explored = catch_unwind(AssertUnwindSafe(|| {
        shuttle::Runner::new(seeds, config).run(scenario)
    }));
    match explored {
        Ok(schedules) => {
            record(name, first, &current, schedules, begin.elapsed());
            schedules
        }
        Err(panic) => {
            let seed = current.seed();
            eprintln!("\nrepeat it with: cargo xtask model --seed {seed} {name}\n");
            resume_unwind(panic);
        }
    }
}

/// Says what was explored, in one write so that tests that run at once keep their lines apart.
fn record(name: &str, first: u64, current: &Current, schedules: usize, took: Duration) {
    let seeds = current.seed() - first;
    let seconds = took.as_secs_f64();
    eprintln!("{name}: {schedules} schedules of {seeds} seeds from {first} in {seconds:.2} s");
    if let Some(path) = std::env::var_os("SCATTERHEAP_EXPLORED") {
        let line = format!("{name},{first},{seeds},{schedules},{seconds:.3}\n");
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("cannot append to {}: {error}", path.display()));
    }
}
