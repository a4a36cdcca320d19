//! The directory of the readings: one for each user, which nobody else can write to.

use crate::error::{Error, Result};
use std::env;
use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};

/// The variable that names the directory, if it is to be another one.
pub const RUN_DIRECTORY: &str = "SCATTERHEAP_RUN_DIR";

/// The directory that readings are published in where nothing else is said: what `SCATTERHEAP_RUN_DIR` names, or else
/// `scatterheap` in `XDG_RUNTIME_DIR`, or else `scatterheap-USER` in the directory for temporary files, with the user's number. It
/// is made if it is not there.
///
/// # Errors
///
/// If it cannot be made, or one in the directory for temporary files is open to others.
pub fn run_directory() -> Result<PathBuf> {
    let named = |variable| env::var_os(variable).filter(|value| !value.is_empty());
    let refuse = |path: &Path, error: &io::Error| Error::RunDirectory {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    if let Some(directory) = named(RUN_DIRECTORY) {
        let directory = PathBuf::from(directory);
        make(&directory).map_err(|error| refuse(&directory, &error))?;
        return Ok(directory);
    }
    if let Some(runtime) = named("XDG_RUNTIME_DIR") {
        let directory = PathBuf::from(runtime).join("scatterheap");
        // A session that is over may have taken it along.
        if make(&directory).is_ok() {
            return Ok(directory);
        }
    }
    let directory = in_temporary(&env::temp_dir());
    make(&directory)
        .and_then(|()| is_private(&directory))
        .map_err(|error| refuse(&directory, &error))?;
    Ok(directory)
}

/// Makes a directory for its user only, and those that it lies in.
fn make(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

#[cfg(unix)]
fn in_temporary(directory: &Path) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    directory.join(format!("scatterheap-{user}"))
}

#[cfg(not(unix))]
fn in_temporary(directory: &Path) -> PathBuf {
    directory.join("scatterheap")
}

/// Refuses a directory that is not the user's own, or that others can use: anybody can make one of this name.
#[cfg(unix)]
fn is_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let found = directory.symlink_metadata()?;
    let user = rustix::process::geteuid().as_raw();
    // The lower six bits are the group's and the others'.
    if found.is_dir() && found.uid() == user && found.mode().trailing_zeros() >= 6 {
        return Ok(());
    }
    Err(io::Error::other(
        "it is not this user's alone, as somebody else may have made it",
    ))
}

#[cfg(not(unix))]
fn is_private(_directory: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_directory_that_others_can_use_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = scratch.path().join("deep/down");
        make(&directory).expect("made");
        make(&directory).expect("there already");
        is_private(&directory).expect("just made for this user");
        let link = scratch.path().join("link");
        symlink(&directory, &link).expect("linked");
        assert!(is_private(&link).is_err());
        set_permissions(&directory, Permissions::from_mode(0o755)).expect("changed");
        assert!(is_private(&directory).is_err());
    }
}
