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
    /// Allocations that failed, and of whom, as that decides: work that was not done takes no time.
    pub failed: Option<String>,
}

/// Looks for all targets in a table.
#[must_use]
pub fn judge(rows: &[Row]) -> Vec<Verdict> {
    TARGETS.iter().map(|target| target.judge(rows)).collect()
}

impl Asked {
    /// What it is about, and what is asked for, in words.
    fn words(&self) -> (String, String) {
        match self {
            Self::Faster(other, times) => (
                format!("times faster than {other}"),
                format!("{times} at least"),
            ),
            Self::AtMost(metric, most) => ((*metric).to_owned(), format!("{most} at most")),
            Self::AtLeast(metric, least) => ((*metric).to_owned(), format!("{least} at least")),
            Self::NoFailure => ("failures".to_owned(), "none".to_owned()),
        }
    }

    /// Whether what was found is enough.
    fn is_met_by(&self, found: f64) -> bool {
        match *self {
            Self::Faster(_, least) | Self::AtLeast(_, least) => found >= least,
            Self::AtMost(_, most) => found <= most,
            Self::NoFailure => found == 0.0,
        }
    }
}

impl Target {
    fn judge(&self, rows: &[Row]) -> Verdict {
        let (what, asked) = self.asked.words();
        let found = self.find(rows);
        let others = match self.asked {
            Asked::Faster(other, _) => self.failed(rows, other),
            _ => None,
        };
        let ours = self.failed(rows, OURS);
        let is_met = match (&ours, &others) {
            // What we did not do is no success; what another did not do leaves nothing to compare with.
            (Some(_), _) => found.map(|_| false),
            (None, Some(_)) => None,
            (None, None) => found.map(|found| self.asked.is_met_by(found)),
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
            failed: ours.or(others).filter(|_| found.is_some()),
        }
    }

    /// What the figures say, if it was measured.
    fn find(&self, rows: &[Row]) -> Option<f64> {
        let time = self.value(rows, OURS, "ns_per_pair");
        match self.asked {
            Asked::Faster(other, _) => Some(self.value(rows, other, "ns_per_pair")? / time?),
            Asked::AtMost(metric, _) | Asked::AtLeast(metric, _) => self.value(rows, OURS, metric),
            Asked::NoFailure => time.map(|_| self.value(rows, OURS, "failures").unwrap_or(0.0)),
        }
    }

    /// How many allocations of a resource failed, in words, if any did.
    fn failed(&self, rows: &[Row], resource: &str) -> Option<String> {
        let failures = self.value(rows, resource, "failures")?;
        (failures > 0.0).then(|| format!("{failures} allocations of {resource} failed"))
    }

    fn value(&self, rows: &[Row], resource: &str, metric: &str) -> Option<f64> {
        let is_it = |row: &&Row| {
            (row.scenario.as_str(), row.threads) == (self.scenario, self.threads)
                && (row.resource.as_str(), row.metric.as_str()) == (resource, metric)
        };
        rows.iter().find(is_it).map(|row| row.value)
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

    #[test]
    fn what_was_not_done_is_no_success_and_nothing_to_compare_with() {
        let verdict = |failures: &[Row]| {
            let rows = [
                row("large", "scatterheap", "ns_per_pair", 100.0),
                row("large", "torch", "ns_per_pair", 900.0),
            ];
            let verdicts = judge(&[&rows, failures].concat());
            let is_it = |verdict: &Verdict| verdict.what.starts_with("large, 1 thread");
            let verdict = verdicts.into_iter().find(is_it).expect("it is a target");
            assert_eq!(verdict.found, Some(9.0));
            (verdict.is_met, verdict.failed)
        };
        let ours = row("large", "scatterheap", "failures", 3.0);
        let others = row("large", "torch", "failures", 2.0);
        let (our_words, words) = (
            Some("3 allocations of scatterheap failed".to_owned()),
            Some("2 allocations of torch failed".to_owned()),
        );
        assert_eq!(verdict(&[]), (Some(true), None));
        assert_eq!(
            verdict(std::slice::from_ref(&ours)),
            (Some(false), our_words.clone())
        );
        assert_eq!(verdict(std::slice::from_ref(&others)), (None, words));
        assert_eq!(verdict(&[ours, others]), (Some(false), our_words));
    }
}
