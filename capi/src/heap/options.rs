//! How a heap is to be, as text: its size, and what else there is to say.

use crate::error::{Error, Result};
use scatterheap_host::size::Bytes;
use scatterheap_host::{Device, Growth, Hardening, Heap};
use std::str::FromStr;

/// What a text such as `1GiB,max=16GiB,growth=live` says. The header of the C interface has the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    capacity: u64,
    most: Option<u64>,
    growth: Option<Growth>,
    hardening: Hardening,
    stripes: Option<u32>,
    counts_bytes: bool,
}

impl Options {
    /// Makes the heap.
    ///
    /// # Errors
    ///
    /// If it cannot be so, or there is not enough memory.
    pub fn build(&self, device: &Device) -> scatterheap_host::Result<Heap> {
        let mut builder = Heap::builder(device)
            .capacity(self.capacity)
            .harden(self.hardening)
            .count_bytes(self.counts_bytes);
        if let Some(most) = self.most {
            builder = builder.max_capacity(most);
        }
        if let Some(growth) = self.growth {
            builder = builder.growth(growth);
        }
        if let Some(stripes) = self.stripes {
            builder = builder.stripes(stripes);
        }
        builder.build()
    }

    /// Takes a word after the size into account.
    fn read(&mut self, word: &str) -> std::result::Result<(), String> {
        match word.split_once('=').unwrap_or((word, "")) {
            ("max", size) => self.most = Some(bytes(size)?),
            ("growth", when) => self.growth = Some(when.parse()?),
            ("harden", modes) => {
                let modes = modes.replace('+', ",").parse();
                self.hardening = modes.map_err(|error| format!("`{word}`: {error}"))?;
            }
            ("stripes", count) => {
                let count = count.parse();
                self.stripes = Some(count.map_err(|_| format!("`{word}` says no number"))?);
            }
            ("count-bytes", "") => self.counts_bytes = true,
            _ => {
                return Err(format!(
                    "`{word}` is none of max=SIZE, growth=WHEN, harden=MODES, stripes=N and count-bytes"
                ));
            }
        }
        Ok(())
    }
}

fn bytes(text: &str) -> std::result::Result<u64, String> {
    let size: Bytes = text
        .parse()
        .map_err(|_| format!("`{text}` is no size such as 1GiB"))?;
    Ok(size.0)
}

impl FromStr for Options {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |reason| Error::BadHeap(text.to_owned(), reason);
        let mut words = text.split(',').map(str::trim);
        let mut options = Self {
            capacity: bytes(words.next().unwrap_or_default()).map_err(bad)?,
            most: None,
            growth: None,
            hardening: Hardening::NONE,
            stripes: None,
            counts_bytes: false,
        };
        for word in words {
            options.read(word).map_err(bad)?;
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let text = "1GiB, max=4GiB,growth=live,harden=red-zones+tags,stripes=8,count-bytes";
        let options: Options = text.parse().expect("good words");
        let expected = Options {
            capacity: 1 << 30,
            most: Some(4 << 30),
            growth: Some(Growth::Live),
            hardening: Hardening::RED_ZONES | Hardening::TAGS,
            stripes: Some(8),
            counts_bytes: true,
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn what_means_nothing_is_named() {
        for (text, named) in [
            ("", "``"),
            ("much", "`much`"),
            ("1GiB,min=3", "`min=3`"),
            ("1GiB,max=x", "`x`"),
            ("1GiB,growth=fast", "`fast`"),
            ("1GiB,harden=steel", "`harden=steel`"),
            ("1GiB,stripes=-1", "`stripes=-1`"),
            ("1GiB,count-bytes=2", "`count-bytes=2`"),
        ] {
            let error = text.parse::<Options>().expect_err(text).to_string();
            assert!(error.contains(named), "{error}");
            assert!(
                error.contains(&format!("`{text}` is how no heap")),
                "{error}"
            );
        }
    }
}
