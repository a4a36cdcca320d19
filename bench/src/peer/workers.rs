//! Measures plug-ins from outside: starts workers, hands on what they report, ends those that are silent, and
//! starts new ones for what is left.

use super::campaign::Campaign;
use super::ending::Ending;
use super::error::Error;
use super::library::find;
use super::message::{Message, Order};
use super::process::Process;
use crate::plan::Plan;
use crate::row::Event;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A plug-in that can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name in tables.
    pub name: String,
    /// The shared library.
    pub library: PathBuf,
}

/// How workers are started and watched.
#[derive(Clone, Debug)]
pub struct Workers {
    /// The program that calls [`worker`](super::worker) when it is started with `arguments`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Selector of the device that they open.
    pub device: String,
    /// A worker that says nothing for this long is ended.
    pub timeout: Duration,
}

impl Workers {
    /// How long a worker may say nothing where nothing else is asked for.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    /// Loads plug-ins, each in a worker, only to ask for their names.
    ///
    /// # Errors
    ///
    /// If one cannot be loaded, lacks a function, or has no proper name or another's; if no worker can be started, or
    /// it cannot open the device.
    pub fn find(&self, libraries: &[PathBuf]) -> Result<Vec<Peer>, Error> {
        let mut peers: Vec<Peer> = Vec::new();
        for library in libraries {
            let name = self.name_of(library)?;
            if let Some(other) = peers.iter().find(|other| other.name == name) {
                return Err(Error::SameName {
                    name,
                    libraries: [other.library.clone(), library.clone()],
                });
            }
            let library = library.clone();
            peers.push(Peer { name, library });
        }
        Ok(peers)
    }

    fn name_of(&self, library: &Path) -> Result<String, Error> {
        let mut process = self.start(library, None)?;
        let mut name = String::new();
        loop {
            match process.next() {
                Ok(Message::Named(said)) => name = said,
                Ok(Message::Refused(reason)) => return Err(Error::Refused(reason)),
                Ok(Message::Done) => {
                    process.end()?;
                    return Ok(name);
                }
                Ok(_) => {}
                Err(ending) => return Err(early(library, &ending, process.end()?.as_deref())),
            }
        }
    }

    /// Measures a plug-in, and the floor beside it, and reports what happens.
    ///
    /// A case in which the plug-in crashes or hangs gets a row with the metric `died` or `hang`, and an
    /// [`Event::Failed`]; the other cases are then measured in a new process. After three such cases of a test, the rest
    /// of that test is skipped. When `stop` is set, from a signal's handler for example, the worker is ended before it is
    /// at another case, and what remains is not measured; nor is a case at which it ends then.
    ///
    /// # Errors
    ///
    /// As for [`find`](Self::find), and if it ends a worker before that is at a case.
    pub fn measure(
        &self,
        peer: &Peer,
        plan: &Plan,
        stop: &AtomicBool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        let library = &peer.library;
        let mut campaign = Campaign::new(peer.name.clone(), plan.cases.clone());
        // Relaxed: nothing else is told by it.
        while !campaign.remaining().is_empty() && !stop.load(Ordering::Relaxed) {
            let plan = Plan {
                cases: campaign.remaining().to_vec(),
                ..plan.clone()
            };
            let mut process = self.start(library, Some(plan))?;
            match follow(&mut process, &mut campaign, stop, on_event)? {
                None => {
                    process.end()?;
                    campaign.done();
                }
                Some(ending) => {
                    let line = process.end()?;
                    if stop.load(Ordering::Relaxed) {
                        // By the same signal, perhaps: who ends a server ends all of its processes.
                        break;
                    }
                    let events = campaign.ended(&ending, line.as_deref());
                    let events = events.ok_or_else(|| early(library, &ending, line.as_deref()))?;
                    events.into_iter().for_each(&mut *on_event);
                }
            }
        }
        Ok(())
    }

    fn start(&self, library: &Path, plan: Option<Plan>) -> Result<Process, Error> {
        let order = Order {
            device: self.device.clone(),
            library: find(library)?,
            plan,
        };
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        Process::start(command, &order, self.timeout)
    }
}

/// Hands on what a worker reports until it is done or to be stopped, or until it ended, and then how.
fn follow(
    process: &mut Process,
    campaign: &mut Campaign,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<Ending>, Error> {
    loop {
        match process.next() {
            Ok(Message::Event(Event::Begin { .. })) if stop.load(Ordering::Relaxed) => {
                return Ok(None);
            }
            Ok(Message::Event(event)) => {
                campaign.see(&event);
                on_event(event);
            }
            Ok(Message::Done) => return Ok(None),
            Ok(Message::Refused(reason)) => return Err(Error::Refused(reason)),
            Ok(Message::Ready | Message::Named(_) | Message::Lost(_)) => {}
            Err(ending) => return Ok(Some(ending)),
        }
    }
}

/// The error of a plug-in that ended its worker before anything was measured.
fn early(library: &Path, ending: &Ending, last_line: Option<&str>) -> Error {
    Error::EndedEarly {
        library: library.to_owned(),
        reason: ending.words(last_line),
    }
}
