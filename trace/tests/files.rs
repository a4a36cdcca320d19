//! Files are replaced as a whole, wherever their paths lead.

use std::{
    fs,
    io::{Error, Result},
    path::Path,
};

use scatterheap_trace::file::{replace, try_out};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn write(path: &Path, text: &str) -> Result<()> {
    replace(path, |file| file.write_all(text.as_bytes()))
}

/// The names in a directory, in order: whether something was left behind.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("readable");
    let name = |entry: Result<fs::DirEntry>| entry.expect("readable").file_name();
    let mut names: Vec<_> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_is_made_and_replaced() {
    let directory = scratch();
    let path = directory.path().join("file");
    write(&path, "first").unwrap();
    write(&path, "2nd").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "2nd");
    assert_eq!(names(directory.path()), ["file"]);
}

#[test]
fn what_fails_half_of_the_way_leaves_what_was_there() {
    let directory = scratch();
    let [old, new] = ["old", "new"].map(|name| directory.path().join(name));
    fs::write(&old, "old").unwrap();
    for path in [&old, &new] {
        let failed = replace(path, |file| {
            file.write_all(&vec![b'x'; 100_000])?;
            Err(Error::other("half of the way"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "half of the way");
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    assert_eq!(names(directory.path()), ["old"]);
}

#[test]
fn what_is_no_file_is_refused() {
    let directory = scratch();
    for path in ["", "none/file", "file/"] {
        let path = directory.path().join(path);
        assert!(write(&path, "text").is_err(), "{}", path.display());
    }
    assert!(names(directory.path()).is_empty());
}

#[test]
fn what_is_tried_out_stays_as_it_is() {
    let directory = scratch();
    let of = |name: &str| directory.path().join(name);
    fs::write(of("file"), "old").unwrap();
    for path in ["file", "new"] {
        try_out(of(path)).expect(path);
    }
    for path in ["", "none/file", "new/"] {
        assert!(try_out(of(path)).is_err(), "{path}");
    }
    assert_eq!(fs::read_to_string(of("file")).unwrap(), "old");
    assert_eq!(names(directory.path()), ["file"]);
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::{
        os::unix::fs::{PermissionsExt, symlink},
        process::Command,
        thread,
    };

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn links_stay_and_what_they_lead_to_is_replaced() {
        let directory = scratch();
        let of = |name: &str| directory.path().join(name);
        fs::create_dir(of("deep")).unwrap();
        fs::write(of("deep/file"), "old").unwrap();
        // One relative to its own directory, one absolute, and one to what is not there yet.
        symlink("deep/link", of("link")).unwrap();
        symlink(of("deep/file"), of("deep/link")).unwrap();
        symlink("deep/none", of("dangling")).unwrap();
        for (link, file) in [("link", "deep/file"), ("dangling", "deep/none")] {
            try_out(of(link)).expect(link);
            assert!(of(link).is_symlink(), "{link}");
            assert_eq!(names(&of("deep")), ["file", "link"], "{link}");
            write(&of(link), "new").unwrap();
            assert_eq!(fs::read_to_string(of(file)).unwrap(), "new");
            assert!(of(link).is_symlink() && !of(file).is_symlink(), "{link}");
        }
        symlink("circle", of("circle")).unwrap();
        assert!(try_out(of("circle")).is_err());
        assert!(write(&of("circle"), "new").is_err());
    }

    #[test]
    fn permissions_stay_and_are_the_usual_ones_of_what_is_new() {
        let directory = scratch();
        let [old, new, usual] = ["old", "new", "usual"].map(|name| directory.path().join(name));
        fs::write(&old, "old").unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
        fs::write(&usual, "").unwrap();
        write(&old, "new").unwrap();
        write(&new, "new").unwrap();
        assert_eq!((mode(&old), mode(&new)), (0o640, mode(&usual)));
    }

    #[test]
    fn pipes_and_devices_are_written_to() {
        let directory = scratch();
        let pipe = directory.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("there is mkfifo").success());
        // Without a reader, for which it does not wait.
        try_out(&pipe).unwrap();
        let reader = thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe)
        });
        write(&pipe, "through the pipe").unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), "through the pipe");
        assert_eq!(names(directory.path()), ["pipe"]);
        write(Path::new("/dev/null"), "gone").unwrap();
    }

    /// Does this as a user without privileges, who would get past any permission otherwise.
    #[cfg(target_os = "linux")]
    fn as_anybody(action: impl FnOnce() + Send) {
        use rustix::{
            process::{Uid, getuid},
            thread::set_thread_uid,
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                if getuid().is_root() {
                    // Of this thread alone, and with it go the privileges.
                    set_thread_uid(Uid::from_raw(NOBODY)).expect("root becomes anybody");
                }
                action();
            });
        });
    }

    #[cfg(target_os = "linux")]
    const NOBODY: u32 = 65_534;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_refusal_does_not_name_the_file_beside() {
        let directory = scratch();
        let permit = |mode| {
            let path = directory.path();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        permit(0o555);
        as_anybody(|| {
            let file = directory.path().join("file");
            for refused in [try_out(&file), write(&file, "new")] {
                let told = refused.unwrap_err().to_string();
                assert_eq!(told, "Permission denied (os error 13)");
            }
        });
        permit(0o755);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_only_its_directory_keeps_from_being_replaced_is_written_in_place() {
        // One in which nothing can be made, and one in which nobody else's file can be replaced.
        for of_directory in [0o555, 0o1777] {
            let directory = scratch();
            let file = directory.path().join("file");
            fs::write(&file, "longer than what is new").unwrap();
            let permit = |path: &Path, mode| {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            };
            permit(&file, 0o666);
            permit(directory.path(), of_directory);
            as_anybody(|| {
                try_out(&file).unwrap();
                write(&file, "new").unwrap();
                let half = replace(&file, |_| Err(Error::other("half of the way")));
                assert_eq!(half.unwrap_err().to_string(), "half of the way");
            });
            assert_eq!(fs::read_to_string(&file).unwrap(), "new");
            permit(&file, 0o444);
            as_anybody(|| {
                assert!(try_out(&file).is_err());
                assert!(write(&file, "newer").is_err());
            });
            permit(directory.path(), 0o755);
            assert_eq!(names(directory.path()), ["file"]);
        }
    }

    /// As containers have them: a file is mounted over another, and nothing can take its place.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_mounted_file_is_written_in_place() {
        use rustix::{
            mount::{MountPropagationFlags as Propagation, mount_bind, mount_change},
            thread::{UnshareFlags, unshare_unsafe},
        };
        let directory = scratch();
        let [file, mounted] = ["file", "mounted"].map(|name| directory.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::write(&mounted, "below").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: file descriptors stay shared; only this thread's view of the file system becomes its own.
                if unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.is_err() {
                    println!("skipped: writing to a mounted file (only root may mount)");
                    return;
                }
                mount_change("/", Propagation::PRIVATE | Propagation::REC).unwrap();
                mount_bind(&file, &mounted).unwrap();
                try_out(&mounted).unwrap();
                write(&mounted, "new").unwrap();
                assert_eq!(fs::read_to_string(&file).unwrap(), "new");
            });
        });
        assert_eq!(names(directory.path()), ["file", "mounted"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_owner_stays() {
        use std::os::unix::fs::{MetadataExt, chown};
        let directory = scratch();
        let file = directory.path().join("file");
        fs::write(&file, "old").unwrap();
        // Only root can, and only of root's files can the owner change.
        let _ = chown(&file, Some(NOBODY), Some(NOBODY));
        let owner = || fs::metadata(&file).map(|file| (file.uid(), file.gid(), file.mode()));
        let before = owner().unwrap();
        write(&file, "new").unwrap();
        assert_eq!(owner().unwrap(), before);
    }

    /// What a process has open is written to, though it is a file: the process goes on with that one.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_open_file_is_written_to() {
        use std::os::fd::AsRawFd;
        let directory = scratch();
        let path = directory.path().join("file");
        let open = fs::File::create(&path).unwrap();
        let name = format!("/dev/fd/{}", open.as_raw_fd());
        write(Path::new(&name), "text").unwrap();
        assert_eq!(open.metadata().unwrap().len(), 4);
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    }
}
