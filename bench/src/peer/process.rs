//! A worker process, seen from its parent.
//!
//! It leads a process group of its own, so that all that a plug-in starts can be ended with it. Its
//! standard input is one end of a pair of sockets over which both speak; what it prints goes into
//! a pipe, and so never among the messages. When the parent is gone, for whatever reason, the
//! worker reads the end of its input, and ends its group.

use super::ending::Ending;
use super::error::Error;
use super::message::{Message, Order, parse, send};
use super::output::Output;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long an ended process may take until it is gone: a driver gives a GPU's memory back first.
const MOURNING: Duration = Duration::from_secs(20);
/// How long a worker may take to open the device, at least: a driver may have to compile kernels.
const OPENING: Duration = Duration::from_secs(60);

/// A running worker; ended when dropped.
pub(super) struct Process {
    child: Child,
    channel: BufReader<UnixStream>,
    output: Output,
    timeout: Duration,
    /// Ended, and waited for.
    gone: bool,
}

impl Process {
    /// Starts a worker and tells it what to do.
    pub fn start(mut command: Command, order: &Order, timeout: Duration) -> Result<Self, Error> {
        let (mine, its) = UnixStream::pair().map_err(Error::system("connect processes"))?;
        let (reader, writer) = std::io::pipe().map_err(Error::system("make a pipe"))?;
        let also = writer.try_clone().map_err(Error::system("share a pipe"))?;
        command
            .stdin(OwnedFd::from(its))
            .stdout(writer)
            .stderr(also)
            .process_group(0);
        let output = Output::drain(reader).map_err(Error::system("start a thread"))?;
        let child = command.spawn().map_err(Error::system("start a process"))?;
        // The command holds the worker's ends of the pipe and of the socket.
        drop(command);
        let mut process = Self {
            child,
            channel: BufReader::new(mine),
            output,
            timeout,
            gone: false,
        };
        // If this fails the worker has ended, which the first message will tell better.
        let _sent = send(process.channel.get_mut(), order);
        process.be_patient(timeout.max(OPENING))?;
        Ok(process)
    }

    fn be_patient(&self, timeout: Duration) -> Result<(), Error> {
        let channel = self.channel.get_ref();
        channel
            .set_read_timeout(Some(timeout))
            .map_err(Error::system("limit the time of a read"))
    }

    /// The next message, or how the worker ended instead.
    pub fn next(&mut self) -> Result<Message, Ending> {
        let mut line = String::new();
        match self.channel.read_line(&mut line) {
            Ok(1..) => self.understand(&line),
            Ok(0) => Err(self.ended_within(self.timeout)),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                Err(Ending::Garbled(error.to_string()))
            }
            // Time is over, or the connection is broken.
            Err(_) => Err(self.ended_within(Duration::ZERO)),
        }
    }

    fn understand(&self, line: &str) -> Result<Message, Ending> {
        let garbled = |reason: String| Ending::Garbled(reason);
        let message = parse(line).map_err(|error| garbled(error.to_string()))?;
        match message {
            Message::Ready => {
                // From now on the plug-in is in charge.
                self.be_patient(self.timeout)
                    .map_err(|error| garbled(error.to_string()))?;
                Ok(message)
            }
            Message::Lost(reason) => Err(Ending::Lost(reason)),
            other => Ok(other),
        }
    }

    /// How the process ended, if it did within a time; else it is silent.
    fn ended_within(&mut self, patience: Duration) -> Ending {
        let ended = becomes_true(patience, || has_ended(&self.child));
        match ended.then(|| self.clear_away()) {
            Some(Ok(status)) => Ending::Died(status),
            _ => Ending::Silent(self.timeout),
        }
    }

    /// Ends the process and all that it started, and gives the last line that they printed.
    pub fn end(mut self) -> Result<Option<String>, Error> {
        self.kill()?;
        Ok(self.output.last_line())
    }

    fn kill(&mut self) -> Result<(), Error> {
        if self.gone {
            return Ok(());
        }
        self.kill_group();
        if becomes_true(MOURNING, || has_ended(&self.child)) && self.clear_away().is_ok() {
            return Ok(());
        }
        Err(Error::NotKillable {
            process: self.child.id(),
        })
    }

    /// Ends what an ended process leaves behind. Only then its number, which is the group's, is
    /// given back, so that no other group can be hit.
    fn clear_away(&mut self) -> std::io::Result<ExitStatus> {
        self.kill_group();
        self.gone = true;
        self.child.wait()
    }

    fn kill_group(&self) {
        // Fails if nobody of the group is left, which is what is wanted.
        let _killed = killpg(id(&self.child), Signal::SIGKILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ended = self.kill();
    }
}

fn id(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Whether a process has ended. Leaves it to be waited for.
fn has_ended(child: &Child) -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(id(child)), look), Ok(WaitStatus::StillAlive))
}

/// Whether a condition becomes true within a time.
fn becomes_true(patience: Duration, condition: impl Fn() -> bool) -> bool {
    let end = Instant::now() + patience;
    while !condition() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
