//! What a measurement reported about a plug-in.

use scatterheap_bench::peer::Workers;
use scatterheap_bench::{Case, Event, Plan, Row, Test};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What comes along: the floor, and the baseline of the test `access`.
const OTHERS: [&str; 2] = ["floor", "packed"];

/// What happened to the plug-in.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What the plug-in calls itself, and so the allocator of all rows and failures.
    pub name: String,
    pub rows: Vec<Row>,
    /// Cases that failed, and why; in the order of the sizes.
    pub failed: Vec<(Case, String)>,
    /// The error that ended the measurement.
    pub error: Option<String>,
}

impl Outcome {
    /// Measures a plug-in.
    pub fn of(library: &Path, plan: &Plan, timeout: Duration) -> Self {
        let mut outcome = Self::default();
        let workers = workers(timeout);
        let result = workers.find(&[library.to_owned()]).and_then(|peers| {
            outcome.name.clone_from(&peers[0].name);
            let never = AtomicBool::new(false);
            workers.measure(&peers[0], plan, &never, &mut |event| outcome.see(event))
        });
        outcome.error = result.err().map(|error| error.to_string());
        outcome.failed.sort_by_key(|(case, _)| order(case));
        outcome
    }

    fn see(&mut self, event: Event) {
        match event {
            Event::Row(row) if !OTHERS.contains(&row.allocator.as_str()) => {
                assert_eq!(row.allocator, self.name);
                self.rows.push(row);
            }
            Event::Failed {
                case,
                allocator,
                reason,
            } => {
                assert_eq!(allocator, self.name, "{case:?}: {reason}");
                self.failed.push((case, reason));
            }
            _ => {}
        }
    }

    /// The cases that have a row with a metric, in the order of the sizes.
    pub fn with(&self, metric: &str) -> Vec<(String, u64)> {
        let rows = self.rows.iter().filter(|row| row.metric == metric);
        let mut cases: Vec<_> = rows.map(|row| (row.test.clone(), row.size)).collect();
        cases.sort();
        cases
    }

    /// The values of a metric.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        let rows = self.rows.iter().filter(|row| row.metric == metric);
        rows.map(|row| row.value).collect()
    }

    /// Checks that these cases failed, for this reason, and no others.
    pub fn assert_failed(&self, cases: &[Case], reason: &str) {
        let expected: Vec<_> = cases
            .iter()
            .map(|case| (*case, reason.to_owned()))
            .collect();
        assert_eq!(self.failed, expected);
    }
}

/// Workers that are this executable.
pub fn workers(timeout: Duration) -> Workers {
    Workers {
        program: std::env::current_exe().expect("this executable has a path"),
        arguments: vec![super::WORKER.into()],
        device: "cpu:2".into(),
        timeout,
    }
}

fn order(case: &Case) -> (Test, u64) {
    (case.test, case.most)
}

/// How [`Outcome::with`] names cases.
pub fn named(cases: &[Case]) -> Vec<(String, u64)> {
    let mut named: Vec<_> = cases
        .iter()
        .map(|case| (case.test.to_string(), case.most))
        .collect();
    named.sort();
    named
}

/// A case of one size.
pub fn case(test: Test, size: u64) -> Case {
    Case {
        test,
        least: size,
        most: size,
        n: 50,
    }
}

/// A case of each of a few sizes.
pub fn cases() -> Vec<Case> {
    [16, 64, 256].map(|size| case(Test::Uniform, size)).into()
}

/// A case of each test.
pub fn cases_of_all_tests() -> Vec<Case> {
    let of = |test| match test {
        Test::Init => Case {
            n: 1,
            ..case(test, 1 << 20)
        },
        Test::Mixed
        | Test::MixedAged
        | Test::MixedChurned
        | Test::MixedNew
        | Test::MixedScale
        | Test::Churn
        | Test::Oommix => Case {
            least: 16,
            ..case(test, 128)
        },
        _ => case(test, 128),
    };
    Test::ALL.map(of).into()
}

/// A small plan.
pub fn plan(cases: Vec<Case>) -> Plan {
    Plan {
        cases,
        heap_bytes: 1 << 20,
        full_heap_bytes: 64 << 10,
        samples: 3,
        warm_ups: 1,
        patience: 1.0,
        aging_operations: 1000,
        churn_rounds: 4,
        seed: 1,
        stripes: None,
    }
}
