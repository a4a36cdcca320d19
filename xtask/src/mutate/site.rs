//! Where the allocator asks for an ordering, and what is weaker.

use std::fmt;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// A memory ordering stronger than relaxed, or what one is weakened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ordering {
    Relaxed,
    Acquire,
    Release,
    AcqRel,
}

impl Ordering {
    /// The weaker orderings, the strongest first.
    pub fn weaker(self) -> &'static [Self] {
        match self {
            Self::Relaxed => &[],
            Self::Acquire | Self::Release => &[Self::Relaxed],
            Self::AcqRel => &[Self::Acquire, Self::Release, Self::Relaxed],
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name {
            "Acquire" => Some(Self::Acquire),
            "Release" => Some(Self::Release),
            "AcqRel" => Some(Self::AcqRel),
            _ => None,
        }
    }
}

impl fmt::Display for Ordering {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Relaxed => "relaxed",
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::AcqRel => "acq_rel",
        })
    }
}

/// A line of the allocator that asks for an ordering.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Site {
    /// Relative to the workspace.
    pub file: String,
    /// From 1 on.
    pub line: u32,
    pub operation: String,
    pub ordering: Ordering,
}

impl Site {
    /// Reads a line that a model wrote about a site.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<_> = text.split('\t').collect();
        let [file, line, operation, ordering] = parts[..] else {
            bail!(
                "a model wrote `{text}` about a site, which is not FILE, LINE, OPERATION, ORDERING"
            );
        };
        Ok(Self {
            file: file.to_owned(),
            line: line
                .parse()
                .with_context(|| format!("a model wrote `{line}` for a line's number"))?,
            operation: operation.to_owned(),
            ordering: Ordering::parse(ordering)
                .with_context(|| format!("a model asks for {ordering}, which is not known here"))?,
        })
    }

    /// Whether it belongs to the allocator, and not to a test.
    pub fn is_in_allocator(&self) -> bool {
        self.file.starts_with("heap/src/")
    }

    /// The mutations of the site.
    pub fn mutations(&self) -> impl Iterator<Item = Mutation> + '_ {
        self.ordering.weaker().iter().map(|to| Mutation {
            site: self.clone(),
            to: *to,
        })
    }
}

/// A site with a weaker ordering.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mutation {
    pub site: Site,
    pub to: Ordering,
}

impl Mutation {
    /// What the explored atomics are told.
    pub fn variable(&self) -> String {
        format!("{}:{}:{}", self.site.file, self.site.line, self.to)
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Site {
            file,
            line,
            operation,
            ordering,
        } = &self.site;
        write!(
            formatter,
            "{file}:{line} {operation}, {ordering} → {}",
            self.to
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(ordering: Ordering) -> Site {
        Site {
            file: "heap/src/stripe.rs".to_owned(),
            line: 37,
            operation: "load".to_owned(),
            ordering,
        }
    }

    #[test]
    fn a_site_is_read_as_it_was_written() {
        let read = Site::parse("heap/src/stripe.rs\t37\tload\tAcquire").expect("a site");
        assert_eq!(read, site(Ordering::Acquire));
        assert!(read.is_in_allocator());
        assert!(
            !Site {
                file: "heap/tests/warps/main.rs".to_owned(),
                ..read
            }
            .is_in_allocator()
        );
        for wrong in [
            "",
            "a\t1\tload",
            "a\tb\tload\tAcquire",
            "a\t1\tload\tSeqCst",
            "a\t1\tload\tAcquire\t",
        ] {
            assert!(Site::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_ordering_is_weakened_to_each_of_its_parts() {
        let variables = |ordering| -> Vec<_> {
            site(ordering)
                .mutations()
                .map(|mutation| mutation.variable())
                .collect()
        };
        assert_eq!(
            variables(Ordering::AcqRel),
            ["acquire", "release", "relaxed"].map(|to| format!("heap/src/stripe.rs:37:{to}"))
        );
        assert_eq!(
            variables(Ordering::Release),
            ["heap/src/stripe.rs:37:relaxed"]
        );
        assert!(variables(Ordering::Relaxed).is_empty());
    }
}
