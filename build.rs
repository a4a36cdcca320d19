//! Compiles the kernels to PTX for both baselines, to be embedded in the library, and notes the commit
//! for the command.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::path::Path;
use std::process::Command;

/// Directories of the packages that the command is built of, this one first. A test of xtask knows if one is missing.
const PACKAGES: [&str; 10] = [
    "",
    "alloc/",
    "bench/",
    "bench/kernels/",
    "heap/",
    "host/",
    "kernels/",
    "ptx-builder/",
    "simt/",
    "trace/",
];

fn main() {
    note_commit();
    #[cfg(feature = "cuda")]
    if let Err(error) = scatterheap_ptx_builder::Builder::new(scatterheap_kernels::SOURCE_DIRECTORY)
        .build_for_build_script()
    {
        // A panic would bury the message under a backtrace note.
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Sets `SCATTERHEAP_COMMIT` to the commit that is built, and whether sources were changed since, if these were cloned and
/// there is a git.
fn note_commit() {
    println!("cargo::rerun-if-changed=build.rs");
    // A package that lies somewhere in another repository is of none of that one's commits.
    if git(&["rev-parse", "--show-cdup"]).as_deref() != Some("") {
        return;
    }
    // Every change of what is checked out is noted there: in `.git`, or elsewhere for a worktree.
    let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) else {
        return;
    };
    if !Path::new(&log).is_file() {
        return;
    }
    println!("cargo::rerun-if-changed={log}");
    let sources = sources();
    // What does not exist would count as changed each time.
    for source in sources.iter().filter(|source| Path::new(source).exists()) {
        println!("cargo::rerun-if-changed={source}");
    }
    if let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) {
        let changes = changes(&sources);
        println!("cargo::rustc-env=SCATTERHEAP_COMMIT={commit}{changes}");
    }
}

/// What the command is built of. A change of it builds the command anew anyway.
fn sources() -> Vec<String> {
    let of_package =
        |package: &str| ["src", "build.rs", "Cargo.toml"].map(|name| format!("{package}{name}"));
    let mut sources: Vec<_> = PACKAGES.into_iter().flat_map(of_package).collect();
    // The last two lie in it as they are.
    sources.extend(["Cargo.lock", "bench/data", "benches/data"].map(str::to_owned));
    sources
}

/// `-dirty-` and a hash of how sources differ from the commit, or nothing if they do not. So what is run with the same
/// changes is told from what is run with others.
fn changes(sources: &[String]) -> String {
    // Without locks: whoever works here meanwhile is not disturbed, and git's index stays as it is.
    let mut arguments = vec!["--no-optional-locks", "diff", "HEAD", "--no-color"];
    arguments.extend(["--no-ext-diff", "--no-textconv", "--"]);
    arguments.extend(sources.iter().map(String::as_str));
    match git(&arguments) {
        None => "-dirty".to_owned(),
        Some(changes) if changes.is_empty() => String::new(),
        Some(changes) => {
            let mut hasher = DefaultHasher::new();
            hasher.write(changes.as_bytes());
            format!("-dirty-{:08x}", hasher.finish() >> 32)
        }
    }
}

/// What git prints, if there is one and it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let succeeded = output.status.success();
    succeeded.then(|| printed.trim().to_owned())
}
