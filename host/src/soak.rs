//! Soaking heaps: pairs of `malloc` and `free` for as long as one likes, on several aged heaps at once.

use crate::device::{Device, Grid};
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::memory::Memory;
use crate::stress::takes_whole_heap;
use crate::tally::{Counted, DeviceTally};
use kernels::sizes::mix;
use kernels::soak::{Drain, MEAN, Soak, SoakArguments};
use kernels::tally::Count;
use serde::{Deserialize, Serialize};

/// Per cent of a heap that the blocks in its mailboxes ask for.
const FILL: u64 = 70;
/// Rounds of a thread in a launch.
const ROUNDS: u64 = 32;
/// Launches between two checks of the heaps' invariants.
const LAUNCHES_OF_A_CHECK: u64 = 64;

/// How large a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Threads of a launch.
    pub threads: u32,
    /// Pairs of `malloc` and `free`, at least.
    pub pairs: u64,
    /// Different seeds give different sizes and mailboxes.
    pub seed: u64,
}

/// What runs counted. Totals of several runs add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Totals {
    /// Blocks that were allocated, verified and freed.
    pub pairs: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Seconds of the launches, by the device's clock.
    pub seconds: f64,
    /// Calls that gave NULL.
    pub nulls: u64,
    /// Blocks whose content was not what their owner wrote.
    pub corrupt: u64,
    /// Blocks not aligned, not inside the heap, or smaller than asked.
    pub misplaced: u64,
    /// Blocks still allocated at the end.
    pub leaked: u64,
    /// Frees that the heaps refused.
    pub refused: u64,
    /// Invariants that did not hold when the heaps were looked at, or heaps that did not give themselves in one
    /// request at the end.
    pub violations: u64,
}

impl Totals {
    /// Everything that was wrong. NULL is not.
    #[must_use]
    pub fn errors(&self) -> u64 {
        let kinds = [
            self.corrupt,
            self.misplaced,
            self.leaked,
            self.refused,
            self.violations,
        ];
        kinds.into_iter().fold(0, u64::saturating_add)
    }

    /// Adds another run's. Counts that become too large stay at the largest.
    pub fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        for (count, more) in [
            (&mut self.pairs, other.pairs),
            (&mut self.bytes, other.bytes),
            (&mut self.nulls, other.nulls),
            (&mut self.corrupt, other.corrupt),
            (&mut self.misplaced, other.misplaced),
            (&mut self.leaked, other.leaked),
            (&mut self.refused, other.refused),
            (&mut self.violations, other.violations),
        ] {
            *count = count.saturating_add(more);
        }
    }
}

/// Heaps, and the mailboxes that fill them.
struct Bath<'a> {
    device: &'a Device,
    heaps: &'a [Heap],
    addresses: Memory,
    mailboxes: Memory,
    mailbox_count: u64,
    tally: DeviceTally,
    totals: Totals,
}

/// Runs until there were enough pairs, or `go_on` says no: it is asked after each launch, with the totals so
/// far. Then all is freed, and the heaps are checked. Other threads' calls that empty or read them wait meanwhile.
///
/// # Errors
///
/// If there are no threads, pairs or heaps, heaps are of other devices or too small, or the device fails. What is
/// found wrong is in the totals.
pub fn run(
    device: &Device,
    heaps: &[Heap],
    settings: &Settings,
    go_on: &mut dyn FnMut(&Totals) -> bool,
) -> Result<Totals> {
    // One after the other as they lie, as in any other soak of some of them.
    let _turns: Vec<_> = heaps.iter().map(Heap::take_turn).collect();
    let mut bath = Bath::new(device, heaps, settings)?;
    let mut launch = 0;
    while bath.totals.pairs < settings.pairs {
        bath.soak(settings, launch)?;
        launch += 1;
        if launch.is_multiple_of(LAUNCHES_OF_A_CHECK) {
            bath.check()?;
        }
        if !go_on(&bath.totals) {
            break;
        }
    }
    bath.drain(settings)
}

impl<'a> Bath<'a> {
    fn new(device: &'a Device, heaps: &'a [Heap], settings: &Settings) -> Result<Self> {
        let bad = |asked, advice| Err(Error::BadSettings { asked, advice });
        if settings.threads == 0 || settings.pairs == 0 || heaps.is_empty() {
            let (threads, pairs) = (settings.threads, settings.pairs);
            let asked = format!("{threads} threads, {pairs} pairs and {} heaps", heaps.len());
            return bad(asked, "use at least one of each");
        }
        let least = heaps.iter().map(Heap::capacity).min().unwrap_or(0);
        // What a thread holds is not in a mailbox yet.
        let held = u64::from(settings.threads) * MEAN;
        let mailbox_count = (least / 100 * FILL).saturating_sub(held) / MEAN;
        if mailbox_count == 0 {
            let asked = format!("{} threads on heaps of {least} bytes", settings.threads);
            return bad(
                asked,
                "use larger heaps or fewer threads: each thread needs about 2 KiB",
            );
        }
        let metadata: Vec<u64> = heaps
            .iter()
            .map(|heap| Ok(heap.handle_on(device)?.metadata()))
            .collect::<Result<_>>()?;
        let addresses = device.allocate(size_of_val(&*metadata) as u64)?;
        addresses.write(0, &metadata)?;
        let mailboxes = device.allocate(mailbox_count * heaps.len() as u64 * 8)?;
        mailboxes.clear()?;
        let tally = DeviceTally::new(device)?;
        let totals = Totals::default();
        Ok(Self {
            device,
            heaps,
            addresses,
            mailboxes,
            mailbox_count,
            tally,
            totals,
        })
    }

    fn arguments(&self, settings: &Settings, launch: u64) -> SoakArguments {
        let threads = u64::from(settings.threads);
        // Owners are numbered through, from a place that the seed chooses.
        let first_owner = mix(settings.seed).wrapping_add(launch * threads * ROUNDS);
        SoakArguments {
            heaps: self.addresses.address(),
            heap_count: self.heaps.len() as u64,
            mailboxes: self.mailboxes.address(),
            mailbox_count: self.mailbox_count,
            threads,
            rounds: ROUNDS,
            first_owner,
            tally: self.tally.address(),
        }
    }

    fn soak(&mut self, settings: &Settings, launch: u64) -> Result<()> {
        let arguments = self.arguments(settings, launch);
        // SAFETY: heaps and mailboxes are as the arguments say, and live until the launch ended.
        self.totals.seconds += unsafe {
            self.device
                .time::<Soak>(Grid::of(settings.threads), &arguments)?
        };
        self.count()
    }

    /// Takes over what the device has counted.
    fn count(&mut self) -> Result<()> {
        let counted: Counted = self.tally.read()?;
        let held = self.mailbox_count * self.heaps.len() as u64;
        let totals = &mut self.totals;
        // A block is counted twice; those in mailboxes once, and at most so many are there.
        totals.pairs = counted.of(Count::Operations).saturating_sub(held) / 2;
        totals.bytes = counted.of(Count::Bytes);
        totals.nulls = counted.of(Count::Nulls);
        totals.corrupt = counted.of(Count::Corrupt);
        totals.misplaced = counted.of(Count::Misaligned) + counted.of(Count::OutOfBounds);
        Ok(())
    }

    /// Counts the invariants that do not hold, and what is refused so far.
    fn check(&mut self) -> Result<()> {
        self.totals.refused = 0;
        for heap in self.heaps {
            let snapshot = heap.snapshot()?;
            self.totals.violations += snapshot.violations().len() as u64;
            self.totals.refused += snapshot.occupancy().misuses.total();
        }
        Ok(())
    }

    fn drain(mut self, settings: &Settings) -> Result<Totals> {
        let arguments = self.arguments(settings, 0);
        // SAFETY: as in `soak`.
        self.totals.seconds += unsafe {
            self.device
                .time::<Drain>(Grid::of(settings.threads), &arguments)?
        };
        self.count()?;
        // Nothing is in a mailbox any more.
        self.totals.pairs = self.tally.read()?.of(Count::Operations) / 2;
        self.check()?;
        for heap in self.heaps {
            self.totals.leaked += heap.snapshot()?.occupancy().used_blocks;
            self.totals.violations += u64::from(!takes_whole_heap(heap)?);
        }
        Ok(self.totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_become_too_large_stay_there() {
        let mut all = Totals {
            pairs: u64::MAX,
            corrupt: u64::MAX,
            ..Totals::default()
        };
        let run = Totals {
            pairs: 1,
            leaked: 1,
            ..Totals::default()
        };
        all.add(&run);
        assert_eq!(
            (all.pairs, all.leaked, all.errors()),
            (u64::MAX, 1, u64::MAX)
        );
    }
}
