//! The option of runs that publish their heaps, for `scatterheap top`.

use super::output::note;
use anyhow::Result;
use scatterheap::monitor::Settings;
use scatterheap::{Heap, Monitor};

/// Whether a run publishes its heaps.
#[derive(Debug, clap::Args)]
pub struct LiveArguments {
    /// Publish what the heap holds while it runs: `scatterheap top` shows it
    #[arg(long)]
    live: bool,
}

/// Publishes heaps until it is dropped, if that was asked for.
pub struct Live(Vec<Monitor>);

impl LiveArguments {
    /// Begins to publish the heaps of a subcommand.
    pub fn watch(&self, heaps: &[Heap], subcommand: &str) -> Result<Live> {
        if !self.live {
            return Ok(Live(Vec::new()));
        }
        let settings = Settings {
            name: format!("scatterheap {subcommand}"),
            ..Settings::default()
        };
        let monitors = heaps.iter().map(|heap| heap.monitor(&settings));
        Ok(Live(monitors.collect::<scatterheap::Result<_>>()?))
    }
}

impl Live {
    /// Says what is done with the heaps now.
    pub fn say(&self, doing: impl FnOnce() -> String) {
        if self.0.is_empty() {
            return;
        }
        let doing = doing();
        for monitor in &self.0 {
            monitor.say(&*doing);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(failure) = self.0.iter().find_map(Monitor::failure) {
            note(&failure);
        }
    }
}
