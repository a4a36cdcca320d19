//! Files that are replaced as a whole: who reads one finds what was there before or all that is new, never a part, also
//! after an error half of the way, on a full disk, or when the program is ended meanwhile. The last leaves a file
//! `.scatterheap-…` in the directory.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// Has `write` make a file's contents, which take the place of those that are there when they are complete.
///
/// A symbolic link stays one: what it leads to is replaced, or made. Permissions stay too. Pipes, devices and what a
/// process has open, such as `/dev/stdout`, are written to directly.
///
/// # Errors
/// What `write` says, or that the file cannot be written; what was there is still there then.
pub fn replace(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let path = path.as_ref();
    let Some(file) = replaceable(path)? else {
        return fill(&OpenOptions::new().append(true).open(path)?, write);
    };
    let new = beside(&file)?;
    fill(new.as_file(), write)?;
    // Some file systems say only now that there is no room.
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(())
}

/// Finds out whether [`replace`] can begin with this path, for files that are written at the end of long work. Nothing is left behind, and
/// what is there stays as it is.
///
/// # Errors
/// Why it cannot.
pub fn try_out(path: impl AsRef<Path>) -> io::Result<()> {
    match replaceable(path.as_ref())? {
        Some(file) => beside(&file).map(drop),
        // To open a pipe is to wait for its reader, and to close it tells that one that all is said.
        None => Ok(()),
    }
}

fn fill(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = BufWriter::new(file);
    write(&mut buffer)?;
    buffer.flush()
}

/// The file that a path leads to, whether it is there or not; none if what is there is written to directly.
fn replaceable(path: &Path) -> io::Result<Option<PathBuf>> {
    let names_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => return Ok(None),
        Err(error) if error.kind() != ErrorKind::NotFound || names_directory => return Err(error),
        _ => {}
    }
    // Not `canonicalize`, which refuses what is not there yet. This ends, as links in a circle were refused above.
    let mut file = path.to_owned();
    loop {
        let directory = fs::canonicalize(directory_of(&file))?;
        if directory.starts_with("/proc") {
            // What a process has open: it would go on with what was replaced.
            return Ok(None);
        }
        let name = file.file_name().ok_or(ErrorKind::NotFound)?;
        file = directory.join(name);
        match fs::read_link(&file) {
            Ok(next) => file = directory.join(next),
            Err(_) => return Ok(Some(file)),
        }
    }
}

fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

/// An empty file in the same directory, which is removed unless it takes the file's place. It has the file's permissions, or
/// else those that any new file gets.
fn beside(file: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".scatterheap-");
    #[cfg(unix)]
    let usual = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(usual);
    let new = builder.tempfile_in(directory_of(file))?;
    // What may not be written is not replaced either, though its directory would allow it.
    match OpenOptions::new().append(true).open(file) {
        Ok(old) => new
            .as_file()
            .set_permissions(old.metadata()?.permissions())?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(new)
}
