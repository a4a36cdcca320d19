//! Ends the process when the device does not answer: a launch that hangs cannot be stopped otherwise.

use super::output::note;
use std::process::exit;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
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
    pub fn new(what: &'static str, seconds: u64) -> Self {
        let (steps, done) = channel::<()>();
        let limit = Duration::from_secs(seconds);
        let thread = spawn(move || {
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
        });
        Self {
            steps: Some(steps),
            thread: Some(thread),
        }
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
