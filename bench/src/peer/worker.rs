//! The worker process: opens the device, loads one plug-in, measures, and tells its parent.

use super::error::Error;
use super::library::Library;
use super::message::{Message, Order, parse, send};
use crate::allocator::Allocator;
use crate::allocators::Floor;
use crate::plan::Plan;
use crate::row::Event;
use crate::runner::run;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{dup2_stdin, getpgrp, getpid};
use scatterheap_host::{Device, Selector};
use std::convert::Infallible;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

/// Does what the parent orders through standard input, which must be a socket, and tells it there. Ends only with
/// the parent, or when the parent ends it.
///
/// `open` opens a device with all kernels that the runner needs.
///
/// # Errors
///
/// If the parent is not one: whatever else goes wrong is told to it.
///
/// # Safety
///
/// Standard input names a shared library, which is loaded and called: that must be as for
/// [`Library::open`](super::Library::open). [`Workers`](super::Workers) sends the path that it was given.
pub unsafe fn worker(
    open: impl Fn(&Selector) -> crate::Result<Device>,
) -> Result<Infallible, Error> {
    let (order, mut channel) = receive().map_err(|error| Error::NotAWorker(error.to_string()))?;
    // SAFETY: as the caller promises.
    let last = match unsafe { obey(&order, &mut channel, open) } {
        Ok(()) => Message::Done,
        Err(error) => Message::Refused(error.to_string()),
    };
    tell(&mut channel, &last);
    wait_for_the_end()
}

/// Takes the order, and lets the process end with its parent.
fn receive() -> std::io::Result<(Order, UnixStream)> {
    let channel = UnixStream::from(stdin().as_fd().try_clone_to_owned()?);
    let mut reader = BufReader::new(channel.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let order = parse(&line)?;
    // Nobody else reads or writes what is meant for us.
    dup2_stdin(File::open("/dev/null")?)?;
    std::thread::Builder::new().spawn(move || end_with_the_parent(reader))?;
    Ok((order, channel))
}

/// Waits until the parent is gone, and ends this process and all that it started.
fn end_with_the_parent(mut reader: impl Read) {
    let mut byte = [0];
    while matches!(reader.read(&mut byte), Ok(1..)) {}
    if getpgrp() == getpid() {
        let _killed = killpg(getpgrp(), Signal::SIGKILL);
    }
    std::process::exit(1);
}

/// Plug-ins and drivers may crash in what they do when a process exits, so this one does not: it is
/// ended from outside.
fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

/// Tells the parent; if it is gone, so is the worker.
fn tell(channel: &mut UnixStream, message: &Message) {
    if send(channel, message).is_err() {
        wait_for_the_end();
    }
}

/// Loads the plug-in, and measures it.
///
/// # Safety
///
/// The order must name a library as [`Library::open`] wants one.
unsafe fn obey(
    order: &Order,
    channel: &mut UnixStream,
    open: impl Fn(&Selector) -> crate::Result<Device>,
) -> crate::Result<()> {
    let device = open(&order.device.parse()?)?;
    tell(channel, &Message::Ready);
    // SAFETY: as the caller promises.
    let library = unsafe { Library::open(&order.library) }?;
    tell(channel, &Message::Named(library.name().to_owned()));
    let Some(plan) = &order.plan else {
        return Ok(());
    };
    measure(plan, &device, library, channel)
}

/// Measures the floor and the plug-in in turn, in the cases that a plug-in can do.
fn measure(
    plan: &Plan,
    device: &Device,
    library: Library,
    channel: &mut UnixStream,
) -> crate::Result<()> {
    let mut plan = plan.clone();
    plan.cases.retain(|case| library.takes(case));
    let mut allocators: Vec<Box<dyn Allocator>> =
        vec![Box::new(Floor::new(device)), Box::new(library)];
    // Whoever wants it to stop ends this process.
    let never = AtomicBool::new(false);
    run(&plan, device, &mut allocators, &never, &mut |event| {
        if let Event::Failed { reason, .. } = &event
            && device.synchronize().is_err()
        {
            tell(channel, &Message::Lost(reason.clone()));
            wait_for_the_end();
        }
        tell(channel, &Message::Event(event));
    })
}
