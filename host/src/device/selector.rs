//! Which device is meant: `auto`, `cpu`, `cpu:8`, `cuda:0`.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Names a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// A GPU if there is one, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu {
        /// Threads, if not one for each core.
        threads: Option<u32>,
    },
    /// The GPU with this number.
    Cuda(u32),
}

impl FromStr for Selector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |digits: &str| {
            digits
                .parse()
                .map_err(|_| Error::BadSelector(text.to_owned()))
        };
        match text.split_once(':') {
            None if text == "auto" => Ok(Self::Auto),
            None if text == "cpu" => Ok(Self::Cpu { threads: None }),
            None if text == "cuda" => Ok(Self::Cuda(0)),
            Some(("cpu", threads)) => match number(threads)? {
                threads @ 1..=1024 => Ok(Self::Cpu {
                    threads: Some(threads),
                }),
                _ => Err(Error::BadSelector(text.to_owned())),
            },
            Some(("cuda", ordinal)) => Ok(Self::Cuda(number(ordinal)?)),
            _ => Err(Error::BadSelector(text.to_owned())),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Cpu { threads: None } => formatter.write_str("cpu"),
            Self::Cpu {
                threads: Some(threads),
            } => write!(formatter, "cpu:{threads}"),
            Self::Cuda(ordinal) => write!(formatter, "cuda:{ordinal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for name in ["auto", "cpu", "cpu:8", "cuda:0", "cuda:7"] {
            assert_eq!(name.parse::<Selector>().expect(name).to_string(), name);
        }
        for name in [
            "",
            "gpu",
            "cuda:",
            "cuda:x",
            "cuda:-1",
            "cpu:0",
            "cpu:100000",
            "auto:1",
        ] {
            let error = name.parse::<Selector>().expect_err(name).to_string();
            assert!(error.contains("names no device"), "{error}");
        }
    }
}
