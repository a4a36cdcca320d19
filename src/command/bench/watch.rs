//! How far a run is: a bar where stderr is a terminal, else a line for each test that is done.

use super::measure::Interrupted;
use crate::command::output::note;
use crate::command::progress::Progress;
use scatterheap_bench::allocators::Floor;
use scatterheap_bench::peer::Library;
use scatterheap_bench::{Allocator, Case, Event, Plan, Test, baseline_name};
use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::time::Instant;

/// How often cases of each test begin in a part of a run.
pub type Workload = BTreeMap<Test, u64>;

/// Of our allocators, and of the baselines.
pub fn workload_of_ours(plan: &Plan, ours: &[Box<dyn Allocator>]) -> Workload {
    workload(plan, |case| {
        ours.iter()
            .filter(|allocator| allocator.takes(case))
            .count()
            + usize::from(baseline_name(case.test).is_some())
    })
}

/// Of a plug-in, with its own floor and baselines.
pub fn workload_of_a_peer(plan: &Plan) -> Workload {
    workload(plan, |case| {
        if !Library::takes_test(case.test) {
            return 0;
        }
        let floor = usize::from(Floor::takes_test(case.test));
        1 + floor + usize::from(baseline_name(case.test).is_some())
    })
}

fn workload(plan: &Plan, begins: impl Fn(&Case) -> usize) -> Workload {
    let mut workload = Workload::new();
    for case in &plan.cases {
        *workload.entry(case.test).or_default() += begins(case) as u64;
    }
    workload
}

/// Shows how far it is.
pub struct Watch<'a> {
    progress: &'a Progress,
    start: Instant,
    begun: u64,
    total: u64,
    /// Stands before the test's name.
    label: String,
    /// What of each test is still to be begun in this part of the run.
    remaining: Workload,
    /// The test of the case that is being measured.
    current: Option<Test>,
}

impl<'a> Watch<'a> {
    /// Watches a run of these parts.
    pub fn new<'b>(progress: &'a Progress, parts: impl IntoIterator<Item = &'b Workload>) -> Self {
        let parts = parts.into_iter();
        Self {
            progress,
            start: Instant::now(),
            begun: 0,
            total: parts.map(|part| part.values().sum::<u64>()).sum(),
            label: String::new(),
            remaining: Workload::new(),
            current: None,
        }
    }

    /// A part begins.
    pub fn enter(&mut self, label: String, part: Workload) {
        self.finish_case();
        self.label = label;
        self.remaining = part;
    }

    pub fn see(&mut self, event: &Event) {
        let Event::Begin { case, allocator } = event else {
            return;
        };
        self.finish_case();
        self.progress.say(&format!("{allocator}, {case}"));
        self.progress.show(self.begun.min(self.total), self.total);
        self.begun += 1;
        self.current = Some(case.test);
        if let Some(remaining) = self.remaining.get_mut(&case.test) {
            *remaining = remaining.saturating_sub(1);
        }
    }

    /// The current case is done; if it was the last of its test, says so.
    pub fn finish_case(&mut self) {
        let Some(test) = self.current.take() else {
            return;
        };
        if self.remaining.get(&test) == Some(&0) && !stderr().is_terminal() {
            self.remaining.remove(&test);
            let (done, total) = (self.begun.min(self.total), self.total);
            let (label, seconds) = (&self.label, self.start.elapsed().as_secs());
            note(&format!(
                "{label}{test}: done ({done} of {total} cases, {seconds} s)"
            ));
        }
    }

    /// How far it came, if not to the end.
    pub fn interrupted(&self) -> Option<Interrupted> {
        let (done, cases) = (self.begun, self.total);
        (done < cases).then_some(Interrupted { done, cases })
    }
}
