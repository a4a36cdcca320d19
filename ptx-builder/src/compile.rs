//! Runs the compiler: one inner cargo for each baseline, shielded from the cargo that runs the
//! build script.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::recursion;
use crate::registers::{self, RegisterLimit};
use crate::sources::Sources;
use crate::undefined;
use crate::{Baseline, COMPILER_VARIABLE, Error, KernelCompiler, find_compiler};

/// The target that PTX comes from.
const TARGET: &str = "nvptx64-nvidia-cuda";

/// The release profile of every kernel, whatever the manifest says: PTX is one module, so all
/// crates are linked into it by link-time optimisation, and there is no unwinding on a GPU.
const PROFILE: [(&str, &str); 9] = [
    ("OPT_LEVEL", "3"),
    ("LTO", "fat"),
    ("CODEGEN_UNITS", "1"),
    ("PANIC", "abort"),
    ("DEBUG", "0"),
    ("STRIP", "none"),
    ("INCREMENTAL", "false"),
    ("DEBUG_ASSERTIONS", "false"),
    ("OVERFLOW_CHECKS", "false"),
];

/// One compiled module: a kernel crate for one baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtxModule {
    /// The GPUs that it is for.
    pub baseline: Baseline,
    /// The file, `NAME.sm_80.ptx` in the output directory.
    pub path: PathBuf,
}

impl PtxModule {
    /// Reads the text of the module.
    ///
    /// # Errors
    ///
    /// [`Error::File`] when the file cannot be read.
    pub fn read(&self) -> Result<String, Error> {
        fs::read_to_string(&self.path).map_err(file_error("read", &self.path))
    }
}

/// Compiles a kernel crate to PTX.
#[derive(Debug, Clone)]
pub struct Builder {
    directory: PathBuf,
    baselines: Vec<Baseline>,
    features: Vec<String>,
    with_alloc: bool,
    register_limits: Vec<RegisterLimit>,
    external_functions: Vec<String>,
    output_directory: Option<PathBuf>,
}

impl Builder {
    /// Starts with the crate in this directory, the one that holds its `Cargo.toml`. A build
    /// script's relative paths start at its package's directory.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            baselines: Vec::new(),
            features: Vec::new(),
            with_alloc: false,
            register_limits: Vec::new(),
            external_functions: Vec::new(),
            output_directory: None,
        }
    }

    /// Adds a baseline to compile for. Without any, [`Baseline::SM_75`] and [`Baseline::SM_80`] are
    /// compiled for.
    #[must_use]
    pub fn baseline(mut self, baseline: Baseline) -> Self {
        self.baselines.push(baseline);
        self
    }

    /// Turns on features of the kernel crate.
    #[must_use]
    pub fn features<Name: Into<String>>(
        mut self,
        features: impl IntoIterator<Item = Name>,
    ) -> Self {
        self.features.extend(features.into_iter().map(Into::into));
        self
    }

    /// Also builds the `alloc` crate, for kernels that use `Vec` or `Box` through a global
    /// allocator.
    #[must_use]
    pub fn with_alloc(mut self) -> Self {
        self.with_alloc = true;
        self
    }

    /// Limits the registers of a thread, for the kernels whose names begin with `prefix` (PTX's
    /// `.maxnreg`). The fewer registers, the more warps run on a multiprocessor at once; too few,
    /// and the kernel keeps values in slower memory.
    ///
    /// The host loads the kernels of each limit as a module of their own (those without one have 64), and each module has its
    /// own variables: a `static` that a kernel counts in is not the one that a kernel with another limit reads. The host refuses that if the
    /// `static` begins with zeroes; what begins with another value it cannot tell from a constant. Kernels that share
    /// a `static` need the same limit, or memory that the host gives.
    #[must_use]
    pub fn limit_registers(mut self, prefix: impl Into<String>, registers: u32) -> Self {
        self.register_limits.push(RegisterLimit {
            prefix: prefix.into(),
            registers,
        });
        self
    }

    /// Names functions that the kernels call and another module defines, with which this one is linked before it is loaded. Others
    /// must be defined by the crate, by one that it depends on or by the driver (`vprintf`, `malloc`, `free`, `__assertfail`).
    #[must_use]
    pub fn external_functions<Name: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = Name>,
    ) -> Self {
        self.external_functions
            .extend(names.into_iter().map(Into::into));
        self
    }

    /// Writes to this directory instead of `OUT_DIR`. It then also holds the inner cargo's target
    /// directories.
    #[must_use]
    pub fn output_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.output_directory = Some(directory.into());
        self
    }

    /// Compiles the crate for each baseline, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// [`Error::CompilerMissing`] when no compiler that can build kernels is installed,
    /// [`Error::CompileFailed`] with what the compiler said when the crate does not compile,
    /// [`Error::Undefined`] when it calls what nobody defines, and others when files are missing or
    /// unwritable.
    pub fn build(&self) -> Result<Vec<PtxModule>, Error> {
        let sources = Sources::of(&self.directory)?;
        self.build_crate(&sources)
    }

    /// The same as [`build`](Self::build), and tells cargo to rerun the build script when a source
    /// of the kernel crate or of a crate that it depends on by path changes, or when another
    /// compiler is named.
    ///
    /// # Errors
    ///
    /// Those of [`build`](Self::build).
    pub fn build_for_build_script(&self) -> Result<Vec<PtxModule>, Error> {
        let sources = Sources::of(&self.directory)?;
        println!("cargo::rerun-if-env-changed={COMPILER_VARIABLE}");
        for path in &sources.watched {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        self.build_crate(&sources)
    }

    fn build_crate(&self, sources: &Sources) -> Result<Vec<PtxModule>, Error> {
        let output_directory = match &self.output_directory {
            Some(directory) => directory.clone(),
            None => env::var_os("OUT_DIR")
                .ok_or(Error::OutputDirectoryMissing)?
                .into(),
        };
        // The inner cargo runs in the crate's directory, where a relative path would mean something
        // else.
        let output_directory = std::path::absolute(&output_directory)
            .map_err(file_error("find", &output_directory))?;
        let compiler = find_compiler()?;
        let baselines = match self.baselines.as_slice() {
            [] => &[Baseline::SM_75, Baseline::SM_80],
            chosen => chosen,
        };
        baselines
            .iter()
            .map(|&baseline| {
                let text = self.compile(sources, baseline, &compiler, &output_directory)?;
                undefined::refuse(&text, &sources.crate_name, &self.external_functions)?;
                let text = recursion::call_through_pointers(&text)?;
                let text = registers::limit(&text, &self.register_limits);
                let path = output_directory.join(baseline.file_name(&sources.crate_name));
                fs::write(&path, text).map_err(file_error("write", &path))?;
                Ok(PtxModule { baseline, path })
            })
            .collect()
    }

    /// Compiles for one baseline and returns the PTX.
    fn compile(
        &self,
        sources: &Sources,
        baseline: Baseline,
        compiler: &KernelCompiler,
        output_directory: &Path,
    ) -> Result<String, Error> {
        let crate_name = &sources.crate_name;
        let target_directory = self
            .target_directory(output_directory, &sources.workspace)
            .join(baseline.target_cpu());
        let ptx = target_directory.join(format!(
            "{crate_name}-{:016x}.ptx",
            self.fingerprint(baseline, compiler)
        ));
        let mut command = self.cargo(baseline, compiler, &target_directory);
        let mut emit = OsString::from("--emit=asm=");
        emit.push(&ptx);
        command.arg("--").arg(emit);
        command.current_dir(&sources.directory);

        let mut run = || {
            fs::create_dir_all(&target_directory)
                .map_err(file_error("create", &target_directory))?;
            let output = command.output().map_err(|source| Error::Start {
                program: compiler.cargo.clone(),
                source,
            })?;
            if output.status.success() {
                return Ok(());
            }
            Err(Error::CompileFailed {
                crate_name: crate_name.clone(),
                baseline: baseline.to_string(),
                compiler: compiler.to_string(),
                stderr: String::from_utf8_lossy(&output.stderr)
                    .trim_end()
                    .to_owned(),
            })
        };
        run()?;
        if !ptx.is_file() {
            // Cargo does not know of the PTX file: if it alone was lost, cargo calls the crate
            // fresh.
            forget(crate_name, &target_directory)?;
            run()?;
        }
        fs::read_to_string(&ptx).map_err(file_error("read", &ptx))
    }

    /// Where the inner cargo builds: one place for all build scripts of the outer one's profile, so that `core` is compiled
    /// once for all kernel crates of a workspace. Inner cargos wait for each other there.
    ///
    /// Not of several workspaces: cargo tells crates apart by their paths from their workspace's root on, and so would take
    /// a `helper` of one kernel crate for that of another.
    fn target_directory(&self, output_directory: &Path, workspace: &Path) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        workspace.hash(&mut hasher);
        let shared = match self.output_directory {
            None => shared_directory(output_directory),
            Some(_) => None,
        };
        shared
            .unwrap_or(output_directory)
            .join("ptx-target")
            .join(format!("{:016x}", hasher.finish()))
    }

    /// The inner cargo, up to the arguments for the compiler itself.
    fn cargo(
        &self,
        baseline: Baseline,
        compiler: &KernelCompiler,
        target_directory: &Path,
    ) -> Command {
        let mut command = Command::new(&compiler.cargo);
        shield(&mut command);
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTC", &compiler.rustc)
            // Set but empty: also overrides a wrapper that a cargo configuration file names.
            .env("RUSTC_WRAPPER", "")
            .env("RUSTC_WORKSPACE_WRAPPER", "")
            .env("CARGO_TARGET_DIR", target_directory)
            .env("CARGO_BUILD_BUILD_DIR", target_directory)
            .env(
                "CARGO_ENCODED_RUSTFLAGS",
                encoded_flags(baseline, compiler.flag),
            );
        for (key, value) in PROFILE {
            command.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
        }
        command
            .args([
                "rustc",
                "--lib",
                "--release",
                "--color=never",
                "--crate-type=staticlib",
            ])
            .arg(format!("--target={TARGET}"))
            .arg(if self.with_alloc {
                "-Zbuild-std=core,alloc"
            } else {
                "-Zbuild-std=core"
            });
        if let Ok(jobs) = env::var("NUM_JOBS") {
            command.arg(format!("--jobs={jobs}"));
        }
        if !self.features.is_empty() {
            command.arg(format!("--features={}", self.features.join(",")));
        }
        command
    }

    /// A number for everything that is chosen here, so that two choices never share a file that
    /// cargo thinks fresh.
    fn fingerprint(&self, baseline: Baseline, compiler: &KernelCompiler) -> u64 {
        let mut hasher = DefaultHasher::new();
        (baseline, &self.features, self.with_alloc).hash(&mut hasher);
        (&compiler.rustc, &compiler.version).hash(&mut hasher);
        hasher.finish()
    }
}

/// The directory of a profile, if an `OUT_DIR` lies in one as cargo makes it: `PROFILE/build/PACKAGE-HASH/out`.
fn shared_directory(out_directory: &Path) -> Option<&Path> {
    let build = out_directory.ancestors().nth(2)?;
    (build.file_name()? == "build").then(|| build.parent())?
}

/// Lets the inner cargo compile a crate again. The rest of its directory may be in use.
fn forget(crate_name: &str, target_directory: &Path) -> Result<(), Error> {
    let known = target_directory
        .join(TARGET)
        .join("release")
        .join(".fingerprint");
    let entries = fs::read_dir(&known).map_err(file_error("read", &known))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name
            .to_string_lossy()
            .starts_with(&format!("{crate_name}-"))
        {
            let path = entry.path();
            fs::remove_dir_all(&path).map_err(file_error("remove", &path))?;
        }
    }
    Ok(())
}

/// The compiler's flags, as cargo passes a list in one variable. They hold for `core` and for every
/// dependency too: code for different GPUs is not inlined into each other.
fn encoded_flags(baseline: Baseline, compilers_own: Option<&str>) -> String {
    let mut flags = vec![
        format!("-Ctarget-cpu={}", baseline.target_cpu()),
        format!("-Ctarget-feature={}", baseline.target_feature()),
    ];
    flags.extend(compilers_own.map(str::to_owned));
    flags.join("\u{1f}")
}

/// Keeps the settings of the cargo that runs this build script away from the inner one: its flags
/// (`--cfg loom` among them), wrappers, profile, target directory and jobserver. Where cargo keeps
/// and gets packages stays.
fn shield(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if is_outer_setting(&name) {
            command.env_remove(name);
        }
    }
    for name in [
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "DYLD_FALLBACK_LIBRARY_PATH",
    ] {
        if let Some(paths) = env::var_os(name) {
            let kept = env::split_paths(&paths).filter(|path| !holds_rust_libraries(path));
            match env::join_paths(kept) {
                Ok(kept) if !kept.is_empty() => command.env(name, kept),
                _ => command.env_remove(name),
            };
        }
    }
}

/// Whether this variable of the environment would change how the inner cargo builds.
fn is_outer_setting(name: &OsStr) -> bool {
    const KEPT: [&str; 6] = [
        "CARGO_HOME",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "RUSTUP_HOME",
    ];
    const DROPPED: [&str; 4] = ["CARGO", "RUST", "DEP_", "__CARGO"];
    const DROPPED_EXACTLY: [&str; 9] = [
        "MAKEFLAGS",
        "MFLAGS",
        "OUT_DIR",
        "TARGET",
        "HOST",
        "NUM_JOBS",
        "OPT_LEVEL",
        "PROFILE",
        "DEBUG",
    ];
    let Some(name) = name.to_str() else {
        return false;
    };
    let starts = |prefix: &&str| name.starts_with(*prefix);
    DROPPED_EXACTLY.contains(&name) || (DROPPED.iter().any(starts) && !KEPT.iter().any(starts))
}

/// Whether a directory holds the shared libraries of a Rust toolchain. Cargo puts its own
/// toolchain's on the search path of a build script, where another compiler would load them instead
/// of its own.
fn holds_rust_libraries(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("librustc_driver") || name.starts_with("libstd-")
        })
    })
}

pub(crate) fn file_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::File {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_outer_cargo_are_dropped() {
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "CARGO_TARGET_DIR",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_MAKEFLAGS",
            "CARGO",
            "RUSTC",
            "RUSTDOC",
            "RUSTC_WRAPPER",
            "RUSTUP_TOOLCHAIN",
            "OUT_DIR",
        ] {
            assert!(is_outer_setting(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn where_packages_come_from_is_kept() {
        for name in [
            "PATH",
            "HOME",
            "CARGO_HOME",
            "RUSTUP_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_HTTP_CAINFO",
        ] {
            assert!(!is_outer_setting(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn build_scripts_of_a_profile_share_a_directory() {
        let of = |out: &str| shared_directory(Path::new(out)).map(Path::to_path_buf);
        assert_eq!(
            of("/here/target/debug/build/one-0a1b/out"),
            Some("/here/target/debug".into())
        );
        assert_eq!(of("/elsewhere/out"), None);
        assert_eq!(of("out"), None);
    }

    #[test]
    fn flags_are_separated_as_cargo_expects() {
        assert_eq!(
            encoded_flags(Baseline::SM_80, None),
            "-Ctarget-cpu=sm_80\u{1f}-Ctarget-feature=+ptx78"
        );
        assert_eq!(
            encoded_flags(Baseline::SM_75, Some("-Cother")),
            "-Ctarget-cpu=sm_75\u{1f}-Ctarget-feature=+ptx78\u{1f}-Cother"
        );
    }
}
