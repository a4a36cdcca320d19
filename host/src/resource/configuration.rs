//! What the default resource is made of, as variables of the environment or the program say.
//!
//! A [`Setting`] has a name, which is also that of its variable: `limit` is `SCATTERHEAP_RESOURCE_LIMIT`.
//! Variables with that prefix that name no setting are errors, so that a misspelt one is not
//! silently without effect.

use super::{
    BySize, Caching, DeviceMemory, DriverPool, Error, Limiting, MAX_BYTES, MemoryResource,
    Remapping, RemappingBuilder, Result, Segments,
};
use crate::device::Device;
use crate::size::Bytes;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::Arc;

/// What all variables begin with.
const PREFIX: &str = "SCATTERHEAP_RESOURCE_";

/// Blocks of at most so many bytes lie apart from larger ones.
const MOST_SMALL: u64 = 128 << 10;
/// Bytes of their segments, which are aligned to as many.
const SMALL_SEGMENT: u64 = 2 << 20;

/// The resource of a [`Configuration`]: a cache of whatever was chosen.
pub type Configured = Caching<Box<dyn MemoryResource>>;

/// Where a cache gets its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upstream {
    /// A [`Remapping`] of the device's memory, with small blocks apart ([`BySize`]).
    #[default]
    Remapping,
    /// [`Segments`] of the device's memory.
    Segments,
    /// The [driver's pool](DriverPool).
    DriverPool,
    /// [`DeviceMemory`] itself, for each block.
    Device,
}

impl Upstream {
    /// All there are.
    pub const ALL: [Self; 4] = [
        Self::Remapping,
        Self::Segments,
        Self::DriverPool,
        Self::Device,
    ];

    /// Its name in the environment.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Remapping => "remapping",
            Self::Segments => "segments",
            Self::DriverPool => "driver_pool",
            Self::Device => "device",
        }
    }
}

/// Something that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Upstream,
    Limit,
    Segment,
    Largest,
    PerThread,
}

impl Setting {
    const ALL: [Self; 5] = [
        Self::Upstream,
        Self::Limit,
        Self::Segment,
        Self::Largest,
        Self::PerThread,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Limit => "limit",
            Self::Segment => "segment",
            Self::Largest => "largest",
            Self::PerThread => "per_thread",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|setting| setting.name().eq_ignore_ascii_case(name))
    }
}

/// Settings of the default resource. See `docs/resources.md` for the variables.
///
/// ```
/// use scatterheap_host::Device;
/// use scatterheap_host::resource::Configuration;
///
/// let mut configuration = Configuration::from_environment()?;
/// configuration.set("limit", "1GiB")?;
/// let memory = configuration.build(&Device::cpu())?;
/// # Ok::<(), scatterheap_host::resource::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    upstream: Upstream,
    limit: Option<u64>,
    segment: Option<u64>,
    largest: Option<u64>,
    per_thread: Option<u64>,
}

impl Configuration {
    /// What the `SCATTERHEAP_RESOURCE_*` variables say; the usual for what they do not say.
    ///
    /// # Errors
    ///
    /// If a variable names no setting, or its value makes no sense.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(std::env::vars_os())
    }

    /// What such variables say; others are passed over.
    ///
    /// # Errors
    ///
    /// As for [`from_environment`](Self::from_environment).
    pub fn from_variables(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self> {
        let mut configuration = Self::default();
        for (variable, value) in variables {
            let Some(name) = variable.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
                continue;
            };
            let label = format!("{PREFIX}{name}");
            let setting = Setting::named(name).ok_or_else(|| unknown(&label, PREFIX))?;
            configuration.change(setting, &label, &value)?;
        }
        Ok(configuration)
    }

    /// Sets one by its name, which is that of its variable without the prefix, in either case:
    /// `limit`, `upstream`, ….
    ///
    /// # Errors
    ///
    /// If there is no such setting, or the value makes no sense.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let setting = Setting::named(name).ok_or_else(|| unknown(name, ""))?;
        self.change(setting, name, OsStr::new(value))
    }

    fn change(&mut self, setting: Setting, label: &str, value: &OsStr) -> Result<()> {
        let text = value.to_str().unwrap_or("what is no text");
        match setting {
            Setting::Upstream => self.upstream = upstream(label, text)?,
            Setting::Limit => self.limit = Some(bytes(label, text, 1)?),
            Setting::Segment => self.segment = Some(bytes(label, text, 1)?),
            Setting::Largest => self.largest = Some(bytes(label, text, 1)?),
            Setting::PerThread => self.per_thread = Some(bytes(label, text, 0)?),
        }
        Ok(())
    }

    /// The resource.
    ///
    /// # Errors
    ///
    /// If the device has not what it needs.
    pub fn build(&self, device: &Device) -> Result<Configured> {
        let mut builder = Caching::builder(self.build_upstream(device)?);
        if let Some(largest) = self.largest {
            builder = builder.largest(largest);
        }
        if let Some(per_thread) = self.per_thread {
            builder = builder.bytes_per_thread(per_thread);
        }
        builder.build()
    }

    fn build_upstream(&self, device: &Device) -> Result<Box<dyn MemoryResource>> {
        let limited = || {
            let limit = self.limit.unwrap_or(u64::MAX);
            Limiting::new(DeviceMemory::new(device), limit)
        };
        Ok(match self.upstream {
            Upstream::Remapping => {
                let builder = Remapping::builder(device);
                let builder = self.limit.into_iter().fold(builder, RemappingBuilder::most);
                let large = Arc::new(builder.build()?);
                let segment = self.segment.unwrap_or(SMALL_SEGMENT);
                let small = Segments::with_segments_of(large.clone(), segment);
                Box::new(BySize::new(MOST_SMALL, small, large)?)
            }
            Upstream::Segments => match self.segment {
                None => Box::new(Segments::new(limited())),
                Some(bytes) => Box::new(Segments::with_segments_of(limited(), bytes)),
            },
            Upstream::DriverPool => {
                let pool = DriverPool::new(device)?;
                // As the cache does not wait for the device, the driver must not either.
                pool.set_release_threshold(u64::MAX)?;
                Box::new(Limiting::new(pool, self.limit.unwrap_or(u64::MAX)))
            }
            Upstream::Device => Box::new(limited()),
        })
    }
}

impl Configured {
    /// The usual one, whatever the environment says. Where addresses and memory cannot be had apart it
    /// is one of [`Segments`].
    #[must_use]
    pub fn of(device: &Device) -> Self {
        let usual = Configuration::default().build(device);
        usual.unwrap_or_else(|_| Self::new(Box::new(Segments::new(DeviceMemory::new(device)))))
    }
}

fn bad_setting(label: &str, value: &str, advice: &str) -> Error {
    Error::BadSetting {
        setting: label.to_owned(),
        value: value.to_owned(),
        advice: advice.to_owned(),
    }
}

fn unknown(label: &str, prefix: &str) -> Error {
    let names = Setting::ALL.map(|setting| {
        if prefix.is_empty() {
            setting.name().to_owned()
        } else {
            format!("{prefix}{}", setting.name().to_ascii_uppercase())
        }
    });
    Error::UnknownSetting {
        setting: label.to_owned(),
        known: names.join(", "),
    }
}

fn upstream(label: &str, value: &str) -> Result<Upstream> {
    let names = || Upstream::ALL.map(Upstream::name).join("`, `");
    Upstream::ALL
        .into_iter()
        .find(|upstream| upstream.name() == value)
        .ok_or_else(|| bad_setting(label, value, &format!("use one of `{}`", names())))
}

fn bytes(label: &str, value: &str, least: u64) -> Result<u64> {
    let advice = if least == 0 {
        "use a size such as `0`, `64MiB` or `8GiB`, at most 128 TiB"
    } else {
        "use a size such as `64MiB` or `8GiB`, at least one byte and at most 128 TiB"
    };
    let parsed = value.parse::<Bytes>().ok().map(|Bytes(bytes)| bytes);
    parsed
        .filter(|bytes| (least..=MAX_BYTES).contains(bytes))
        .ok_or_else(|| bad_setting(label, value, advice))
}

impl fmt::Display for Upstream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Configuration> {
        let owned = variables
            .iter()
            .map(|(name, value)| (OsString::from(*name), OsString::from(*value)));
        Configuration::from_variables(owned)
    }

    #[test]
    fn variables_are_read_and_others_passed_over() {
        let read = read(&[
            ("PATH", "/bin"),
            ("SCATTERHEAP_KERNEL_RUSTC", "rustc"),
            ("SCATTERHEAP_RESOURCE_UPSTREAM", "device"),
            ("SCATTERHEAP_RESOURCE_LIMIT", "2 GiB"),
            ("SCATTERHEAP_RESOURCE_PER_THREAD", "0"),
        ]);
        let expected = Configuration {
            upstream: Upstream::Device,
            limit: Some(2 << 30),
            per_thread: Some(0),
            ..Configuration::default()
        };
        assert_eq!(read.expect("good values"), expected);
    }

    #[test]
    fn bad_values_are_one_clear_line() {
        for (name, value, part) in [
            ("LIMIT", "much", "at least one byte"),
            ("LIMIT", "0", "at least one byte"),
            ("SEGMENT", "200TiB", "at most 128 TiB"),
            ("PER_THREAD", "-1", "such as `0`"),
            ("UPSTREAM", "cuda", "`driver_pool`, `device`"),
            ("LIMT", "1GiB", "SCATTERHEAP_RESOURCE_LIMIT"),
        ] {
            let variable = format!("{PREFIX}{name}");
            let line = read(&[(&variable, value)])
                .expect_err("makes no sense")
                .to_string();
            assert!(line.contains(&variable) && line.contains(part), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
        let mut configuration = Configuration::default();
        let line = configuration.set("limt", "1GiB").expect_err("misspelt");
        assert!(
            line.to_string().contains("upstream, limit, segment"),
            "{line}"
        );
        assert_eq!(configuration, Configuration::default());
    }
}
