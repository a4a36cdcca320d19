//! What the default resource is to reach beside others, and whether a table of figures shows it.

use super::row::Row;

/// The resource that a user gets by default.
const OURS: &str = "scatterheap";

/// What is asked of the default resource in a scenario.
enum Asked {
    /// To be at least so many times faster than another one.
    Faster(&'static str, f64),
    /// That a metric is so much at most.
    AtMost(&'static str, f64),
    /// That a metric is so much at least.
    AtLeast(&'static str, f64),
    /// That no allocation fails.
    NoFailure,
}

struct Target {
    scenario: &'static str,
    threads: u16,
    asked: Asked,
}

const fn target(scenario: &'static str, threads: u16, asked: Asked) -> Target {
    Target {
        scenario,
        threads,
        asked,
    }
}

const TARGETS: [Target; 12] = [
    target("same_size", 1, Asked::Faster("torch", 10.0)),
    target("transformer", 1, Asked::Faster("torch", 10.0)),
    target("variable", 1, Asked::Faster("torch", 10.0)),
    target("large", 1, Asked::Faster("torch", 8.0)),
    target("pressure", 1, Asked::Faster("torch", 5.0)),
    target("same_size", 16, Asked::Faster("torch", 100.0)),
    target("one_mib", 1, Asked::Faster("cuda_malloc", 1500.0)),
    target("same_size", 1, Asked::AtMost("ns_per_pair", 50.0)),
    target("same_size", 16, Asked::AtMost("ns_per_pair", 100.0)),
    target("variable", 1, Asked::AtLeast("operations", 1e6)),
    target("variable", 1, Asked::AtMost("reserved_over_live", 1.10)),
    target("pressure", 1, Asked::NoFailure),
];

/// A target and what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What it is about: `large, 1 thread: times faster than torch`.
    pub what: String,
    /// What is asked for: `8 at least`.
    pub asked: String,
    /// What was found, if it was measured.
    pub found: Option<f64>,
    /// Whether that is enough.
    pub is_met: Option<bool>,
}

/// Looks for all targets in a table.
#[must_use]
pub fn judge(rows: &[Row]) -> Vec<Verdict> {
    TARGETS.iter().map(|target| target.judge(rows)).collect()
}

impl Target {
    fn judge(&self, rows: &[Row]) -> Verdict {
        let find = |resource: &str, metric: &str| {
            let is_it = |row: &&Row| {
                (row.scenario.as_str(), row.threads) == (self.scenario, self.threads)
                    && (row.resource.as_str(), row.metric.as_str()) == (resource, metric)
            };
            rows.iter().find(is_it).map(|row| row.value)
        };
        let time = find(OURS, "ns_per_pair");
        let (what, asked, found, is_met) = match self.asked {
            Asked::Faster(other, times) => {
                let ratio = find(other, "ns_per_pair").zip(time);
                let ratio = ratio.map(|(others, ours)| others / ours);
                (
                    format!("times faster than {other}"),
                    format!("{times} at least"),
                    ratio,
                    ratio.map(|ratio| ratio >= times),
                )
            }
            Asked::AtMost(metric, most) => {
                let found = find(OURS, metric);
                (
                    metric.to_owned(),
                    format!("{most} at most"),
                    found,
                    found.map(|found| found <= most),
                )
            }
            Asked::AtLeast(metric, least) => {
                let found = find(OURS, metric);
                (
                    metric.to_owned(),
                    format!("{least} at least"),
                    found,
                    found.map(|found| found >= least),
                )
            }
            Asked::NoFailure => {
                let failures = time.map(|_| find(OURS, "failures").unwrap_or(0.0));
                (
                    "failures".to_owned(),
                    "none".to_owned(),
                    failures,
                    failures.map(|failures| failures == 0.0),
                )
            }
        };
        let threads = if self.threads == 1 {
            "thread"
        } else {
            "threads"
        };
        Verdict {
            what: format!("{}, {} {threads}: {what}", self.scenario, self.threads),
            asked,
            found,
            is_met,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(scenario: &str, resource: &str, metric: &str, value: f64) -> Row {
        Row {
            scenario: scenario.into(),
            resource: resource.into(),
            threads: 1,
            metric: metric.into(),
            value,
        }
    }

    #[test]
    fn what_was_measured_is_judged_and_what_was_not_is_neither() {
        let verdicts = judge(&[
            row("large", "scatterheap", "ns_per_pair", 100.0),
            row("large", "torch", "ns_per_pair", 900.0),
            row("variable", "scatterheap", "ns_per_pair", 100.0),
            row("variable", "torch", "ns_per_pair", 900.0),
            row("variable", "scatterheap", "reserved_over_live", 1.1),
            row("pressure", "scatterheap", "ns_per_pair", 100.0),
        ]);
        let find = |what: &str| {
            let found = verdicts.iter().find(|verdict| verdict.what == what);
            let found = found.expect("it is a target");
            (found.found, found.is_met)
        };
        let [large, variable] = ["large", "variable"]
            .map(|name| find(&format!("{name}, 1 thread: times faster than torch")));
        assert_eq!(large, (Some(9.0), Some(true)));
        assert_eq!(variable, (Some(9.0), Some(false)));
        let held = find("variable, 1 thread: reserved_over_live");
        assert_eq!(held, (Some(1.1), Some(true)));
        assert_eq!(
            find("pressure, 1 thread: failures"),
            (Some(0.0), Some(true))
        );
        let unknown = find("same_size, 16 threads: times faster than torch");
        assert_eq!(unknown, (None, None));
    }
}
