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
    /// `Uniform`, each time in a new heap.
    UniformNew,
    /// `Mixed` in such a heap.
    MixedNew,
    /// `Uniform` with as many threads whatever the size, up to 64 KiB.
    Sizes,
    /// The same on a heap as for `UniformAged`.
    SizesAged,
    /// `Uniform` with 1 to 2^22 threads.
    Scale,
    /// `Mixed` with 2^10 to 2^18 threads.
    MixedScale,
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

/// One line of a test. [`run`](crate::run) refuses a case that the test's kernels cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// The test.
    pub test: Test,
    /// Least bytes asked for: 16, but for outputs, which may have 4.
    pub least: u64,
    /// Most bytes asked for, less than 4 GiB but for a heap; the column `size`.
    pub most: u64,
    /// Threads, or warps; the column `n`.
    pub n: u32,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::Uniform,
        Self::Mixed,
        Self::Sizes,
        Self::Scale,
        Self::MixedScale,
        Self::Warp,
        Self::Churn,
        Self::Latency,
        Self::Large,
        Self::UniformAged,
        Self::MixedAged,
        Self::SizesAged,
        Self::MixedChurned,
        Self::UniformNew,
        Self::MixedNew,
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
            Self::UniformNew => "uniform_new",
            Self::MixedNew => "mixed_new",
            Self::Sizes => "sizes",
            Self::SizesAged => "sizes_aged",
            Self::Scale => "scale",
            Self::MixedScale => "mixed_scale",
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

    /// Refuses what the test's kernels cannot do: they rely on sizes that were looked at here.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.advice().map_or(Ok(()), |advice| {
            Err(Error::BadCase {
                case: *self,
                advice,
            })
        })
    }

    /// Whether the least size is one of whole pieces of 16 bytes that becomes the most by doubling.
    const fn doubles(&self) -> bool {
        let Self { least, most, .. } = *self;
        least > 0
            && least.is_multiple_of(16)
            && most.is_multiple_of(least)
            && (most / least).is_power_of_two()
    }

    /// What is to be changed about a case that the test's kernels cannot do.
    fn advice(&self) -> Option<&'static str> {
        let Self {
            test,
            least,
            most,
            n,
        } = *self;
        if test == Test::Init {
            return None;
        }
        // Kernels and plug-ins take sizes of 4 bytes.
        if most > u32::MAX.into() {
            return Some("let no block have 4 GiB or more");
        }
        if least > most {
            return Some("let the least size be no larger than the most");
        }
        match test {
            // The graph and the kernels are what they are.
            Test::Graph | Test::Resources => None,
            _ if n == 0 => Some("let one thread work at least"),
            Test::Workgen if least < 4 => Some("let all outputs have 4 bytes at least"),
            Test::Workgen => None,
            // Kernels link blocks, mark their ends, and read them by pieces.
            _ if least < 16 => Some("let all blocks have 16 bytes at least"),
            Test::Access if least != most => Some("let all blocks have the same size"),
            Test::AllocHeavy if !self.doubles() => {
                Some("let the least size be a multiple of 16 that becomes the most by doubling")
            }
            _ => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a case.
    fn refusal(test: Test, least: u64, most: u64, n: u32) -> Option<String> {
        let case = Case {
            test,
            least,
            most,
            n,
        };
        case.check().err().map(|error| error.to_string())
    }

    /// All tests that ask for blocks of the sizes of their cases.
    fn with_sizes() -> impl Iterator<Item = Test> {
        let others = [Test::Init, Test::Graph, Test::Resources];
        Test::ALL
            .into_iter()
            .filter(move |test| !others.contains(test))
    }

    #[test]
    fn sizes_that_kernels_cannot_do_are_refused() {
        let too_large = u64::from(u32::MAX) + 1;
        for test in with_sizes() {
            assert_eq!(refusal(test, 16, 16, 1), None, "{test}");
            for (least, most, n) in [(3, 16, 1), (0, 0, 1), (32, 16, 1), (16, 16, 0)] {
                assert!(refusal(test, least, most, n).is_some(), "{test}");
            }
            let is_smallest = |least| refusal(test, least, 16, 1).is_none();
            let smallest = if test == Test::Workgen { 4 } else { 16 };
            assert_eq!((0..=16).find(|least| is_smallest(*least)), Some(smallest));
            assert!(refusal(test, too_large, too_large, 1).is_some(), "{test}");
        }
        for test in [Test::Graph, Test::Resources] {
            assert_eq!(refusal(test, 0, 0, 0), None);
            assert!(refusal(test, 0, too_large, 0).is_some(), "{test}");
        }
        assert_eq!(refusal(Test::Init, 1 << 40, 1 << 40, 0), None);
        let most = u32::MAX.into();
        assert_eq!(refusal(Test::Uniform, most, most, 1), None);
    }

    #[test]
    fn blocks_that_are_shared_have_one_size() {
        assert_eq!(refusal(Test::Access, 24, 24, 1), None);
        assert_eq!(
            refusal(Test::Access, 16, 4096, 1).as_deref(),
            Some(
                "`access 16..4096 B, n = 1` cannot be measured: let all blocks have the same size"
            )
        );
    }

    #[test]
    fn blocks_grow_by_doubling_and_are_marked_at_words() {
        for (least, most) in [(16, 16), (16, 64 << 10), (48, 192)] {
            assert_eq!(refusal(Test::AllocHeavy, least, most, 1), None);
        }
        for (least, most) in [(1, 64), (17, 34), (24, 48), (16, 48), (16, 100)] {
            let refused = refusal(Test::AllocHeavy, least, most, 1).expect("it cannot be done");
            assert_eq!(refused.lines().count(), 1, "{refused}");
        }
    }
}
