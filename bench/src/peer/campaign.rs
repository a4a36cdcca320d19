//! The measurement of one plug-in, over as many workers as it takes: what is still to be measured,
//! what was being measured when a worker ended, and when to give a test up.
//!
//! Each worker gets the cases that are left, in the order of the plan's seed. The case that it is at when it ends is
//! not tried again. So there are at most as many workers as cases.

use super::ending::Ending;
use crate::case::{Case, Test};
use crate::row::{Event, Row};
use std::collections::HashMap;

/// Workers that a test may cost.
const FAILURES_OF_A_TEST: u32 = 3;

/// Where the measurement of a plug-in stands.
pub(super) struct Campaign {
    /// The plug-in's name.
    name: String,
    /// Cases that are not measured yet, and the one that is being measured.
    remaining: Vec<Case>,
    /// The case that is being measured.
    current: Option<Case>,
    /// Cases of each test that have ended a worker.
    failures: HashMap<Test, u32>,
}

impl Campaign {
    pub fn new(name: String, cases: Vec<Case>) -> Self {
        Self {
            name,
            remaining: cases,
            current: None,
            failures: HashMap::new(),
        }
    }

    /// The cases that the next worker gets.
    pub fn remaining(&self) -> &[Case] {
        &self.remaining
    }

    /// Learns from an event of the worker which case it is at.
    pub fn see(&mut self, event: &Event) {
        if let Event::Begin { case, .. } = event
            && self.current != Some(*case)
        {
            self.finish();
            self.current = Some(*case);
        }
    }

    /// All cases were measured.
    pub fn done(&mut self) {
        self.current = None;
        self.remaining.clear();
    }

    /// A worker ended too early: what is to be reported. Nothing, if it was at no case.
    pub fn ended(&mut self, ending: &Ending, last_line: Option<&str>) -> Option<Vec<Event>> {
        let case = self.finish()?;
        let mut events = vec![
            Event::Row(self.row(case, ending.metric())),
            self.failed(case, ending.words(last_line)),
        ];
        let failures = self.failures.entry(case.test).or_default();
        *failures += 1;
        if *failures == FAILURES_OF_A_TEST {
            events.extend(self.give_up(case.test));
        }
        Some(events)
    }

    /// Takes the case that is being measured from those that are left.
    fn finish(&mut self) -> Option<Case> {
        let case = self.current.take()?;
        self.remaining.retain(|other| *other != case);
        Some(case)
    }

    /// Skips the rest of a test.
    fn give_up(&mut self, test: Test) -> Vec<Event> {
        let reason = format!("skipped, as {FAILURES_OF_A_TEST} cases of this test ended it");
        let skipped = self.remaining.extract_if(.., |case| case.test == test);
        let skipped: Vec<Case> = skipped.collect();
        let failed = |case| self.failed(case, reason.clone());
        skipped.into_iter().map(failed).collect()
    }

    fn failed(&self, case: Case, reason: String) -> Event {
        Event::Failed {
            case,
            allocator: self.name.clone(),
            reason,
        }
    }

    fn row(&self, case: Case, metric: &str) -> Row {
        Row {
            test: case.test.to_string(),
            allocator: self.name.clone(),
            size: case.most,
            n: case.n.into(),
            metric: metric.to_owned(),
            value: 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_loses_the_device_is_not_tried_again() {
        let case = |most| Case {
            test: Test::Uniform,
            least: most,
            most,
            n: 1,
        };
        let begin = |most| Event::Begin {
            case: case(most),
            allocator: "floor".into(),
        };
        let mut campaign = Campaign::new("name".into(), vec![case(16), case(32), case(64)]);
        let lost = Ending::Lost("an illegal address".into());
        assert!(campaign.ended(&lost, None).is_none());
        campaign.see(&begin(32));
        campaign.see(&begin(16));
        let events = campaign.ended(&lost, Some("oh")).expect("it was at a case");
        assert_eq!(campaign.remaining(), [case(64)]);
        assert_eq!(events.len(), 2);
        assert_eq!(events[0], Event::Row(campaign.row(case(16), "died")));
        let reason = "broke the device: an illegal address; the last line that it printed: oh";
        assert_eq!(events[1], campaign.failed(case(16), reason.into()));
    }
}
