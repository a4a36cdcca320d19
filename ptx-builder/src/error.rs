//! What can go wrong between a kernel crate and its PTX. Each message says what was asked, what was
//! found, what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::COMPILER_VARIABLE;

/// An error of finding a compiler or of compiling a kernel crate.
///
/// Its `Debug` form is the message too, because that is what a build script prints when its `main`
/// returns the error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No installed compiler can build kernels. Callers that can do without a GPU may go on without
    /// one.
    #[error(
        "no Rust compiler that can build GPU kernels was found ({searched}); install one with \
         `apt-get install rustc-web cargo-web rust-web-src` (Debian, Ubuntu) or \
         `rustup toolchain install nightly --component rust-src` (everywhere else)"
    )]
    CompilerMissing {
        /// Each place that was looked at, and why it did not serve.
        searched: String,
    },

    /// The environment variable names a compiler that cannot build kernels.
    #[error("{COMPILER_VARIABLE} is {}, which cannot build GPU kernels: {reason}; correct or unset it", path.display())]
    CompilerUnusable {
        /// The value of the variable.
        path: PathBuf,
        /// Why it does not serve.
        reason: String,
    },

    /// The directory that was given holds no crate.
    #[error("no kernel crate in {}: it has no Cargo.toml; give the directory of a kernel crate", directory.display())]
    CrateMissing {
        /// The directory that was given.
        directory: PathBuf,
    },

    /// Cargo could not describe the kernel crate.
    #[error("cannot read the manifest {}: {reason}", manifest.display())]
    Metadata {
        /// The manifest that was asked about.
        manifest: PathBuf,
        /// What cargo said.
        reason: String,
    },

    /// No output directory was given, and there is none outside a build script.
    #[error(
        "no directory to write PTX to: OUT_DIR is set only in build scripts; call Builder::output_directory"
    )]
    OutputDirectoryMissing,

    /// The kernel crate does not compile.
    #[error(
        "cannot compile the kernel crate {crate_name} for {baseline} with {compiler}:\n{stderr}"
    )]
    CompileFailed {
        /// The name of the kernel crate.
        crate_name: String,
        /// The baseline it was compiled for.
        baseline: String,
        /// The compiler, with its version.
        compiler: String,
        /// What cargo wrote to its standard error.
        stderr: String,
    },

    /// The kernel crate calls functions that nobody defines.
    #[error(
        "the kernel crate {crate_name} calls {functions}, which neither it nor the driver defines: define it in the crate or one that it depends on (`memcmp` comes with `scatterheap-simt`), or name it to Builder::external_functions if another module defines it"
    )]
    Undefined {
        /// The name of the kernel crate.
        crate_name: String,
        /// The functions' names in the module, with commas between.
        functions: String,
    },

    /// A function calls itself by name, and could not be kept from it.
    #[error(
        "`{function}` calls itself in a way that is not known here, and NVIDIA's assembler compiles that wrongly; call it through a pointer"
    )]
    RecursionLeft {
        /// Its name in the module.
        function: String,
    },

    /// A function of a module cannot be made into inline assembly.
    #[error(
        "`{function}` cannot be made into inline assembly for CUDA C++: {reason}; see `scatterheap_ptx_builder::cuda_cpp`"
    )]
    NotForCudaCpp {
        /// Its name.
        function: String,
        /// What is not as it must be.
        reason: String,
    },

    /// A program could not be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why the operating system refused.
        source: io::Error,
    },

    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried: read, list, write, create.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why the operating system refused.
        source: io::Error,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
