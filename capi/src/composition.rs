//! What a resource is made of, as text: adaptors from the outermost on, and a resource at the end.

use crate::error::{Error, Result};
use scatterheap_host::size::Bytes;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Adaptors and a resource, such as `statistics,limit=8GiB,caching`. The header of the C interface has the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composition {
    /// From the outermost on.
    pub(crate) adaptors: Vec<Adaptor>,
    pub(crate) base: Base,
    text: String,
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
        self.text = format!("trace={},{}", file.display(), self.text);
        self.adaptors.insert(0, Adaptor::Trace(file));
        self
    }
}

impl fmt::Display for Composition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for Composition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |reason| Error::BadComposition(text.to_owned(), reason);
        let mut words: Vec<&str> = text.split(',').map(str::trim).collect();
        let base = Base::read(words.pop().unwrap_or_default()).map_err(bad)?;
        let adaptors: std::result::Result<_, _> = words.into_iter().map(Adaptor::read).collect();
        Ok(Self {
            adaptors: adaptors.map_err(bad)?,
            base,
            text: text.to_owned(),
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
        assert_eq!(composition.to_string(), text);
        let traced = composition.traced_to("log.csv".into());
        assert_eq!(traced.adaptors[0], Adaptor::Trace("log.csv".into()));
        assert_eq!(traced.to_string().parse().ok(), Some(traced));
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
