//! The project's own tasks, as `cargo xtask TASK`. This file only knows their names; each task has
//! its file.

mod process;
mod setup;
mod toolchain;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "The project's own tasks",
    version
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what building and checking GPU kernels needs: the kernel compiler and ptxas
    Setup,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Setup => setup::run_setup(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Causes on the same line: `cannot unpack x: no space left`.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
