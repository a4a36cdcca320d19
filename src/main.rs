//! The command `scatterheap`: looks at devices, tries heaps, shows them, replays traces.
//!
//! Whatever goes wrong ends in one line on stderr that begins with `error:`, and in an exit code
//! other than 0: 2 if the arguments were wrong, 130 after an interrupted measurement, 1 otherwise.

mod command;

use clap::Parser;
use command::output::{note, one_line, print, with_causes};
use command::{CommandLine, Interrupted};
use std::process::ExitCode;

/// The exit code after a signal ended a measurement early, as shells give it after SIGINT.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let command_line = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => return refuse(&error),
    };
    end(command_line.run())
}

/// Says how the command ended.
fn end(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Err(error) if error.is::<Interrupted>() => {
            note(&error.to_string());
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            note(&format!("error: {}", with_causes(&error)));
            ExitCode::FAILURE
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// Whether a line is the tip to write a negative number behind `--`.
fn is_tip_for_a_number(line: &str) -> bool {
    let value = line.split_once("to pass '-");
    value.is_some_and(|(_, value)| value.starts_with(|first: char| first.is_ascii_digit()))
}

/// Prints the help or the version if that was asked for, else what is wrong with the arguments.
fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as NothingAsked;
    if !error.use_stderr() {
        return end(print(&error.render().ansi().to_string()));
    }
    if error.kind() == NothingAsked {
        // An error here has nobody to go to.
        let _printed = error.print();
    } else {
        // After the message clap appends the usage and a hint at the help.
        let text = error.render().to_string();
        let message = text
            .lines()
            .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
            // Options, which numbers are for, take none behind `--`.
            .filter(|line| !is_tip_for_a_number(line));
        let message = one_line(&message.collect::<Vec<_>>().join("\n"));
        let message = message.replace(" tip: ", "; tip: ");
        // As the standard library says it.
        note(&message.replace("invalid digit found in string", "a whole number is needed"));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
