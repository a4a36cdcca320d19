//! `cargo xtask record -- PROGRAM ARGUMENTS`: runs a program under the recorder and writes its allocation trace.
//!
//! What the user sees: the program's own output, then what was mended in the recording (if anything), the trace's summary,
//! where it was written, and how the program ended if it failed. The raw recording is a temporary file. It is kept only if it cannot be made a trace: what it has
//! may have taken hours.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, BufReader, Write},
    mem::MaybeUninit,
    path::{self, Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, bail, ensure};
use scatterheap_trace::{Conversion, Trace, convert, file};
use signal_hook::{consts::SIGINT, flag::register_conditional_default};
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

    /// Convert a recording that was kept, and run nothing
    #[arg(
        long,
        value_name = "RECORDING",
        requires = "output",
        conflicts_with_all = ["scratch", "command"]
    )]
    convert: Option<PathBuf>,

    /// The program and its arguments
    #[arg(
        required_unless_present = "convert",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
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
    if let (Some(raw), Some(output)) = (&arguments.convert, &arguments.output) {
        prepare_output(output)?;
        return tell(&make_trace(raw, output)?, output);
    }
    let Some((program, rest)) = arguments.command.split_first() else {
        bail!("no program to record; name one, as in `cargo xtask record -- sqlite3`");
    };
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| default_output(program));
    prepare_output(&output)?;
    let recorder = Preloaded::at(&build_recorder()?, &env::temp_dir())?;
    let scratch = scratch_directory(arguments.scratch.clone().unwrap_or_else(env::temp_dir))?;
    let raw = scratch.path().join("recording");

    let mut command = Command::new(program);
    command
        .args(rest)
        .env("LD_PRELOAD", &recorder.path)
        .env("SCATTERHEAP_TRACE_FILE", &raw);
    let uninterrupted = Uninterrupted::begin()?;
    let status = run_to_its_end(&mut command)?;
    ensure!(
        fs::metadata(&raw).is_ok_and(|file| file.len() > 0),
        "{} was not recorded; the recorder may have said why, or the program is linked statically, runs with raised \
         privileges, or may write no files (ulimit -f)",
        program.to_string_lossy()
    );
    let conversion = match make_trace(&raw, &output) {
        Ok(conversion) => conversion,
        Err(error) => return Err(kept(scratch, &raw, error)),
    };
    // Before anything is printed: whoever reads that may have gone away, and then it ends us.
    drop((scratch, recorder));
    drop(uninterrupted);
    tell(&conversion, &output)?;
    if !status.success() {
        print(&format!(
            "note: the program ended with {status}; what it did until then is recorded\n"
        ))?;
    }
    Ok(())
}

/// Runs the program.
fn run_to_its_end(command: &mut Command) -> anyhow::Result<ExitStatus> {
    command.status().with_context(|| {
        format!(
            "cannot start {}; check its name and path",
            command.get_program().to_string_lossy()
        )
    })
}

/// While this lives, Ctrl-C, the usual way to end a server, ends the program alone: the terminal tells both. A second one
/// does not end the conversion.
struct Uninterrupted {
    ended: Arc<AtomicBool>,
}

impl Uninterrupted {
    fn begin() -> anyhow::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        if !is_interrupt_ignored() {
            // Not ignored, which the program would inherit; what is handled is as usual again in the program.
            register_conditional_default(SIGINT, Arc::clone(&ended))
                .context("cannot handle Ctrl-C; run again")?;
        }
        Ok(Self { ended })
    }
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        // Relaxed: the handler needs no other memory, and soon is soon enough.
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Whether the parent has Ctrl-C ignored, as shells do for what runs in the background. So it stays, for the program too.
#[cfg(unix)]
fn is_interrupt_ignored() -> bool {
    use nix::libc::{SIG_IGN, sigaction};
    let mut action = MaybeUninit::<sigaction>::zeroed();
    // SAFETY: there is a place for the action, which is only read; if that fails it stays zeroes, the default action.
    let action = unsafe {
        sigaction(SIGINT, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == SIG_IGN
}

#[cfg(not(unix))]
fn is_interrupt_ignored() -> bool {
    false
}

/// Makes a trace of the recording, and writes it if there is anything in it.
fn make_trace(raw: &Path, output: &Path) -> anyhow::Result<Conversion> {
    let conversion = read_recording(raw)?;
    if !conversion.trace.operations().is_empty() {
        write_trace(&conversion.trace, output)?;
    }
    Ok(conversion)
}

/// Tells what is in the trace that was made, and where it is.
fn tell(conversion: &Conversion, output: &Path) -> anyhow::Result<()> {
    ensure!(
        !conversion.trace.operations().is_empty(),
        "the program made no allocation that can be recorded; it may bring its own allocator"
    );
    let bytes = fs::metadata(output).map_or(0, |file| file.len());
    print(&format!(
        "{conversion}{}written to {} ({bytes} bytes)\n",
        conversion.trace.summary(),
        output.display()
    ))
}

/// Prints what there is to say about a trace that is written.
fn print(text: &str) -> anyhow::Result<()> {
    let mut screen = io::stdout().lock();
    screen
        .write_all(text.as_bytes())
        .and_then(|()| screen.flush())
        .context(
            "the trace is written, but not all about it can be printed; print to another place",
        )
}

/// Keeps the recording of which no trace could be made, and says in `error` where it is.
fn kept(scratch: TempDir, raw: &Path, error: anyhow::Error) -> anyhow::Error {
    let _ = scratch.keep();
    error.context(format!(
        "no trace was written; the recording is kept, and `cargo xtask record --convert {} --output FILE` tries again",
        raw.display()
    ))
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

/// A library where the loader finds it, which splits `LD_PRELOAD` at blanks and colons.
struct Preloaded {
    path: PathBuf,
    /// Has the link that `path` is, where the library's own path cannot be named.
    _link: Option<TempDir>,
}

impl Preloaded {
    fn at(library: &Path, temporary: &Path) -> anyhow::Result<Self> {
        if is_whole_for_the_loader(library) {
            return Ok(Self {
                path: library.to_owned(),
                _link: None,
            });
        }
        ensure!(
            is_whole_for_the_loader(temporary),
            "the recorder is at {} and temporary files are in {}, and the loader splits what it preloads at blanks and \
             colons; set TMPDIR to a directory whose path has neither",
            library.display(),
            temporary.display()
        );
        let link = |directory: &TempDir| {
            let path = path::absolute(directory.path())?.join("recorder.so");
            link(library, &path)?;
            Ok::<_, io::Error>(path)
        };
        let directory = tempfile::Builder::new()
            .prefix("scatterheap-preload-")
            .tempdir_in(temporary);
        let linked = directory.and_then(|directory| Ok((link(&directory)?, directory)));
        let (path, directory) = linked.with_context(|| {
            format!(
                "cannot link the recorder in {}; set TMPDIR to another directory",
                temporary.display()
            )
        })?;
        Ok(Self {
            path,
            _link: Some(directory),
        })
    }
}

/// Whether the loader takes a path for one.
fn is_whole_for_the_loader(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    !bytes
        .iter()
        .any(|byte| byte.is_ascii_whitespace() || *byte == b':')
}

/// A link and no copy: programs may not be loaded from where temporary files are.
#[cfg(unix)]
fn link(library: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(library, path)
}

#[cfg(not(unix))]
fn link(library: &Path, path: &Path) -> io::Result<()> {
    fs::copy(library, path).map(drop)
}

/// Reads and converts a raw recording.
fn read_recording(raw: &Path) -> anyhow::Result<Conversion> {
    let file = File::open(raw).with_context(|| {
        format!(
            "cannot open {}; give a recording that was kept",
            raw.display()
        )
    })?;
    Ok(convert(BufReader::new(file))?)
}

/// Creates the directory of `output`, and sees whether the file can be written: better before the work than after it.
fn prepare_output(output: &Path) -> anyhow::Result<()> {
    if let Some(directory) = output.parent() {
        fs::create_dir_all(directory).with_context(|| {
            format!(
                "cannot create {}; name another file with --output",
                directory.display()
            )
        })?;
    }
    file::try_out(output).with_context(|| {
        format!(
            "cannot write {}; name another file with --output",
            output.display()
        )
    })
}

/// Writes the trace in the format that the name of `output` asks for.
fn write_trace(trace: &Trace, output: &Path) -> anyhow::Result<()> {
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

#[cfg(all(test, unix))]
mod tests {
    use std::{
        mem,
        os::unix::{fs::symlink, process::ExitStatusExt},
    };

    use scatterheap_trace::raw::{MAGIC, RawHeader};

    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn an_interrupt_ends_the_program_alone() {
        // Where the tests themselves run in the background it is ignored, and would be for the program.
        // SAFETY: the default action is always good, and no other test relies on what was there.
        unsafe { nix::libc::signal(SIGINT, nix::libc::SIG_DFL) };
        // To the end of the tests: a signal may take a while to come.
        mem::forget(Uninterrupted::begin().expect("it can be handled"));
        // As the terminal does: both are told.
        let mut program = shell("kill -INT $PPID; kill -INT $$; exit 7");
        let status = run_to_its_end(&mut program).expect("the shell starts");
        assert_eq!(status.signal(), Some(SIGINT));
    }

    #[test]
    #[ignore = "run by the next test, with interrupts ignored"]
    fn in_the_background() {
        let _uninterrupted = Uninterrupted::begin().expect("it need not be handled");
        let status = run_to_its_end(&mut shell("kill -INT $$; exit 7")).expect("the shell starts");
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn what_the_parent_has_ignored_stays_ignored() {
        let status =
            shell("trap '' INT; exec \"$0\" --exact --ignored record::tests::in_the_background")
                .arg(env::current_exe().expect("a test has a path"))
                .status();
        assert!(status.expect("the shell starts").success());
    }

    #[test]
    fn a_library_whose_path_the_loader_would_split_is_linked() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let plain = scratch.path().join("recorder.so");
        let preloaded = Preloaded::at(&plain, Path::new("not : looked at"));
        assert_eq!(preloaded.expect("as it is").path, plain);

        for name in ["a b", "a:b", "a\tb"] {
            let directory = scratch.path().join(name);
            fs::create_dir(&directory).expect("a directory");
            let library = directory.join("recorder.so");
            fs::write(&library, name).expect("room for a file");
            let preloaded = Preloaded::at(&library, scratch.path()).expect("it is linked");
            let path = preloaded.path.clone();
            assert!(is_whole_for_the_loader(&path), "{}", path.display());
            assert_eq!(fs::read_to_string(&path).expect("it is there"), name);
            drop(preloaded);
            assert!(!path.is_symlink(), "the link goes");

            let refusal = Preloaded::at(&library, &directory).map(|preloaded| preloaded.path);
            let message = refusal.expect_err("no place for a link").to_string();
            assert!(message.contains("set TMPDIR to a directory"), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn a_recording_of_nothing_makes_no_trace() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let [raw, output] = ["raw", "a.sctrace"].map(|name| scratch.path().join(name));
        // A header alone, which says that nothing was claimed.
        let mut header = vec![0; size_of::<RawHeader>()];
        header[..MAGIC.len()].copy_from_slice(&MAGIC);
        fs::write(&raw, header).expect("room for a file");
        // No error, for which the recording would be kept.
        let conversion = make_trace(&raw, &output).expect("it is a recording");
        let error = tell(&conversion, &output).expect_err("there is nothing to tell");
        assert!(error.to_string().contains("no allocation"), "{error}");
        assert!(!output.exists());
    }

    #[test]
    fn an_output_that_cannot_be_written_is_told_before() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let file = scratch.path().join("file");
        fs::write(&file, "kept").expect("room for a file");
        let message = |output: &Path| format!("{:#}", prepare_output(output).expect_err("no file"));
        assert!(message(&file.join("below/a.sctrace")).starts_with("cannot create "));
        assert!(message(scratch.path()).starts_with("cannot write "));

        prepare_output(&file).expect("it can be written");
        assert_eq!(fs::read(&file).expect("it is there"), b"kept");
        let new = scratch.path().join("new/a.sctrace");
        prepare_output(&new).expect("it can be created");
        assert!(!new.exists() && new.parent().is_some_and(Path::exists));
    }

    #[test]
    fn trying_an_output_leaves_links_and_pipes_as_they_are() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let of = |name: &str| scratch.path().join(name);
        symlink("none", of("link")).expect("a link");
        prepare_output(&of("link")).expect("what the link leads to can be created");
        assert!(of("link").is_symlink() && !of("none").exists());

        let made = Command::new("mkfifo").arg(of("pipe")).status();
        assert!(made.expect("there is mkfifo").success());
        // Without a reader, for which it does not wait.
        prepare_output(&of("pipe")).expect("pipes can be written to");
        assert!(of("pipe").exists());
    }

    #[test]
    fn a_recording_of_which_no_trace_is_made_is_kept() {
        let scratch = scratch_directory(env::temp_dir()).expect("a temporary directory");
        let raw = scratch.path().join("recording");
        fs::write(&raw, "no recording").expect("room for a file");
        let error = make_trace(&raw, &scratch.path().join("a.sctrace")).expect_err("no trace");
        let message = format!("{:#}", kept(scratch, &raw, error));
        assert!(message.contains(&*raw.to_string_lossy()), "{message}");
        assert!(message.contains("not a recording"), "{message}");
        assert_eq!(fs::read(&raw).expect("it is kept"), b"no recording");
        fs::remove_dir_all(raw.parent().expect("the scratch directory")).expect("it goes");
    }
}
