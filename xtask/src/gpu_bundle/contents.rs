//! What goes into the bundle.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::groups::Groups;
use super::limited;
use crate::executables::{self, Executable};
use crate::process::run;
use crate::revision::Revision;
use crate::setup::set_mode;
use crate::toolchain::workspace;

/// The script that runs everything on the GPU server.
const SCRIPT: &str = include_str!("run-on-gpu.sh");

/// Copies everything into the directory of the bundle.
pub fn gather(
    built: &[Executable],
    groups: &Groups,
    revision: &Revision,
    directory: &Path,
) -> Result<()> {
    let command = executables::find(built, "scatterheap", "bin")?;
    add_program(command, &directory.join("bin/scatterheap"))?;
    let mut packed = Vec::new();
    for program in built {
        if let Some(place) = place(program)
            && is_wanted(&place, groups)
        {
            let target = directory.join(&place);
            add_program(&program.file, &target)?;
            if let Some(sources) = sources_named(&target, &program.file)? {
                let sources = sources.display();
                println!("left out: {} (it names {sources})", place.display());
                fs::remove_file(&target)?;
            } else {
                packed.push(place);
            }
        }
    }
    refuse_empty_groups(&packed, groups)?;
    for entry in fs::read_dir(workspace().join("traces")).context("cannot list the traces")? {
        let trace = entry?.path();
        if trace.extension() == Some(OsStr::new("sctrace")) {
            let name = trace.file_name().context("a file has a name")?;
            copy(&trace, &directory.join("traces").join(name))?;
        }
    }
    let script = directory.join("run-on-gpu.sh");
    fs::write(&script, SCRIPT)?;
    set_mode(&script, 0o755)?;
    fs::write(directory.join("limited.sh"), limited::SCRIPT)?;
    fs::write(directory.join("groups"), groups.words())?;
    fs::write(directory.join("MANIFEST"), manifest(revision, directory)?)?;
    Ok(())
}

/// The directories of programs, and the group that each is for.
const PROGRAMS_OF_GROUPS: [(&str, &str); 3] = [
    ("tests", "tests"),
    ("examples", "examples"),
    ("benches", "bench"),
];

/// Whether what goes to a place in the bundle is of one of some groups.
fn is_wanted(place: &Path, groups: &Groups) -> bool {
    PROGRAMS_OF_GROUPS
        .iter()
        .any(|(directory, group)| place.starts_with(directory) && groups.have(&[group]))
}

/// A group that is wanted has something to run.
fn refuse_empty_groups(packed: &[PathBuf], groups: &Groups) -> Result<()> {
    for (directory, group) in PROGRAMS_OF_GROUPS {
        let is_empty = !packed.iter().any(|place| place.starts_with(directory));
        ensure!(
            !(groups.have(&[group]) && is_empty),
            "the group `{group}` has no programs: cargo built none, or all name where the sources or the target directory \
            are (see what was left out above); move these elsewhere, or leave the group out by --only"
        );
    }
    Ok(())
}

/// Where a program goes in the bundle, if it does: the benchmarks, the examples, and the tests of whole devices,
/// which are those of the root package's `tests/` and of the other packages that were built.
fn place(program: &Executable) -> Option<PathBuf> {
    let is_root = program.package == Path::new("");
    let name = match program.kind.as_str() {
        "example" if !program.is_test => return Some(Path::new("examples").join(&program.name)),
        "bench" => return Some(Path::new("benches").join(&program.name)),
        "test" if is_root => program.name.clone(),
        "test" | "lib" if !is_root => {
            let package = program.package.display().to_string();
            format!("{}-{}", package.replace('/', "-"), program.name)
        }
        _ => return None,
    };
    program.is_test.then(|| Path::new("tests").join(name))
}

/// Copies a program and removes its symbols.
pub fn add_program(file: &Path, target: &Path) -> Result<()> {
    copy(file, target)?;
    run(Command::new("strip").arg(target)).context("cannot remove a program's symbols")?;
    set_mode(target, 0o755)
}

/// The path of the sources, or of the directory that cargo builds in, if a program that was stripped contains it:
/// then it looks for files there. `built` is where cargo put it, which is `DIRECTORY/release/deps`.
fn sources_named(program: &Path, built: &Path) -> Result<Option<PathBuf>> {
    let content = fs::read(program)?;
    let places = [Some(workspace()), built.ancestors().nth(3)];
    let mut places = places.into_iter().flatten();
    Ok(places
        .find(|place| names(&content, place))
        .map(Path::to_owned))
}

/// Whether a program has the path of something in a directory. Before it anything may be: texts of a program have no ends.
/// But a path of one part, such as `/src`, is within those of all libraries, and counts where none can go on.
fn names(content: &[u8], directory: &Path) -> bool {
    let path = directory.as_os_str().as_encoded_bytes();
    let is_short = directory.iter().count() <= 2;
    let is_of_a_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    content
        .windows(path.len() + 1)
        .enumerate()
        .any(|(at, window)| {
            window.strip_prefix(path) == Some(b"/")
                && !(is_short && content[..at].last().is_some_and(is_of_a_name))
        })
}

/// Copies a file to a place whose directory need not exist.
pub fn copy(file: &Path, target: &Path) -> Result<()> {
    let parent = target.parent().context("it lies in a directory")?;
    fs::create_dir_all(parent)?;
    fs::copy(file, target).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

/// What is in the bundle, and where it came from.
fn manifest(revision: &Revision, directory: &Path) -> Result<String> {
    let compiler = run(Command::new("rustc").arg("--version"))?;
    let mut text = format!(
        "scatterheap {}\ncommit {}\nbuilt with {}\n\n",
        env!("CARGO_PKG_VERSION"),
        revision.commit,
        compiler.trim()
    );
    let mut files = Vec::new();
    list(directory, &mut files)?;
    files.sort();
    for file in files {
        let bytes = fs::metadata(&file)?.len();
        let name = file.strip_prefix(directory)?.display();
        let _ = writeln!(text, "{bytes:>10} {name}");
    }
    Ok(text)
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(package: &str, name: &str, kind: &str, is_test: bool) -> Executable {
        Executable {
            package: package.into(),
            name: name.into(),
            kind: kind.into(),
            is_test,
            file: PathBuf::new(),
        }
    }

    #[test]
    fn tests_of_devices_and_benchmarks_have_a_place() {
        for (program, expected) in [
            (program("", "ptx", "test", true), Some("tests/ptx")),
            (
                program("host", "scatterheap_host", "lib", true),
                Some("tests/host-scatterheap_host"),
            ),
            (
                program("host", "memory", "test", true),
                Some("tests/host-memory"),
            ),
            (
                program("", "malloc", "bench", false),
                Some("benches/malloc"),
            ),
            (
                program("examples/collections", "ptx", "test", true),
                Some("tests/examples-collections-ptx"),
            ),
            (
                program("examples/collections", "12-octree", "example", false),
                Some("examples/12-octree"),
            ),
            (program("", "scatterheap", "bin", false), None),
            (program("", "scatterheap", "bin", true), None),
            (program("", "scatterheap", "lib", true), None),
        ] {
            assert_eq!(place(&program).as_deref(), expected.map(Path::new));
        }
    }

    #[test]
    fn programs_of_other_groups_stay_out() {
        let groups = Groups::new(vec!["bench".to_owned()]);
        for (place, expected) in [("benches/malloc", true), ("tests/ptx", false)] {
            assert_eq!(is_wanted(Path::new(place), &groups), expected, "{place}");
        }
    }

    #[test]
    fn groups_without_programs_are_refused() {
        let packed = ["tests/ptx", "benches/malloc"].map(PathBuf::from);
        let check = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            refuse_empty_groups(&packed, &Groups::new(names))
        };
        check(&["tests", "bench", "stress"]).expect("both have one");
        for names in [&[][..], &["stress", "examples"]] {
            let message = check(names).expect_err("there are none").to_string();
            let expected = "the group `examples` has no programs: ";
            assert!(message.starts_with(expected), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn programs_name_a_directory_by_paths_below_it() {
        for (content, directory, expected) in [
            ("no such file/home/me/heap/traces", "/home/me/heap", true),
            ("\0/home/me/heap/target", "/home/me/heap", true),
            ("/home/me/heap-two/traces", "/home/me/heap", false),
            ("/home/me/heap", "/home/me/heap", false),
            ("/rustc/59807616/library/std/src/io.rs", "/src", false),
            ("\0host/src/device.rs\0", "/src", false),
            ("\0/src/traces/sqlite3.sctrace", "/src", true),
            ("/src/traces/sqlite3.sctrace", "/src", true),
            ("", "/src", false),
        ] {
            let names = names(content.as_bytes(), Path::new(directory));
            assert_eq!(names, expected, "{directory} in {content:?}");
        }
    }

    /// Runs the script of a bundle that has nothing but the command, which does nothing.
    #[cfg(unix)]
    fn run_groups(only: &str) -> (Option<i32>, String) {
        run_bundle_of("", only)
    }

    /// The same of a bundle that was packed for some groups; for all, if none is named.
    #[cfg(unix)]
    fn run_bundle_of(groups: &str, only: &str) -> (Option<i32>, String) {
        let bundle = tempfile::tempdir().expect("a directory");
        let bundle = bundle.path();
        fs::create_dir(bundle.join("bin")).expect("created");
        for (file, content) in [
            ("run-on-gpu.sh", SCRIPT),
            ("limited.sh", limited::SCRIPT),
            ("MANIFEST", "scatterheap\ncommit abc\n"),
            ("groups", groups),
            ("bin/scatterheap", "#!/bin/sh\n"),
        ] {
            fs::write(bundle.join(file), content).expect("written");
            set_mode(&bundle.join(file), 0o755).expect("changed");
        }
        let output = Command::new("bash")
            .arg(bundle.join("run-on-gpu.sh"))
            .envs([("ONLY", only), ("DEVICE", "cpu")])
            .env("OUT", bundle.join("out"))
            .output()
            .expect("bash starts");
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said += &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said)
    }

    #[cfg(unix)]
    #[test]
    fn groups_that_do_not_exist_are_refused() {
        let (code, said) = run_groups("info stress");
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("\n4 passed, 0 failed;"), "{said}");
        let (code, said) = run_groups("info strss");
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("ONLY names `strss`: choose from info "));
        assert_eq!(said.lines().count(), 1, "{said}");
    }

    #[cfg(unix)]
    #[test]
    fn groups_that_were_not_packed_are_refused() {
        let (code, said) = run_bundle_of("info stress", "stress");
        assert_eq!(code, Some(0), "{said}");
        let (code, said) = run_bundle_of("info stress", "info python");
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("ONLY names `python`, but this bundle is for info stress"));
        assert_eq!(said.lines().count(), 1, "{said}");
        // And if nothing is named, only what is there runs.
        let (code, said) = run_bundle_of("info stress", "");
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("\n4 passed, 0 failed;"), "{said}");
    }

    #[cfg(unix)]
    #[test]
    fn a_run_of_nothing_fails() {
        let (code, said) = run_groups(" ");
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("nothing ran"), "{said}");
    }

    #[cfg(unix)]
    #[test]
    fn groups_whose_programs_are_missing_have_failed() {
        for (only, name) in [
            ("info tests", "tests"),
            ("info examples", "examples"),
            ("bench", "benchmarks"),
        ] {
            let (code, said) = run_groups(only);
            assert_eq!(code, Some(1), "{said}");
            assert!(said.contains(" 1 failed; "), "{said}");
            assert!(said.ends_with(&format!("\nfailed: {name}\n")), "{said}");
        }
    }
}
