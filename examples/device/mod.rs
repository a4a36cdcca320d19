//! The device that an example runs on: `--device cuda:0` on its command line, or the CPU.

use scatterheap::{Device, Result, Selector};

/// Opens the device that the command line names.
pub fn from_command_line() -> Result<Device> {
    let mut arguments = std::env::args().skip(1);
    let selector = match arguments.find(|argument| argument == "--device") {
        Some(_) => arguments.next().unwrap_or_default().parse()?,
        None => Selector::Cpu { threads: None },
    };
    scatterheap::open(&selector)
}
