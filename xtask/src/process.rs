//! Runs other programs, and says clearly what was run when one fails.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

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
fn line_of(command: &Command) -> String {
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
