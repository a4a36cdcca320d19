//! Progress bars on stderr: only where stderr is a terminal and text was asked for.

use super::Common;
use super::output::note;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Letters that words before the bar take, so that it does not jump.
const WORDS: usize = 44;

/// A bar that disappears when it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar with a label before it.
    pub fn new(common: &Common, label: &str) -> Self {
        // The target hides itself where stderr is no terminal.
        let target = if common.json {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let style =
            ProgressStyle::with_template("{prefix:<12} {wide_bar} {percent:>3} %  {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(1), target)
            .with_style(style)
            .with_prefix(label.to_owned());
        bar.tick();
        Self(bar)
    }

    /// Says what is being done, in the place of the label.
    pub fn say(&self, words: &str) {
        self.0.set_prefix(format!("{words:<WORDS$}"));
    }

    /// Prints a line on stderr that stays, above the bar.
    pub fn note(&self, line: &str) {
        self.0.suspend(|| note(line));
    }

    /// Shows how much of the work is done.
    pub fn show(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
