//! What a worker and the process that started it say to each other: one line of JSON each.
//!
//! The parent sends one [`Order`]. The worker answers `Ready`, `Named`, events, and at last `Done`,
//! `Lost` or `Refused`. If the worker ends without one of those three, the plug-in has ended it.

use crate::plan::Plan;
use crate::row::Event;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// What a worker is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The device, as a selector.
    pub device: String,
    /// The plug-in.
    pub library: PathBuf,
    /// What to measure; nothing: only say the name.
    pub plan: Option<Plan>,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// The device is open; next the plug-in is loaded.
    Ready,
    /// The plug-in is loaded, and has this name.
    Named(String),
    /// Something happened in the run.
    Event(Event),
    /// The device is lost, so that no further case can be measured in this process.
    Lost(String),
    /// The order cannot be obeyed, in one line.
    Refused(String),
    /// The order was obeyed.
    Done,
}

/// Writes one line.
pub(super) fn send(channel: &mut impl Write, what: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    channel.write_all(&line)
}

/// Reads what one line says.
pub(super) fn parse<T: for<'de> Deserialize<'de>>(line: &str) -> std::io::Result<T> {
    serde_json::from_str(line).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))
}
