//! Resources around other resources.
//!
//! An adaptor owns the resource below it, or shares it as an `Arc`. Wrong use is refused by the
//! resource that owns the memory, and counted by none of them. A block that was allocated from a shared resource
//! directly may be freed through an adaptor, which does not count it as handed out. What was allocated through one is
//! freed through it.

mod by_size;
mod fallback;
mod handed_out;
mod limiting;
mod logging;
mod on_failure;
mod statistics;
mod tracking;
mod waiting;

use handed_out::HandedOut;

use super::{Error, MemoryResource, Result};

pub use by_size::BySize;
pub use fallback::Fallback;
pub use limiting::Limiting;
pub use logging::Logging;
pub use on_failure::OnFailure;
pub use statistics::{Counts, Statistics};
pub use tracking::{Allocation, Report, Tracking};
pub use waiting::{Waiter, Waiting};

/// Refuses two resources of different devices.
fn check_same_device(first: &impl MemoryResource, second: &impl MemoryResource) -> Result<()> {
    if first.device().is_same(second.device()) {
        return Ok(());
    }
    Err(Error::BadSettings {
        asked: format!(
            "resources of {} and {}",
            first.device().label(),
            second.device().label()
        ),
        advice: "use two resources of the same device handle",
    })
}
