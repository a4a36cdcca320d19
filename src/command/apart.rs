//! That what a run writes takes the place neither of what it reads nor of what else it writes.

use anyhow::{Result, bail};
use std::path::{Path, PathBuf, absolute};

/// Refuses a file to write, which an option names, if it is one of the others: those that are read, or written too.
pub fn keep_apart(option: &str, file: &Path, others: &[PathBuf]) -> Result<()> {
    let place = place(file);
    if others.iter().any(|other| self::place(other) == place) {
        bail!(
            "{} was asked for by {option}, but this run reads it or writes something else there: choose another file",
            file.display()
        );
    }
    Ok(())
}

/// Where a path leads, also if nothing is there yet.
fn place(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent(), path.file_name()) {
        (Some(directory), Some(name)) => place(directory).join(name),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_by_any_of_its_names() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("there"), "").expect("writable");
        std::fs::create_dir(at("inner")).expect("writable");
        let is_apart = |file: &str, other: &str| keep_apart("-o", &at(file), &[at(other)]).is_ok();
        assert!(!is_apart("there", "there"));
        assert!(!is_apart("inner/../there", "there"));
        assert!(!is_apart("not/yet", "./not/yet"));
        assert!(is_apart("not/yet", "not/then"));
        assert!(is_apart("inner/there", "there"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("there", at("link")).expect("linked");
            std::os::unix::fs::symlink("inner", at("way")).expect("linked");
            assert!(!is_apart("link", "there"));
            assert!(!is_apart("way/new", "inner/new"));
        }
    }
}
