//! Builds the plug-ins in C, and knows which processes they ran in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The system's C compiler.
const COMPILER: &str = "cc";

/// Where plug-ins are built.
pub struct Workshop {
    sources: PathBuf,
    directory: TempDir,
}

/// A built plug-in.
pub struct Plugin {
    pub library: PathBuf,
    /// Ids of the processes that it ran in, and that it started.
    processes: PathBuf,
}

impl Workshop {
    /// A workshop, or why there is none: test executables also run where there is no compiler or no source.
    pub fn open() -> Result<Self, String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
        if !sources.is_dir() {
            return Err("no source here".into());
        }
        Command::new(COMPILER)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|_| format!("no C compiler `{COMPILER}` found"))?;
        Ok(Self {
            sources,
            directory: TempDir::new().map_err(|error| error.to_string())?,
        })
    }

    /// Path of a file that does not exist yet.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Builds the plug-in of this name.
    pub fn build(&self, source: &str) -> Plugin {
        self.build_as(source, source)
    }

    /// Builds a plug-in under another name, with processes of its own.
    pub fn build_as(&self, source: &str, name: &str) -> Plugin {
        let plugin = Plugin {
            library: self.path(&format!("lib{name}.so")),
            processes: self.path(&format!("{name}.processes")),
        };
        let output = Command::new(COMPILER)
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"])
            .arg(format!("-DPROCESSES=\"{}\"", plugin.processes.display()))
            .arg("-I")
            .arg(self.sources.join("../../include"))
            .arg("-o")
            .arg(&plugin.library)
            .arg(self.sources.join(format!("{source}.c")))
            .output()
            .expect("the compiler starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        plugin
    }
}

impl Plugin {
    /// The processes noted so far.
    pub fn processes(&self) -> BTreeSet<u32> {
        let noted = std::fs::read_to_string(&self.processes).unwrap_or_default();
        let ids = noted.lines().map(|line| line.parse().expect("a number"));
        ids.collect()
    }

    /// Whether all noted processes are gone within a time: whoever adopts them may take a moment.
    pub fn leaves_nobody(&self) -> bool {
        within(Duration::from_secs(10), || {
            !self.processes().into_iter().any(is_running)
        })
    }
}

/// Whether a condition becomes true within a time.
pub fn within(patience: Duration, condition: impl Fn() -> bool) -> bool {
    let end = Instant::now() + patience;
    while !condition() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Whether a process runs; one that has ended, and that nobody has waited for, does not.
fn is_running(id: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/stat")) else {
        return false;
    };
    // The state follows the name, which is in brackets.
    let state = status
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    !matches!(state, Some('Z' | 'X'))
}
