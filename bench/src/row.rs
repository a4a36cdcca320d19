//! What was measured: rows of a table with one figure each, and the events of a run.

use crate::case::Case;
use serde::{Deserialize, Serialize};

/// One figure. As a line of CSV: `test,allocator,size,n,metric,value`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the test, such as `uniform`.
    pub test: String,
    /// Name of the allocator; `floor` allocates nothing.
    pub allocator: String,
    /// Bytes asked for, or the most of them where sizes are mixed.
    pub size: u64,
    /// Threads, or warps of which one lane works.
    pub n: u64,
    /// What was measured, with its unit, such as `alloc_us`. Of what was measured several times this is the median, and
    /// there are rows with `_p10` and `_p90` after the name for the spread.
    pub metric: String,
    /// How much.
    pub value: f64,
}

/// What happens in a run, in order. Runs in child processes send these as lines of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// An allocator begins with a case.
    Begin {
        /// The case.
        case: Case,
        /// The allocator's name.
        allocator: String,
    },
    /// A figure.
    Row(Row),
    /// The allocator could not do the case, in words; it goes on with the next.
    Failed {
        /// The case.
        case: Case,
        /// The allocator's name.
        allocator: String,
        /// What went wrong, in one line.
        reason: String,
    },
}
