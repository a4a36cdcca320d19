//! What a resource is made of, as text: adaptors from the outermost on, and a resource at the end.

use crate::error::{Error, Result};
use scatterheap_host::size::Bytes;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Adaptors and a resource, such as `statistics,limit=8GiB,caching`. The header of the C interface has the words. Those
/// that say the same in other words are equal.
#[derive(Clone, Debug)]
pub struct Composition {
    /// From the outermost on.
    pub(crate) adaptors: Vec<Adaptor>,
    pub(crate) base: Base,
    /// The text of each adaptor, and at the end of the base.
    words: Vec<String>,
}

/// What wraps a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Adaptor {
    Statistics,
    Tracking { takes_backtraces: bool },
    Limit(u64),
    Trace(PathBuf),
    Caching,
    Segments,
}

/// What owns memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Default,
    Remapping,
    Caching,
    Segments,
    Device,
    Slab,
    Buddy(u64),
    Pool { block_bytes: u64, count: u64 },
    Arena(u64),
}

impl Composition {
    /// Lets every call be written to a file, before anything else is done with it.
    #[must_use]
    pub fn traced_to(mut self, file: PathBuf) -> Self {
        self.words.insert(0, trace_to(&file));
        self.adaptors.insert(0, Adaptor::Trace(file));
        self
    }

    /// The same for one of several devices, with trace files of its own: as said for the first one, with its number at
    /// the end for others. What is there and is no file, such as `/dev/null` or a pipe, is that of all.
    #[must_use]
    pub fn of_device(mut self, number: u32) -> Self {
        for (adaptor, word) in self.adaptors.iter_mut().zip(&mut self.words) {
            if let Adaptor::Trace(file) = adaptor
                && number > 0
                && !is_special(file)
            {
                file.as_mut_os_string().push(format!(".{number}"));
                *word = trace_to(file);
            }
        }
        self
    }
}

/// Whether there is something that is no regular file: a name beside it would be of nothing that the caller made.
fn is_special(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| !found.is_file())
}

/// The word for an adaptor that writes to this file.
fn trace_to(file: &Path) -> String {
    format!("trace={}", file.display())
}

impl PartialEq for Composition {
    fn eq(&self, other: &Self) -> bool {
        (&self.adaptors, &self.base) == (&other.adaptors, &other.base)
    }
}

impl Eq for Composition {}

impl fmt::Display for Composition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.words.join(","))
    }
}

impl FromStr for Composition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |reason| Error::BadComposition(text.to_owned(), reason);
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let (base, adaptors) = words.split_last().expect("a part, be it empty");
        let base = Base::read(base).map_err(bad)?;
        let adaptors: Reason<_> = adaptors.iter().copied().map(Adaptor::read).collect();
        Ok(Self {
            adaptors: adaptors.map_err(bad)?,
            base,
            words: words.into_iter().map(str::to_owned).collect(),
        })
    }
}

/// Why a word means nothing.
type Reason<T> = std::result::Result<T, String>;

/// A word, and what it is said to be.
fn parts(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (word, None),
    }
}

fn bytes(name: &str, text: &str) -> Reason<u64> {
    let size: std::result::Result<Bytes, _> = text.parse();
    size.map(|size| size.0)
        .map_err(|_| format!("`{text}` of `{name}` is no size such as 8GiB"))
}

impl Adaptor {
    fn read(word: &str) -> Reason<Self> {
        match parts(word) {
            ("statistics", None) => Ok(Self::Statistics),
            ("tracking", None) => Ok(Self::Tracking {
                takes_backtraces: false,
            }),
            ("tracking", Some("backtraces")) => Ok(Self::Tracking {
                takes_backtraces: true,
            }),
            ("limit", Some(text)) => Ok(Self::Limit(bytes("limit", text)?)),
            ("trace", Some(file)) if !file.is_empty() => Ok(Self::Trace(file.into())),
            ("caching", None) => Ok(Self::Caching),
            ("segments", None) => Ok(Self::Segments),
            _ => Err(format!(
                "`{word}` is none of the adaptors statistics, tracking, tracking=backtraces, limit=SIZE, trace=FILE, caching and segments"
            )),
        }
    }
}

impl Base {
    fn read(word: &str) -> Reason<Self> {
        match parts(word) {
            ("default", None) => Ok(Self::Default),
            ("remapping", None) => Ok(Self::Remapping),
            ("caching", None) => Ok(Self::Caching),
            ("segments", None) => Ok(Self::Segments),
            ("device", None) => Ok(Self::Device),
            ("slab", None) => Ok(Self::Slab),
            ("buddy", Some(text)) => Ok(Self::Buddy(bytes("buddy", text)?)),
            ("arena", Some(text)) => Ok(Self::Arena(bytes("arena", text)?)),
            ("pool", Some(text)) => {
                let (size, count) = text.split_once('x').unwrap_or((text, ""));
                Ok(Self::Pool {
                    block_bytes: bytes("pool", size)?,
                    count: count
                        .trim()
                        .parse()
                        .map_err(|_| format!("`{text}` is no SIZExCOUNT such as 4KiBx1000"))?,
                })
            }
            _ => Err(format!(
                "`{word}` at its end is none of the resources default, caching, segments, remapping, device, slab, buddy=SIZE, pool=SIZExCOUNT and arena=SIZE"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_in_order() {
        let text = "statistics, tracking,limit=2MiB,pool=4KiBx10";
        let composition: Composition = text.parse().expect("good words");
        let adaptors = [
            Adaptor::Statistics,
            Adaptor::Tracking {
                takes_backtraces: false,
            },
            Adaptor::Limit(2 << 20),
        ];
        assert_eq!(composition.adaptors, adaptors);
        let pool = Base::Pool {
            block_bytes: 4096,
            count: 10,
        };
        assert_eq!(composition.base, pool);
        assert_eq!(composition.to_string(), text.replace(' ', ""));
        let traced = composition.traced_to("log.csv".into());
        assert_eq!(traced.adaptors[0], Adaptor::Trace("log.csv".into()));
        assert_eq!(traced.to_string().parse().ok(), Some(traced));
    }

    #[test]
    fn each_device_has_trace_files_of_its_own() {
        let text = "trace=a.csv,statistics,trace = b.csv,caching";
        let composition: Composition = text.parse().expect("good words");
        assert_eq!(composition.clone().of_device(0), composition);
        let third = composition.of_device(3);
        assert_eq!(third.adaptors[2], Adaptor::Trace("b.csv.3".into()));
        let text = "trace=a.csv.3,statistics,trace=b.csv.3,caching";
        assert_eq!(third.to_string(), text);
        assert_eq!(text.parse().ok(), Some(third));
    }

    #[test]
    fn all_devices_trace_to_what_is_no_file() {
        let text = "trace=/dev/null,statistics,trace=b.csv,caching";
        let composition: Composition = text.parse().expect("good words");
        let second = composition.of_device(1).to_string();
        assert_eq!(second, text.replace("b.csv", "b.csv.1"));
    }

    #[test]
    fn what_means_nothing_is_named() {
        for (text, named) in [
            ("", "``"),
            ("caching,", "``"),
            ("cashing", "`cashing`"),
            ("caching,statistics", "`statistics`"),
            ("limit,caching", "`limit`"),
            ("limit=much,caching", "`much`"),
            ("buddy", "`buddy`"),
            ("pool=4096", "`4096`"),
            ("pool=4KiBxmany", "`4KiBxmany`"),
            ("trace=,caching", "`trace=`"),
        ] {
            let error = Composition::from_str(text).expect_err(text).to_string();
            assert!(error.contains(named), "{error}");
            assert!(error.contains("limit=8GiB"), "{error}");
        }
    }
}
