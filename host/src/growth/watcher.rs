//! The thread that maps memory for a heap while kernels run.

use super::Pieces;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Between two looks at the mailbox, while the heap is in use.
const BUSY: Duration = Duration::from_micros(50);
/// Between two looks, while it is not.
const QUIET: Duration = Duration::from_millis(1);
/// Before the next look after there was no memory.
const AFTER_FAILURE: Duration = Duration::from_millis(20);
/// A heap is in use for this long after something was asked for or launched.
const ATTENTION: Duration = Duration::from_secs(1);

/// Serves a heap's requests until it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Dropped to end the thread; a message wakes it up.
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub fn start(pieces: Arc<Pieces>) -> Result<Self> {
        let (wake, woken) = channel();
        let serve = move || {
            let mut active = Instant::now();
            loop {
                let nap = if active.elapsed() < ATTENTION {
                    BUSY
                } else {
                    QUIET
                };
                match woken.recv_timeout(nap) {
                    Ok(()) => active = Instant::now(),
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                // No heap that prepares its pages grows while kernels run.
                match pieces.serve_request(&|_, _| Ok(())) {
                    Ok(true) => active = Instant::now(),
                    Ok(false) => {}
                    // Kept with the pieces, and nobody waits for what cannot be had. Others may
                    // release memory, so it is tried again.
                    Err(error) => {
                        pieces.device().tell_later(Err(error));
                        std::thread::sleep(AFTER_FAILURE);
                    }
                }
            }
        };
        let thread = Builder::new()
            .name("scatterheap-growth".into())
            .spawn(serve)
            .map_err(Error::threads(1))?;
        Ok(Self {
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// Says that a kernel is launched now.
    pub fn attend(&self) {
        if let Some(wake) = &self.wake {
            // The thread lives as long as the sender.
            let _sent = wake.send(());
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
