//! Where the tools are that this project installs for itself.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::find_program;

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// Where cargo puts what it builds.
pub fn target_directory() -> PathBuf {
    let chosen = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace().join(chosen)
}

/// The cargo that runs this task, in the workspace.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    command
}

/// Where `cargo xtask setup` puts CUDA's tools.
pub fn cuda_tools() -> PathBuf {
    workspace().join(".tools").join("cuda")
}

/// The `ptxas` that `cargo xtask setup` installs, whether it is there or not.
pub fn own_ptxas() -> PathBuf {
    cuda_tools()
        .join("bin")
        .join(format!("ptxas{}", env::consts::EXE_SUFFIX))
}

/// The `nvcc` that `cargo xtask setup` installs, whether it is there or not.
pub fn own_nvcc() -> PathBuf {
    cuda_tools()
        .join("bin")
        .join(format!("nvcc{}", env::consts::EXE_SUFFIX))
}

/// CUDA's assembler, which checks PTX and reports registers, stack and spills: our own, else the
/// CUDA toolkit's.
pub fn ptxas() -> Option<PathBuf> {
    let toolkits = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(env::var_os)
        .map(PathBuf::from);
    [own_ptxas()]
        .into_iter()
        .chain(
            toolkits
                .chain([PathBuf::from("/usr/local/cuda")])
                .map(|root| root.join("bin").join("ptxas")),
        )
        .find(|program| program.is_file())
        .or_else(|| find_program("ptxas"))
}
