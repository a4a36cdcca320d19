//! Workloads that keep blocks between launches: in mailboxes, and in a list of each thread.

use super::{Progress, Run};
use crate::error::Result;
use kernels::exchange::{EmptyMailboxes, Exchange, ExchangeArguments};
use kernels::exhaust::{Exhaust, ExhaustArguments, Recover};

/// Launches that the exchange is cut into: more for a timeline.
const LAUNCHES: u32 = 4;
/// How often the heap is exhausted: the second time must go as the first.
const TIMES: u32 = 2;

pub(super) fn exchange(run: &mut Run<'_>, progress: Progress<'_>) -> Result<()> {
    let mailboxes = run
        .heap
        .device()
        .allocate(u64::from(run.settings.threads) * 8)?;
    mailboxes.clear()?;
    let rounds = run.settings.rounds;
    let count = run.launches(LAUNCHES);
    for launch in 0..count {
        let share = rounds / count + u32::from(launch < rounds % count);
        let arguments = ExchangeArguments {
            rounds: run.rounds(launch, share)?,
            mailboxes: mailboxes.address(),
        };
        // SAFETY: there is a mailbox for each thread.
        unsafe { run.timed::<Exchange>(&arguments)? };
        run.look_at(launch, count, 1, || format!("launch {}", launch + 1))?;
        progress(u64::from(launch) + 1, u64::from(count) + 1);
    }
    run.note_peak()?;
    let arguments = ExchangeArguments {
        rounds: run.rounds(count, 1)?,
        mailboxes: mailboxes.address(),
    };
    // SAFETY: as above.
    unsafe { run.timed::<EmptyMailboxes>(&arguments)? };
    run.look_at(0, 1, 1, || "all freed".into())?;
    progress(u64::from(count) + 1, u64::from(count) + 1);
    Ok(())
}

pub(super) fn exhaust(run: &mut Run<'_>, progress: Progress<'_>) -> Result<()> {
    let lists = run
        .heap
        .device()
        .allocate(u64::from(run.settings.threads) * 8)?;
    for time in 0..TIMES {
        let arguments = ExhaustArguments {
            rounds: run.rounds(time, run.settings.rounds)?,
            lists: lists.address(),
        };
        // SAFETY: there is a list for each thread, written by the first kernel.
        unsafe {
            run.timed::<Exhaust>(&arguments)?;
            run.note_peak()?;
            run.look_at(time, TIMES, 2, || format!("filled, time {}", time + 1))?;
            progress(u64::from(time) * 2 + 1, u64::from(TIMES) * 2);
            run.timed::<Recover>(&arguments)?;
        }
        run.look_at(time, TIMES, 2, || format!("given back, time {}", time + 1))?;
        progress(u64::from(time) * 2 + 2, u64::from(TIMES) * 2);
    }
    Ok(())
}
