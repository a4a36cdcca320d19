//! A running heap as others see it: a thread looks at the heap's metadata while kernels run, and publishes what it
//! found as a small file, which `scatterheap top` shows.
//!
//! Kernels do nothing for it, and nobody waits for them. On a GPU a copy on a stream of its own brings the metadata to
//! page-locked memory: at most 18 MiB, without the bitmap of the slots. Periods are made longer where copies would take more than
//! a [hundredth](MOST_BUSY) of the time. On the CPU, whose threads are the device, it is the time of all threads together, and all
//! that the monitor's own thread does is counted.
//!
//! A copy that runs beside kernels is of slightly different moments: figures may disagree by what was under way. For
//! exact ones there is [`Heap::snapshot`], which waits for the launches.
//!
//! | file | what it is about |
//! |---|---|
//! | `exposed` | what a heap shows, and that it is there while somebody looks |
//! | `look`, `clock` | one look at it, and the time that it takes |
//! | `reading` | what is published |
//! | `directory`, `publication` | where, and how it is seen that a process lives no more |

mod clock;
mod directory;
mod exposed;
mod look;
mod publication;
mod reading;
#[cfg(test)]
mod tests;

pub use directory::{RUN_DIRECTORY, run_directory};
pub(crate) use exposed::{Exposed, Seen, ShownOperations};
pub use publication::published;
pub use reading::Reading;

use crate::error::{Error, Result};
use crate::heap::Heap;
use look::Looker;
use publication::Publication;
use reading::Origin;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Looking takes this part of the time at most: one of so many.
pub const MOST_BUSY: u32 = 100;

/// Between two looks there is this much time at least.
pub const LEAST_PERIOD: Duration = Duration::from_millis(1);

/// How a heap is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What people are to know the heap by.
    pub name: String,
    /// Between two looks, if that is not too often; a quarter of a second if nothing is said,
    /// [`LEAST_PERIOD`] at least.
    pub period: Duration,
    /// Where readings are published; [`run_directory`] if nothing is said.
    pub directory: Option<PathBuf>,
}

impl Default for Settings {
    /// Those of a heap named as the program.
    fn default() -> Self {
        let program = std::env::current_exe().ok();
        let name = program.as_deref().and_then(Path::file_name);
        Self {
            name: name.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            period: Duration::from_millis(250),
            directory: None,
        }
    }
}

/// Watches a heap until it is dropped, or the heap is.
#[derive(Debug)]
#[must_use = "a heap is watched only until this is dropped"]
pub struct Monitor {
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    said: Arc<Mutex<Said>>,
    file: PathBuf,
}

/// What the program and the thread say to each other.
#[derive(Debug, Default)]
struct Said {
    doing: String,
    failure: Option<String>,
}

impl Heap {
    /// Publishes what the heap holds while kernels run, for `scatterheap top`. Readings are of slightly different
    /// moments, see [`monitor`](crate::monitor). To start and to end it may wait for kernels, as the driver does when page-locked memory
    /// is allocated and released. A monitor sees nothing any more when its device was lost: start another one after a
    /// [`rebuild`](Self::rebuild).
    ///
    /// # Errors
    ///
    /// If the heap was lost, the device or the system fails, or there is no directory for the readings.
    pub fn monitor(&self, settings: &Settings) -> Result<Monitor> {
        self.check()?;
        let directory = match &settings.directory {
            Some(directory) => directory.clone(),
            None => run_directory()?,
        };
        let publication = Publication::new(&directory)?;
        let file = publication.file().to_owned();
        let looker = Looker::new(self.device(), self.layout())?;
        let said = Arc::<Mutex<Said>>::default();
        let watcher = Watcher {
            origin: Origin::new(self, &settings.name, &publication),
            exposed: self.exposed().watch(),
            looker,
            publication,
            said: Arc::clone(&said),
            period: settings.period.max(LEAST_PERIOD),
        };
        let (stop, stopped) = channel();
        let thread = Builder::new()
            .name("scatterheap-monitor".into())
            .spawn(move || watcher.run(&stopped))
            .map_err(Error::threads(1))?;
        Ok(Monitor {
            stop: Some(stop),
            thread: Some(thread),
            said,
            file,
        })
    }
}

impl Monitor {
    /// Says what the program does with the heap now.
    pub fn say(&self, doing: impl Into<String>) {
        lock(&self.said).doing = doing.into();
    }

    /// Why the last look was not published, if it was not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        lock(&self.said).failure.clone()
    }

    /// The file of the readings. It is there after the first look.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time between two looks after one that kept the device busy for so long: as asked for, or more if that is too
/// much of it. One that took long for once, as the driver or the system had other things to do, changes little.
fn next_period(asked: Duration, last: Duration, busy: Duration) -> Duration {
    let rare = busy.saturating_mul(MOST_BUSY);
    rare.min(last.saturating_mul(2)).max(asked)
}

/// The thread's own.
struct Watcher {
    origin: Origin,
    exposed: Weak<Mutex<Option<Seen>>>,
    looker: Looker,
    publication: Publication,
    said: Arc<Mutex<Said>>,
    period: Duration,
}

impl Watcher {
    fn run(mut self, stopped: &Receiver<()>) {
        let mut period = self.period;
        loop {
            let begin = Instant::now();
            // It is gone with the heap.
            let Some(exposed) = self.exposed.upgrade() else {
                return;
            };
            match self.look(&exposed, period) {
                Ok(Some(busy)) => {
                    period = next_period(self.period, period, busy);
                    lock(&self.said).failure = None;
                }
                // The heap is being made empty.
                Ok(None) => {}
                Err(error) => lock(&self.said).failure = Some(error.to_string()),
            }
            drop(exposed);
            let pause = period.saturating_sub(begin.elapsed());
            match stopped.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return,
            }
        }
    }

    /// Looks once, and publishes it. Gives the device's time that it took.
    fn look(
        &mut self,
        exposed: &Mutex<Option<Seen>>,
        period: Duration,
    ) -> Result<Option<Duration>> {
        let begin = clock::of_thread();
        let Some(look) = self.looker.look(exposed)? else {
            return Ok(None);
        };
        let doing = lock(&self.said).doing.clone();
        let reading = Reading::new(&self.origin, doing, period, &look);
        self.publication.publish(&reading)?;
        Ok(Some(match self.origin.threads() {
            None => look.copying,
            Some(threads) => clock::of_thread().saturating_sub(begin) / threads,
        }))
    }
}
