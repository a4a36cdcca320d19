//! The hidden subcommand in which a new process makes its first heap, for the test `init`.

use super::measure::own_file;
use crate::command::output::print;
use crate::command::{Common, FIRST_HEAP};
use anyhow::Result;
use scatterheap::{Device, Hardening};
use scatterheap_bench::{FirstHeap, make_first_heap};
use std::ffi::OsString;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Bytes of the heap
    bytes: u64,
    #[arg(long)]
    stripes: Option<u32>,
    #[arg(long)]
    harden: Option<Hardening>,
}

/// How this program is started so that it does that.
pub fn by_this_program(device: &Device) -> Result<FirstHeap> {
    let arguments = [FIRST_HEAP, "--device", &device.label()].map(OsString::from);
    Ok(FirstHeap {
        program: own_file()?,
        arguments: arguments.into(),
    })
}

/// Makes the heap, and prints how many milliseconds that took.
pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let device = common.open_device()?;
    let modes = arguments.harden.unwrap_or(Hardening::NONE);
    let milliseconds = make_first_heap(&device, arguments.bytes, arguments.stripes, modes)?;
    print(&format!("{milliseconds}\n"))
}
