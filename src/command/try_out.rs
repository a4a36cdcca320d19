//! Files that are written at the end of long work: whether they can be is found out at its beginning.

use std::fs::{self, OpenOptions};
use std::io::Result;
use std::path::Path;

/// Finds out whether a file can be written; what is there stays as it is.
///
/// # Errors
///
/// Why it cannot.
pub fn try_out(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    OpenOptions::new().append(true).create(true).open(path)?;
    if is_new {
        fs::remove_file(path)?;
    }
    Ok(())
}
