//! What the group `cpp` needs: the package for CUDA C++, without an object, which the GPU server's nvcc makes; and programs.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::resources::copy_sources;
use crate::cuda_package;
use crate::process::run;
use crate::toolchain::workspace;

/// Sources by the directory that they come from, that which they go to, and the ends of their names.
const SOURCES: [(&str, &str, &[&str]); 4] = [
    ("examples/13-cuda-cpp", "example", &["cu", "txt"]),
    ("capi/library/tests/programs", "tests", &["cu"]),
    ("benches/cuda-cpp", "benches", &["cu"]),
    ("bench/include", "benches", &["h"]),
];

/// Builds and copies everything into the directory of the bundle.
pub fn gather(directory: &Path) -> Result<()> {
    let directory = directory.join("cuda-cpp");
    let package = directory.join("package");
    cuda_package::gather(&package, false, &["none".to_owned()])?;
    run(Command::new("strip")
        .arg("--strip-unneeded")
        .arg(package.join("lib/libscatterheap.so")))?;
    for (from, to, endings) in SOURCES {
        copy_sources(&workspace().join(from), &directory.join(to), endings)?;
    }
    Ok(())
}
