//! Heaps that grow: memory is mapped behind reserved addresses, so that blocks stay where they are.
//!
//! The heap is laid out for the most that it may have; memory is mapped in pieces that double, and near the end of the device's memory halve, when
//! the device asks for it in the heap's mailbox (see [`heap_core::growth`]) or the host calls
//! [`Heap::grow`](crate::Heap::grow). Pieces are unmapped whole, the last one first.

mod heap;
mod pieces;
mod trial;
mod watcher;

pub(crate) use heap::Growing;
pub use heap::GrownLaunch;
pub(crate) use pieces::{Pieces, Plan};
pub(crate) use trial::maps_beside_kernels;
pub(crate) use watcher::Watcher;

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// When a heap grows by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// Never. It has its capacity from the beginning.
    #[default]
    Fixed,
    /// Before the next launch through the heap, if a request found no memory since the last one.
    /// Requests that find none are answered with NULL at once.
    BetweenLaunches,
    /// While kernels run: a thread of the host maps more when a request finds no memory, and
    /// before, when little is left. Requests wait for it; NULL means that the heap is as
    /// large as it may be, that the device has no more memory, or that the host did not answer in time.
    Live,
}

impl Growth {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::BetweenLaunches, Self::Live];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::BetweenLaunches => "between-launches",
            Self::Live => "live",
        }
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Growth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|growth| growth.name() == text)
            .ok_or_else(|| format!("`{text}` is no way to grow: use one of {names}"))
    }
}
