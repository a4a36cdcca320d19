//! Files that are replaced as a whole: who reads one finds what was there before or all that is new, never a part, also
//! after an error half of the way, on a full disk, or when the program is ended meanwhile. The last leaves a file
//! `.scatterheap-…` in the directory.
//!
//! Some files can be written but not replaced: one in a directory that may not be written, another user's in a directory
//! such as `/tmp`, one that a container has mounted. The complete new contents are copied into these. Only the copying can
//! leave a part there, on a full disk or when the program is ended meanwhile.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, ErrorKind, Read, Seek, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// Has `write` make a file's contents, which take the place of those that are there when they are complete.
///
/// A symbolic link stays one: what it leads to is replaced, or made. Permissions stay too, and the owner where this process
/// may give files away. Hard links are cut: other names of the file keep what was there. Pipes, devices and what a process
/// has open, such as `/dev/stdout`, are written to directly.
///
/// # Errors
/// What `write` says, or that the file cannot be written; what was there is still there then, unless it was copying into
/// the file that failed.
pub fn replace(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let path = path.as_ref();
    let Some(file) = replaceable(path)? else {
        return fill(&OpenOptions::new().append(true).open(path)?, write);
    };
    match beside(&file) {
        Ok(new) => {
            fill(new.as_file(), write)?;
            put_in_place(new, &file)
        }
        Err(error) if is_only_written(&file, &error) => {
            // In memory: where this directory may not be written, perhaps none may.
            let mut new = Vec::new();
            write(&mut new)?;
            copy_into(&file, &mut new.as_slice())
        }
        Err(error) => Err(error),
    }
}

/// Finds out whether [`replace`] can begin with this path, for files that are written at the end of long work. Nothing is left behind, and
/// what is there stays as it is.
///
/// # Errors
/// Why it cannot.
pub fn try_out(path: impl AsRef<Path>) -> io::Result<()> {
    // To open a pipe is to wait for its reader, and to close it tells that one that all is said.
    let Some(file) = replaceable(path.as_ref())? else {
        return Ok(());
    };
    match beside(&file) {
        Err(error) if is_only_written(&file, &error) => Ok(()),
        new => new.map(drop),
    }
}

/// Lets a complete new file take the place of `file`.
fn put_in_place(new: NamedTempFile, file: &Path) -> io::Result<()> {
    // Some file systems say only now that there is no room.
    new.as_file().sync_all()?;
    match new.persist(file) {
        Err(refused) if is_only_written(file, &refused.error) => {
            let mut new = refused.file.as_file();
            new.rewind()?;
            copy_into(file, &mut new)
        }
        placed => placed.map(drop).map_err(io::Error::from),
    }
}

/// Whether `error`, with which replacing `file` failed, is about its directory or a mount alone: the file is there, and may
/// be written.
fn is_only_written(file: &Path, error: &io::Error) -> bool {
    let refuses_replacing = matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::ResourceBusy
            | ErrorKind::CrossesDevices
    );
    refuses_replacing && OpenOptions::new().append(true).open(file).is_ok()
}

/// Makes the contents of `file` those of `new`.
fn copy_into(file: &Path, new: &mut dyn Read) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(file)?;
    io::copy(new, &mut file)?;
    file.sync_all()
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

/// An empty file in the same directory, which is removed unless it takes the file's place. It has the file's permissions and
/// owner, or else those that any new file gets.
fn beside(file: &Path) -> io::Result<NamedTempFile> {
    let new = new_in(directory_of(file))?;
    // What may not be written is not replaced either, though its directory would allow it.
    match OpenOptions::new().append(true).open(file) {
        Ok(old) => {
            let old = old.metadata()?;
            #[cfg(unix)]
            give_to_owner_of(&old, new.as_file());
            // After that, which takes some permissions away.
            new.as_file().set_permissions(old.permissions())?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(new)
}

/// A new file, with the permissions that any has.
fn new_in(directory: &Path) -> io::Result<NamedTempFile> {
    // Its name, which nobody asked for, is in what `make_in` says. The system's own words are kept.
    let mut refused = None;
    let make = |path: &Path| {
        let mut options = OpenOptions::new();
        let made = options.read(true).write(true).create_new(true).open(path);
        made.inspect_err(|error| refused = error.raw_os_error())
    };
    let mut builder = tempfile::Builder::new();
    let new = builder.prefix(".scatterheap-").make_in(directory, make);
    new.map_err(|error| refused.map_or(error, io::Error::from_raw_os_error))
}

/// Gives `new` the group and the owner of the old file, each if this process may.
#[cfg(unix)]
fn give_to_owner_of(old: &fs::Metadata, new: &File) {
    use std::os::unix::fs::{MetadataExt, fchown};
    let _ = fchown(new, None, Some(old.gid()));
    let _ = fchown(new, Some(old.uid()), None);
}
