//! How a worker came to its end, in words.

use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a worker ended before it was done.
#[derive(Debug)]
pub(super) enum Ending {
    /// It ended by itself.
    Died(ExitStatus),
    /// It said nothing for this long, and was ended.
    Silent(Duration),
    /// It broke the device, and so could not go on.
    Lost(String),
    /// It said what is no message, and was ended.
    Garbled(String),
}

impl Ending {
    /// The metric that a case gets which ended so.
    pub fn metric(&self) -> &'static str {
        match self {
            Self::Silent(_) => "hang",
            Self::Died(_) | Self::Lost(_) | Self::Garbled(_) => "died",
        }
    }

    /// What it did, as the rest of a sentence that begins with its name.
    pub fn words(&self, last_line: Option<&str>) -> String {
        let what = self.what();
        match last_line {
            Some(line) => format!("{what}; the last line that it printed: {line}"),
            None => what,
        }
    }

    fn what(&self) -> String {
        match self {
            Self::Died(status) => died(*status),
            Self::Silent(timeout) => format!(
                "hung: it said nothing for {} s, and was ended",
                timeout.as_secs_f64()
            ),
            Self::Lost(reason) => format!("broke the device: {reason}"),
            Self::Garbled(reason) => {
                format!("disturbed the messages of its process, and was ended: {reason}")
            }
        }
    }
}

fn died(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(number), _) => match Signal::try_from(number) {
            Ok(signal) => format!("died by {signal}"),
            Err(_) => format!("died by signal {number}"),
        },
        (None, Some(code)) => format!("exited with code {code}"),
        (None, None) => format!("ended ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_and_codes_are_named() {
        // As the system encodes them: the signal in the low bits, the code above.
        assert_eq!(died(ExitStatus::from_raw(11)), "died by SIGSEGV");
        assert_eq!(died(ExitStatus::from_raw(6)), "died by SIGABRT");
        assert_eq!(died(ExitStatus::from_raw(7 << 8)), "exited with code 7");
        let hung = Ending::Silent(Duration::from_millis(1500));
        assert_eq!(hung.metric(), "hang");
        assert_eq!(
            hung.words(Some("stuck")),
            "hung: it said nothing for 1.5 s, and was ended; the last line that it printed: stuck"
        );
    }
}
