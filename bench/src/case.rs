//! The tests, and the lines that they consist of.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A test; its name is the first column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Every thread allocates, then frees, one block of the same size.
    Uniform,
    /// The same with sizes of a range.
    Mixed,
    /// `Uniform` on a heap that is 70 % full after 10^7 random operations.
    UniformAged,
    /// `Mixed` on such a heap.
    MixedAged,
    /// `Mixed`, each time after a launch that churns in the same heap.
    MixedChurned,
    /// `Uniform` with as many threads whatever the size, up to 64 KiB.
    Sizes,
    /// The same on a heap as for `UniformAged`.
    SizesAged,
    /// `Uniform` with 1 to 2^22 threads.
    Scale,
    /// One lane of every warp allocates.
    Warp,
    /// Every thread allocates, writes, reads and frees, 64 times.
    Churn,
    /// How long single calls take: every thread allocates 16 blocks, then frees them.
    Latency,
    /// A few large blocks.
    Large,
    /// A heap of 1 GiB filled until NULL.
    Oom,
    /// The same with sizes of a range.
    Oommix,
    /// Address range over bytes asked for.
    Frag,
    /// Making the heap; `most` is the bytes of the heap.
    Init,
    /// Every thread makes an output of its own length.
    Workgen,
    /// Reading what was allocated.
    Access,
    /// Edges inserted into and deleted from a graph.
    Graph,
    /// Every thread grows a block from 16 bytes to 64 KiB by doubling.
    AllocHeavy,
    /// Registers and stack of malloc and free.
    Resources,
}

/// One line of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// The test.
    pub test: Test,
    /// Least bytes asked for.
    pub least: u64,
    /// Most bytes asked for; the column `size`.
    pub most: u64,
    /// Threads, or warps; the column `n`.
    pub n: u32,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::Uniform,
        Self::Mixed,
        Self::Sizes,
        Self::Scale,
        Self::Warp,
        Self::Churn,
        Self::Latency,
        Self::Large,
        Self::UniformAged,
        Self::MixedAged,
        Self::SizesAged,
        Self::MixedChurned,
        Self::Oom,
        Self::Oommix,
        Self::Frag,
        Self::Init,
        Self::Resources,
        Self::Workgen,
        Self::Access,
        Self::Graph,
        Self::AllocHeavy,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Mixed => "mixed",
            Self::UniformAged => "uniform_aged",
            Self::MixedAged => "mixed_aged",
            Self::MixedChurned => "mixed_churned",
            Self::Sizes => "sizes",
            Self::SizesAged => "sizes_aged",
            Self::Scale => "scale",
            Self::Warp => "warp",
            Self::Churn => "churn",
            Self::Latency => "latency",
            Self::Large => "large",
            Self::Oom => "oom",
            Self::Oommix => "oommix",
            Self::Frag => "frag",
            Self::Init => "init",
            Self::Workgen => "workgen",
            Self::Access => "access",
            Self::Graph => "graph",
            Self::AllocHeavy => "alloc_heavy",
            Self::Resources => "resources",
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Test {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let wanted = name.replace('-', "_");
        let found = Self::ALL.into_iter().find(|test| test.name() == wanted);
        found.ok_or_else(|| Error::NoSuchTest {
            asked: name.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

impl Case {
    /// Whether another case is the same but for its size, which is half or twice as many bytes.
    #[must_use]
    pub fn is_neighbour(&self, other: &Self) -> bool {
        let is_same = (self.test, self.n) == (other.test, other.n);
        is_same && (self.most == other.most * 2 || other.most == self.most * 2)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            test,
            least,
            most,
            n,
        } = self;
        write!(formatter, "{test}")?;
        if least != most {
            write!(formatter, " {least}..{most} B")?;
        } else if *most != 0 {
            write!(formatter, " {most} B")?;
        }
        if *n != 0 {
            write!(formatter, ", n = {n}")?;
        }
        Ok(())
    }
}
