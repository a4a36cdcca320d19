//! What every resource and every adaptor promises: one table of resources, each case for all of them,
//! on the CPU and, with the feature `cuda`, on the first GPU. Each is a test of its own, named
//! `CASE::RESOURCE::DEVICE`; `SCATTERHEAP_MATRIX=FILE` writes what became of them as a table.

#[cfg(target_os = "linux")]
#[path = "conformance/suite.rs"]
mod suite;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return suite::run();
    #[cfg(not(target_os = "linux"))]
    ExitCode::SUCCESS
}
