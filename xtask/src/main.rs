//! The project's own tasks, as `cargo xtask TASK`. This file only knows their names; each task has
//! its file.

mod browser;
mod checkers;
mod cuda_package;
mod demo;
mod executables;
mod fuzz;
mod gpu_bundle;
mod long_run;
mod model;
mod mutate;
mod package;
mod process;
mod python;
mod record;
mod revision;
mod room;
mod setup;
mod stages;
mod test;
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
    /// Install what building and checking needs: the compilers of kernels, maturin, Chromium and others
    Setup,
    /// Show what the heap does, on the GPU if there is one and otherwise on the CPU
    Demo,
    Test(test::TestArguments),
    Model(model::ModelArguments),
    Fuzz(fuzz::FuzzArguments),
    Record(record::RecordArguments),
    Wheel(python::WheelArguments),
    CudaPackage(cuda_package::PackageArguments),
    /// Pack the crates as they are published, and build each from its package, without the repository
    Package,
    GpuBundle(gpu_bundle::BundleArguments),
}

fn main() -> ExitCode {
    #[cfg(unix)]
    end_with_the_reader();
    let result = match Arguments::parse().task {
        Task::Setup => setup::run_setup(),
        Task::Demo => demo::run(),
        Task::Test(arguments) => test::run(&arguments),
        Task::Model(arguments) => model::run(arguments),
        Task::Fuzz(arguments) => fuzz::run(arguments),
        Task::Record(arguments) => record::run(arguments),
        Task::Wheel(arguments) => python::run_wheel(arguments),
        Task::CudaPackage(arguments) => cuda_package::run(&arguments),
        Task::Package => package::run(),
        Task::GpuBundle(arguments) => gpu_bundle::run(arguments),
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

/// Lets the program end as others do when nobody reads its output any more, as of `cargo xtask … | head`. Rust's programs are told by an error
/// instead, which `println!` takes for a reason to panic.
#[cfg(unix)]
fn end_with_the_reader() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: the default action runs no code of this process.
    let _was_there_before = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}
