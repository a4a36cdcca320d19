//! Common options where they mean nothing: of subcommands that read files and use no device, or have heaps of their own sizes.

use scatterheap::Selector;
use scatterheap::size::Bytes;

/// Taken, as everywhere, but not offered.
#[derive(Debug, clap::Args)]
pub struct Unused {
    #[arg(long, hide = true, default_value = "auto")]
    device: Selector,
    #[arg(long, hide = true)]
    heap: Option<Bytes>,
    #[arg(long, hide = true, default_value_t = 1)]
    seed: u64,
}

/// The same of a subcommand that uses a device, but chooses its heaps itself.
#[derive(Debug, clap::Args)]
pub struct UnusedHeap {
    #[arg(long, hide = true)]
    heap: Option<Bytes>,
}
