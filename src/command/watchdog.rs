//! Ends the process when the device does not answer: a launch that hangs cannot be stopped otherwise.

use super::output::note;
use anyhow::Result;
use scatterheap::Error;
use std::process::exit;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The exit code after a launch that hung.
const HUNG: i32 = 3;

/// Waits beside the work until it is dropped.
pub struct Watchdog {
    steps: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Begins to wait: `seconds` for each step.
    pub fn new(what: &'static str, seconds: u64) -> Result<Self> {
        let (steps, done) = channel::<()>();
        let limit = Duration::from_secs(seconds);
        let wait = move || {
            loop {
                match done.recv_timeout(limit) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        note(&format!(
                            "error: {what}: a launch was given {seconds} seconds and has not ended: it hangs, or needs a larger --limit"
                        ));
                        exit(HUNG);
                    }
                }
            }
        };
        let thread = Builder::new().spawn(wait).map_err(Error::threads(1))?;
        Ok(Self {
            steps: Some(steps),
            thread: Some(thread),
        })
    }

    /// A step was done, and the next begins.
    pub fn step(&self) {
        if let Some(steps) = &self.steps {
            // The other end is there until this is dropped.
            let _sent = steps.send(());
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.steps = None;
        if let Some(thread) = self.thread.take() {
            let _joined = thread.join();
        }
    }
}
