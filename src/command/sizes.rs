//! The options `--least` and `--most`, which say how large a workload's requests are.

use scatterheap::size::Bytes;
use scatterheap::stress::{Settings, Workload};

/// Bounds of the requests.
#[derive(Debug, clap::Args)]
pub struct SizeArguments {
    /// Smallest request [default: by workload]
    #[arg(long, value_name = "SIZE")]
    least: Option<Bytes>,
    /// Largest request [default: by workload and heap]
    #[arg(long, value_name = "SIZE")]
    most: Option<Bytes>,
}

impl SizeArguments {
    /// The usual settings with the bounds that were asked for. One bound alone moves the other, so
    /// that they fit together.
    pub fn apply(&self, workload: Workload, usual: Settings) -> Settings {
        let (least, most) = match (self.least, self.most) {
            (Some(least), Some(most)) => (least.0, most.0),
            (Some(only), None) | (None, Some(only)) if workload == Workload::Uniform => {
                (only.0, only.0)
            }
            (Some(least), None) => (least.0, usual.most.max(least.0)),
            (None, Some(most)) => (usual.least.min(most.0), most.0),
            (None, None) => (usual.least, usual.most),
        };
        Settings {
            least,
            most,
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bound_moves_the_other() {
        let usual = Settings {
            threads: 1,
            rounds: 1,
            least: 16,
            most: 1024,
            seed: 0,
            moments: 0,
        };
        let bounds = |workload, least: Option<u64>, most: Option<u64>| {
            let arguments = SizeArguments {
                least: least.map(Bytes),
                most: most.map(Bytes),
            };
            let settings = arguments.apply(workload, usual);
            (settings.least, settings.most)
        };
        assert_eq!(bounds(Workload::Mixed, None, None), (16, 1024));
        assert_eq!(bounds(Workload::Mixed, Some(2048), None), (2048, 2048));
        assert_eq!(bounds(Workload::Mixed, None, Some(8)), (8, 8));
        assert_eq!(bounds(Workload::Mixed, Some(9), Some(3)), (9, 3));
        assert_eq!(bounds(Workload::Uniform, None, Some(512)), (512, 512));
    }
}
