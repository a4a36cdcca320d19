//! Runs other programs, and says clearly what was run when one fails.

use std::env;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a command to its end and returns what it printed. Its output is shown only when it fails.
pub fn run(command: &mut Command) -> Result<String> {
    let line = line_of(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = if complaint.trim().is_empty() {
        printed.trim()
    } else {
        complaint.trim()
    };
    bail!("`{line}` failed ({}): {complaint}", output.status)
}

/// Runs a command to its end, and lets it use the terminal.
pub fn show(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", line_of(command)))?;
    if !status.success() {
        bail!(
            "`{}` failed ({status}); see what it printed above",
            line_of(command)
        );
    }
    Ok(())
}

/// Runs a command to its end, shows each line of its output as it comes, and also gives it to
/// `see`. Its errors go where ours go.
pub fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Result<()> {
    let line = line_of(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let mut output = BufReader::new(child.stdout.take().context("its output is piped")?);
    let mut bytes = Vec::new();
    let mut screen = io::stdout().lock();
    while output.read_until(b'\n', &mut bytes)? > 0 {
        screen.write_all(&bytes)?;
        screen.flush()?;
        see(String::from_utf8_lossy(&bytes).trim_end());
        bytes.clear();
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{line}` failed ({status}); see what it printed above");
    }
    Ok(())
}

/// Runs a command and says whether it could be started and succeeded.
pub fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The program of this name on the search path.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let name = format!("{name}{}", env::consts::EXE_SUFFIX);
    env::split_paths(&env::var_os("PATH")?)
        .map(|directory| directory.join(&name))
        .find(|program| program.is_file())
}

/// The command as one would type it.
pub fn line_of(command: &Command) -> String {
    let words: Vec<_> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    words.join(" ")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_and_what_it_said() {
        let error = run(Command::new("sh").args(["-c", "echo no luck >&2; exit 3"]))
            .expect_err("it exits 3");
        let message = error.to_string();
        assert!(
            message.contains("`sh -c echo no luck >&2; exit 3` failed"),
            "{message}"
        );
        assert!(message.ends_with("no luck"), "{message}");
    }

    #[test]
    fn lines_are_seen_as_they_come() {
        let mut seen = Vec::new();
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo one; echo two; exit 1"]);
        let error = watch(&mut shell, |line| seen.push(line.to_owned())).expect_err("it exits 1");
        assert_eq!(seen, ["one", "two"]);
        assert!(error.to_string().contains("exit 1` failed"), "{error}");
        assert!(show(&mut shell).is_err());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("no-such-program")).expect_err("there is none");
        assert!(
            error.to_string().contains("cannot start `no-such-program`"),
            "{error}"
        );
        assert!(find_program("no-such-program").is_none());
        assert!(find_program("sh").is_some());
    }
}
