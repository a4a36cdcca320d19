//! The option `--harden`, which says what a heap is to find.

use scatterheap::Hardening;

/// Modes of the heap.
#[derive(Debug, clap::Args)]
pub struct HardeningArguments {
    /// Hardened modes of the heap: `all`, or some of red-zones, poison, zero, quarantine, trap and
    /// tags, with commas between
    #[arg(long, value_name = "MODES", default_value_t = Hardening::NONE)]
    harden: Hardening,
}

impl HardeningArguments {
    /// The modes that were asked for.
    pub fn modes(&self) -> Hardening {
        self.harden
    }
}
