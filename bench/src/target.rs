//! What scatterheap is to reach on a GPU, by the tests' figures.

use crate::case::{Case, Test};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Threads that the targets of `uniform` and `mixed` are for.
const FULL: u32 = 1 << 20;

/// A bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At most so many times the floor of the same run.
    TimesFloor(f64),
    /// At most so many times what half and twice the bytes take, each.
    TimesNeighbour(f64),
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Target {
    /// Whether a figure reaches it; unknown without the floor or the lesser of its neighbours' figures, if it needs that.
    #[must_use]
    pub fn is_met(self, value: f64, floor: Option<f64>, neighbour: Option<f64>) -> Option<bool> {
        match self {
            Self::TimesFloor(times) => Some(value <= times * floor?),
            Self::TimesNeighbour(times) => Some(value <= times * neighbour?),
            Self::AtMost(most) => Some(value <= most),
            Self::AtLeast(least) => Some(value >= least),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TimesFloor(times) => write!(formatter, "≤ {times} × floor"),
            Self::TimesNeighbour(times) => write!(formatter, "≤ {times} × neighbour"),
            Self::AtMost(most) => write!(formatter, "≤ {most}"),
            Self::AtLeast(least) => write!(formatter, "≥ {least}"),
        }
    }
}

/// The target of a figure of a case, if it has one.
#[must_use]
pub fn target(case: &Case, metric: &str) -> Option<Target> {
    match metric {
        "alloc_us" | "free_us" if matches!(case.test, Test::Sizes | Test::SizesAged) => {
            Some(Target::TimesNeighbour(2.0))
        }
        "alloc_us" => to_allocate(case).map(Target::TimesFloor),
        "free_us" => to_free(case).map(Target::TimesFloor),
        "churn_us" if case.n >= 1 << 17 => match case.most {
            16 => Some(Target::AtMost(400.0)),
            256 => Some(Target::AtMost(600.0)),
            4096 => Some(Target::AtMost(1000.0)),
            _ => None,
        },
        "utilization" => match case.test {
            Test::Oom => Some(Target::AtLeast(0.98)),
            _ => Some(Target::AtLeast(0.95)),
        },
        "range_ratio" if case.test == Test::Frag && case.most == 16 => Some(Target::AtMost(2.0)),
        "init_ms_first" if case.most <= 16 * GIB => Some(Target::AtMost(2.0)),
        "init_ms_first" if case.most <= 128 * GIB => Some(Target::AtMost(10.0)),
        "registers" => Some(Target::AtMost(40.0)),
        "stack_bytes" => Some(Target::AtMost(0.0)),
        _ => None,
    }
}

fn to_allocate(case: &Case) -> Option<f64> {
    match (case.test, case.most) {
        (Test::Uniform, size) if case.n == FULL => Some(match size {
            ..=256 => 1.5,
            257..=KIB => 2.0,
            _ => 3.0,
        }),
        (Test::Mixed, 512) if case.n == FULL => Some(2.0),
        (Test::Mixed, 8192) if case.n == FULL => Some(3.0),
        (Test::Scale, ..=8192) if case.n <= 1 << 14 => Some(1.5),
        (Test::Scale, 16 | 256) if case.n == 1 << 22 => Some(2.0),
        (Test::Warp, _) | (Test::Large, MIB) => Some(2.0),
        (Test::Large | Test::UniformAged | Test::MixedAged, _) => Some(3.0),
        _ => None,
    }
}

fn to_free(case: &Case) -> Option<f64> {
    let wanted = match case.test {
        Test::Uniform | Test::Mixed => case.n == FULL,
        Test::Scale => case.n == 1 << 22 && matches!(case.most, 16 | 256),
        Test::Warp => true,
        _ => false,
    };
    wanted.then_some(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_case() {
        let case = |test, most, n| Case {
            test,
            least: 16,
            most,
            n,
        };
        let uniform = |most| target(&case(Test::Uniform, most, FULL), "alloc_us");
        assert_eq!(uniform(256), Some(Target::TimesFloor(1.5)));
        assert_eq!(uniform(512), Some(Target::TimesFloor(2.0)));
        assert_eq!(uniform(8192), Some(Target::TimesFloor(3.0)));
        assert_eq!(target(&case(Test::Uniform, 16, 1 << 16), "alloc_us"), None);
        assert_eq!(
            target(&case(Test::Init, 128 * GIB, 0), "init_ms_first"),
            Some(Target::AtMost(10.0))
        );
        assert_eq!(target(&case(Test::Uniform, 16, FULL), "range_ratio"), None);
    }

    #[test]
    fn a_ratio_needs_what_it_is_to() {
        let target = Target::TimesFloor(1.5);
        assert_eq!(target.is_met(15.0, Some(10.0), None), Some(true));
        assert_eq!(target.is_met(15.1, Some(10.0), None), Some(false));
        assert_eq!(target.is_met(15.0, None, Some(10.0)), None);
        let target = Target::TimesNeighbour(2.0);
        assert_eq!(target.is_met(20.0, None, Some(10.0)), Some(true));
        assert_eq!(target.is_met(20.1, None, Some(10.0)), Some(false));
        assert_eq!(target.is_met(20.0, Some(10.0), None), None);
        assert_eq!(Target::AtLeast(0.98).is_met(0.99, None, None), Some(true));
    }
}
