//! What is shown: the last reading of each heap, and how it came about.

use scatterheap::inspect::PageOccupancy;
use scatterheap::monitor::Reading;
use scatterheap::timeline::SizeUse;
use std::collections::VecDeque;

/// Samples of a heap that are kept: more than terminals are wide.
const MOST_SAMPLES: usize = 1000;

/// All that is drawn.
pub struct View {
    pub heaps: Vec<Watched>,
    /// Which of them is shown.
    pub selected: usize,
    pub paused: bool,
    pub colours: bool,
    /// Why nothing new comes, if so.
    pub failure: Option<String>,
}

/// A heap.
pub struct Watched {
    pub reading: Reading,
    /// Seconds since that was taken.
    pub age: f64,
    /// From the first to the last.
    pub history: VecDeque<Sample>,
    /// Whether it is published no more.
    pub ended: bool,
}

/// What changed from a reading to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Share of the capacity that is handed out, 0 to 1.
    pub used: f64,
    /// NULLs in a second.
    pub nulls: f64,
    /// Operations in a second, where they are counted.
    pub operations: Option<f64>,
}

impl View {
    pub fn new(readings: Vec<Reading>, colours: bool) -> Self {
        let mut view = Self {
            heaps: Vec::new(),
            selected: 0,
            paused: false,
            colours,
            failure: None,
        };
        view.update(readings);
        view
    }

    /// The heap that is shown. There is one from the beginning, and the last one stays.
    pub fn shown(&self) -> Option<&Watched> {
        self.heaps.get(self.selected)
    }

    pub fn select_next(&mut self) {
        self.selected = (self.selected + 1) % self.heaps.len().max(1);
    }

    pub fn select_previous(&mut self) {
        let count = self.heaps.len().max(1);
        self.selected = (self.selected + count - 1) % count;
    }

    /// Takes what is published now. A heap that is so no more stays as long as it is shown.
    pub fn update(&mut self, readings: Vec<Reading>) {
        let shown = self.shown().map(|watched| identity(&watched.reading));
        for watched in &mut self.heaps {
            watched.ended = true;
            watched.age = watched.reading.age();
        }
        for reading in readings {
            let id = identity(&reading);
            let known = self
                .heaps
                .iter_mut()
                .find(|watched| identity(&watched.reading) == id);
            match known {
                Some(watched) => watched.update(reading),
                None => self.heaps.push(Watched::new(reading)),
            }
        }
        let is_shown = |watched: &Watched| shown == Some(identity(&watched.reading));
        self.heaps
            .retain(|watched| !watched.ended || is_shown(watched));
        self.heaps.sort_by_key(|watched| identity(&watched.reading));
        self.selected = self.heaps.iter().position(is_shown).unwrap_or(0);
    }
}

/// Bytes of the slots of a size that are handed out.
pub fn bytes_in_use(size: &SizeUse) -> u64 {
    size.used.saturating_mul(size.slot_bytes)
}

/// Pages of the heap.
pub fn all_pages(pages: &PageOccupancy) -> u64 {
    [pages.in_slabs, pages.in_runs, pages.free, pages.lost]
        .into_iter()
        .fold(0, u64::saturating_add)
}

/// Tells heaps apart.
fn identity(reading: &Reading) -> (u32, u32) {
    (reading.process, reading.number)
}

impl Watched {
    fn new(reading: Reading) -> Self {
        let first = Sample {
            used: used(&reading),
            nulls: 0.0,
            operations: None,
        };
        Self {
            age: reading.age(),
            reading,
            history: VecDeque::from([first]),
            ended: false,
        }
    }

    fn update(&mut self, reading: Reading) {
        self.ended = false;
        if reading.taken_at > self.reading.taken_at {
            if self.history.len() == MOST_SAMPLES {
                self.history.pop_front();
            }
            self.history
                .push_back(Sample::between(&self.reading, &reading));
        }
        self.age = reading.age();
        self.reading = reading;
    }

    /// The last sample.
    pub fn now(&self) -> Option<Sample> {
        self.history.back().copied()
    }
}

impl Sample {
    fn between(before: &Reading, after: &Reading) -> Self {
        let seconds = (after.taken_at - before.taken_at).max(1e-3);
        // Counts begin anew with a reset, and with each workload.
        #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = |before: u64, after: u64| Some(after.checked_sub(before)? as f64 / seconds);
        let operations = before.operations.zip(after.operations);
        Self {
            used: used(after),
            nulls: rate(before.state.nulls, after.state.nulls).unwrap_or(0.0),
            operations: operations.and_then(|(before, after)| rate(before, after)),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share for people")]
fn used(reading: &Reading) -> f64 {
    let state = &reading.state;
    state.used_bytes as f64 / state.capacity.max(1) as f64
}
