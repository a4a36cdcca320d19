//! Finds a Rust compiler that can build kernels: one that has the source of its own library beside
//! it.
//!
//! The order is: the one the user names, the one in use, a nightly of rustup, the distribution's. A
//! compiler and its library source must be of the same version, so the source is looked for only in
//! the compiler's own sysroot.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, miscompilation};

/// The environment variable that names the `rustc` to build kernels with. Its cargo is looked for
/// beside it, then on the search path.
pub const COMPILER_VARIABLE: &str = "SCATTERHEAP_KERNEL_RUSTC";

/// The oldest compiler that is tried, as (major, minor): older ones lack intrinsics that the
/// kernels use.
const OLDEST_VERSION: (u32, u32) = (1, 90);

/// Where a compiler was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompilerOrigin {
    /// The environment variable [`COMPILER_VARIABLE`] names it.
    Variable,
    /// It is the compiler in use: the one that cargo runs now, or the first on the search path.
    Active,
    /// A nightly toolchain of rustup.
    RustupNightly,
    /// The distribution's package, in `/usr/bin`.
    Distribution,
}

impl fmt::Display for CompilerOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Variable => COMPILER_VARIABLE,
            Self::Active => "active toolchain",
            Self::RustupNightly => "rustup nightly",
            Self::Distribution => "distribution",
        })
    }
}

/// A compiler that can build kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelCompiler {
    /// The `rustc` to run.
    pub rustc: PathBuf,
    /// The `cargo` that belongs to it.
    pub cargo: PathBuf,
    /// The source of its standard library.
    pub library: PathBuf,
    /// What it says of itself: `rustc 1.96.0 (ac68faa20 2026-05-25)`.
    pub version: String,
    /// Where it was found.
    pub origin: CompilerOrigin,
    /// A flag without which it compiles kernels wrongly.
    pub(crate) flag: Option<&'static str>,
}

impl fmt::Display for KernelCompiler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} ({}, {})",
            self.version,
            self.rustc.display(),
            self.origin
        )
    }
}

/// Finds the compiler that kernels are built with.
///
/// # Errors
///
/// [`Error::CompilerUnusable`] when [`COMPILER_VARIABLE`] names one that does not serve,
/// [`Error::CompilerMissing`] when none is installed.
pub fn find_compiler() -> Result<KernelCompiler, Error> {
    Places::of_this_process().find()
}

/// The places that are searched.
struct Places {
    /// The value of the environment variable.
    variable: Option<PathBuf>,
    /// The compiler in use, as a path or as a name on the search path.
    active: PathBuf,
    /// The directory of rustup's toolchains.
    toolchains: Option<PathBuf>,
    /// The distribution's compiler.
    distribution: PathBuf,
}

impl Places {
    fn of_this_process() -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        Self {
            variable: set(COMPILER_VARIABLE).map(PathBuf::from),
            active: PathBuf::from(set("RUSTC").unwrap_or_else(|| OsString::from("rustc"))),
            toolchains: set("RUSTUP_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(env::home_dir()?.join(".rustup")))
                .map(|home| home.join("toolchains")),
            distribution: PathBuf::from("/usr/bin/rustc"),
        }
    }

    fn find(&self) -> Result<KernelCompiler, Error> {
        if let Some(path) = &self.variable {
            return inspect(path, CompilerOrigin::Variable).map_err(|reason| {
                Error::CompilerUnusable {
                    path: path.clone(),
                    reason,
                }
            });
        }
        let mut searched = Vec::new();
        for (rustc, origin) in self.candidates() {
            match inspect(&rustc, origin) {
                Ok(compiler) => return Ok(compiler),
                Err(reason) => searched.push(format!("{origin}: {reason}")),
            }
        }
        Err(Error::CompilerMissing {
            searched: searched.join("; "),
        })
    }

    /// The compilers to try when the user names none, best first.
    fn candidates(&self) -> Vec<(PathBuf, CompilerOrigin)> {
        let mut candidates = vec![(self.active.clone(), CompilerOrigin::Active)];
        for toolchain in self
            .toolchains
            .iter()
            .flat_map(|directory| nightlies(directory))
        {
            candidates.push((rustc_in(&toolchain), CompilerOrigin::RustupNightly));
        }
        candidates.push((self.distribution.clone(), CompilerOrigin::Distribution));
        candidates
    }
}

/// The nightly toolchains in rustup's directory: first the one that follows the channel, then dated
/// ones, newest first.
fn nightlies(toolchains: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(toolchains) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("nightly"))
        .collect();
    let dated = |name: &str| {
        name.strip_prefix("nightly-")
            .is_some_and(|rest| rest.starts_with("20"))
    };
    names.sort_by(|left, right| dated(left).cmp(&dated(right)).then_with(|| right.cmp(left)));
    names.iter().map(|name| toolchains.join(name)).collect()
}

/// The compiler inside a sysroot.
fn rustc_in(sysroot: &Path) -> PathBuf {
    sysroot.join("bin").join(executable("rustc"))
}

fn executable(name: &str) -> String {
    format!("{name}{}", env::consts::EXE_SUFFIX)
}

/// Asks a compiler what it is, or says why it cannot build kernels.
fn inspect(rustc: &Path, origin: CompilerOrigin) -> Result<KernelCompiler, String> {
    let version = ask(rustc, &["--version"])?;
    if version_number(&version).is_some_and(|number| number < OLDEST_VERSION) {
        let (major, minor) = OLDEST_VERSION;
        return Err(format!("{version} is older than {major}.{minor}"));
    }
    let sysroot = PathBuf::from(ask(rustc, &["--print", "sysroot"])?);
    let library = sysroot.join("lib/rustlib/src/rust/library");
    if !library.join("core").is_dir() {
        return Err(format!("{version} has no library source"));
    }
    // The program that was asked may be rustup's stand-in, which chooses again at each run: take
    // the real one.
    let own = rustc_in(&sysroot);
    let rustc = if own.is_file() {
        own
    } else {
        rustc.to_path_buf()
    };
    let cargo = rustc.with_file_name(executable("cargo"));
    let cargo = if cargo.is_file() {
        cargo
    } else {
        PathBuf::from("cargo")
    };
    let flag = miscompilation::flag(&ask(&rustc, &["--version", "--verbose"])?);
    Ok(KernelCompiler {
        rustc,
        cargo,
        library,
        version,
        origin,
        flag,
    })
}

/// Runs the compiler with these arguments and returns the line it prints.
fn ask(rustc: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(rustc)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot start {}: {error}", rustc.display()))?;
    let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !answer.is_empty() {
        Ok(answer)
    } else {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let complaint = complaint.lines().next().unwrap_or("no answer").to_owned();
        Err(format!(
            "{} {}: {complaint}",
            rustc.display(),
            arguments.join(" ")
        ))
    }
}

/// The (major, minor) version in an answer such as `rustc 1.96.0 (ac68faa20 2026-05-25)`.
fn version_number(answer: &str) -> Option<(u32, u32)> {
    let mut numbers = answer.split_whitespace().nth(1)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory tree with stand-ins for compilers: shell scripts that answer as `rustc` does.
    struct Machine {
        root: tempfile::TempDir,
    }

    impl Machine {
        fn new() -> Self {
            Self {
                root: tempfile::tempdir().expect("a temporary directory"),
            }
        }

        fn places(&self) -> Places {
            Places {
                variable: None,
                active: self.path("active/bin/rustc"),
                toolchains: Some(self.path("toolchains")),
                distribution: self.path("usr/bin/rustc"),
            }
        }

        fn path(&self, relative: &str) -> PathBuf {
            self.root.path().join(relative)
        }

        /// Installs a compiler of this version in a sysroot, with a cargo and perhaps with the
        /// library source.
        fn install(&self, sysroot: &str, version: &str, with_source: bool) -> PathBuf {
            let sysroot = self.path(sysroot);
            fs::create_dir_all(sysroot.join("bin")).expect("create bin");
            fs::write(sysroot.join("version"), version).expect("write the version");
            // Links to one script: a program that was just written may be busy for as long as
            // another thread forks.
            let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand-in-rustc.sh");
            for program in ["bin/rustc", "bin/cargo"] {
                symlink(&stand_in, sysroot.join(program)).expect("link the stand-in");
            }
            if with_source {
                fs::create_dir_all(sysroot.join("lib/rustlib/src/rust/library/core"))
                    .expect("create the library source");
            }
            sysroot.join("bin/rustc")
        }
    }

    #[test]
    fn the_variable_wins() {
        let machine = Machine::new();
        machine.install("active", "1.95.0", true);
        let named = machine.install("named", "1.96.0", true);
        let places = Places {
            variable: Some(named.clone()),
            ..machine.places()
        };
        let compiler = places.find().expect("the named compiler serves");
        assert_eq!(compiler.rustc, named);
        assert_eq!(compiler.cargo, named.with_file_name("cargo"));
        assert_eq!(compiler.origin, CompilerOrigin::Variable);
    }

    #[test]
    fn a_bad_variable_is_an_error_and_not_skipped() {
        let machine = Machine::new();
        machine.install("active", "1.95.0", true);
        let without_source = machine.install("named", "1.96.0", false);
        for (path, expected) in [
            (without_source, "has no library source"),
            (machine.path("nowhere"), "cannot start"),
        ] {
            let places = Places {
                variable: Some(path),
                ..machine.places()
            };
            let message = places.find().expect_err("it does not serve").to_string();
            assert!(message.contains(expected), "{message}");
            assert!(message.contains(COMPILER_VARIABLE), "{message}");
        }
    }

    #[test]
    fn the_active_toolchain_comes_before_the_others() {
        let machine = Machine::new();
        let active = machine.install("active", "1.95.0", true);
        machine.install(
            "toolchains/nightly-x86_64-unknown-linux-gnu",
            "1.97.0-nightly",
            true,
        );
        machine.install("usr", "1.96.0", true);
        let compiler = machine.places().find().expect("the active one serves");
        assert_eq!(
            (compiler.rustc, compiler.origin),
            (active, CompilerOrigin::Active)
        );
        assert_eq!(compiler.version, "rustc 1.95.0 (fake)");
    }

    #[test]
    fn a_nightly_with_source_comes_before_the_distribution() {
        let machine = Machine::new();
        machine.install("active", "1.95.0", false);
        machine.install("toolchains/stable-x86_64-unknown-linux-gnu", "1.95.0", true);
        machine.install(
            "toolchains/nightly-x86_64-unknown-linux-gnu",
            "1.97.0-nightly",
            false,
        );
        machine.install(
            "toolchains/nightly-2026-01-01-x86_64-unknown-linux-gnu",
            "1.94.0-nightly",
            true,
        );
        let newest = machine.install(
            "toolchains/nightly-2026-05-01-x86_64-unknown-linux-gnu",
            "1.96.0-nightly",
            true,
        );
        machine.install("usr", "1.96.0", true);
        let compiler = machine.places().find().expect("a nightly serves");
        assert_eq!(
            (compiler.rustc, compiler.origin),
            (newest, CompilerOrigin::RustupNightly)
        );
    }

    #[test]
    fn the_distribution_comes_last() {
        let machine = Machine::new();
        machine.install("active", "1.95.0", false);
        machine.install(
            "toolchains/nightly-x86_64-unknown-linux-gnu",
            "1.97.0-nightly",
            false,
        );
        let distribution = machine.install("usr", "1.96.0", true);
        let compiler = machine.places().find().expect("the distribution's serves");
        assert_eq!(
            (compiler.rustc, compiler.origin),
            (distribution, CompilerOrigin::Distribution)
        );
    }

    #[test]
    fn an_old_compiler_does_not_serve() {
        let machine = Machine::new();
        machine.install("usr", "1.63.0", true);
        let message = machine
            .places()
            .find()
            .expect_err("it is too old")
            .to_string();
        assert!(message.contains("older than 1.90"), "{message}");
    }

    #[test]
    fn nothing_found_names_both_install_commands_in_one_line() {
        let machine = Machine::new();
        machine.install("active", "1.95.0", false);
        let error = machine.places().find().expect_err("none serves");
        assert!(matches!(error, Error::CompilerMissing { .. }));
        let message = error.to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(
            message.contains("apt-get install rustc-web cargo-web rust-web-src"),
            "{message}"
        );
        assert!(
            message.contains("rustup toolchain install nightly --component rust-src"),
            "{message}"
        );
        assert!(
            message.contains("active toolchain: rustc 1.95.0 (fake) has no library source"),
            "{message}"
        );
    }
}
