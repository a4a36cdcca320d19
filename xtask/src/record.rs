//! `cargo xtask record -- PROGRAM ARGUMENTS`: runs a program under the recorder and writes its allocation trace.
//!
//! What the user sees: the program's own output, then what was mended in the recording (if anything), the trace's summary
//! and where it was written. The raw recording is a temporary file, in a directory that is removed in any case.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, BufReader, Write},
    path::{self, Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail, ensure};
use scatterheap_trace::{Conversion, Trace, convert};
use tempfile::TempDir;

use crate::toolchain::{cargo, workspace};

/// Run a program and record every allocation that it makes
#[derive(clap::Args, Debug)]
pub struct RecordArguments {
    /// Where to write the trace; CSV if the name ends in .csv [default: traces/PROGRAM.sctrace]
    #[arg(long, short)]
    output: Option<PathBuf>,

    /// Directory for the raw recording, which takes 32 bytes a call [default: the system's]
    #[arg(long)]
    scratch: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Builds the recorder, runs the program under it, and writes the trace.
///
/// # Errors
/// The recorder does not build, the program does not start or cannot be recorded, or the trace cannot be written. A
/// program that fails is recorded all the same.
// By value: the arguments are made for this call alone.
#[allow(
    clippy::needless_pass_by_value,
    reason = "arguments are parsed for this call alone"
)]
pub fn run(arguments: RecordArguments) -> anyhow::Result<()> {
    let Some((program, rest)) = arguments.command.split_first() else {
        bail!("no program to record; name one, as in `cargo xtask record -- sqlite3`");
    };
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| default_output(program));
    let recorder = build_recorder()?;
    let scratch = scratch_directory(arguments.scratch.clone().unwrap_or_else(env::temp_dir))?;
    let raw = scratch.path().join("recording");

    let status = Command::new(program)
        .args(rest)
        .env("LD_PRELOAD", &recorder)
        .env("SCATTERHEAP_TRACE_FILE", &raw)
        .status()
        .with_context(|| {
            format!(
                "cannot start {}; check its name and path",
                program.to_string_lossy()
            )
        })?;
    let conversion = read_recording(&raw, program)?;
    write_trace(&conversion.trace, &output)?;

    let bytes = fs::metadata(&output).map_or(0, |file| file.len());
    let mut screen = io::stdout().lock();
    if !status.success() {
        writeln!(
            screen,
            "note: the program ended with {status}; what it did until then is recorded"
        )?;
    }
    write!(screen, "{conversion}{}", conversion.trace.summary())?;
    writeln!(screen, "written to {} ({bytes} bytes)", output.display())?;
    Ok(())
}

/// `traces/PROGRAM.sctrace` in the workspace.
fn default_output(program: &OsStr) -> PathBuf {
    let mut name = Path::new(program).file_name().unwrap_or(program).to_owned();
    name.push(".sctrace");
    workspace().join("traces").join(name)
}

/// Builds the recorder and returns the path of its library, as Cargo tells it.
fn build_recorder() -> anyhow::Result<PathBuf> {
    let build = cargo()
        .args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "scatterheap-recorder",
        ])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo to build the recorder; is it on the PATH?")?;
    ensure!(
        build.status.success(),
        "the recorder does not build; see the compiler's messages above"
    );
    String::from_utf8_lossy(&build.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "scatterheap_recorder")
        .filter_map(|message| message["filenames"][0].as_str().map(PathBuf::from))
        .next_back()
        .context("cargo did not say where it put the recorder's library; try `cargo clean`")
}

/// Reads and converts the raw recording of `program`.
fn read_recording(raw: &Path, program: &OsStr) -> anyhow::Result<Conversion> {
    let file = File::open(raw).with_context(|| {
        format!(
            "{} recorded nothing; a program that is linked statically, or that runs with raised privileges, \
             cannot be recorded",
            program.to_string_lossy()
        )
    })?;
    let conversion = convert(BufReader::new(file))?;
    ensure!(
        !conversion.trace.operations().is_empty(),
        "{} made no allocation that can be recorded; it may bring its own allocator",
        program.to_string_lossy()
    );
    Ok(conversion)
}

/// Writes the trace in the format that the name of `output` asks for.
fn write_trace(trace: &Trace, output: &Path) -> anyhow::Result<()> {
    if let Some(directory) = output.parent() {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
    }
    if output.extension() == Some(OsStr::new("csv")) {
        trace.write_csv(output)?;
    } else {
        trace.write_binary(output)?;
    }
    Ok(())
}

/// A directory of this run's own, removed when it is dropped.
fn scratch_directory(parent: PathBuf) -> anyhow::Result<TempDir> {
    // Absolute, because the recorded program may change its directory before it allocates.
    path::absolute(parent)
        .and_then(|parent| {
            tempfile::Builder::new()
                .prefix("scatterheap-record-")
                .tempdir_in(parent)
        })
        .context("cannot create a directory for the raw recording; name another one with --scratch")
}
