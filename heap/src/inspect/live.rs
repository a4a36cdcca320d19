//! The blocks that are handed out.

use super::Snapshot;
use super::region::Region;
use serde::Serialize;
use std::collections::BTreeMap;

/// A block that is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LiveBlock {
    /// Its address on the device.
    pub address: u64,
    /// Bytes that it has, at least as many as were asked for.
    pub bytes: u64,
    /// Its size class; none for a run of pages.
    pub class: Option<u32>,
}

/// Blocks of one kind that are handed out and, where the program should have freed everything,
/// were forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Leak {
    /// Their size class; none for runs of pages.
    pub class: Option<u32>,
    /// How many there are.
    pub blocks: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The lowest of their addresses.
    pub first_address: u64,
}

impl Snapshot {
    /// The blocks that are handed out, in the order of their addresses.
    pub fn live(&self) -> impl Iterator<Item = LiveBlock> + '_ {
        self.regions().flat_map(|region| self.live_in(region))
    }

    fn live_in(&self, region: Region) -> impl Iterator<Item = LiveBlock> + '_ {
        let class = match region {
            Region::Slab(slab) => Some(slab.class()),
            _ => None,
        };
        let (start, bytes) = (self.page_address(region.page()), self.block_bytes(region));
        (0_u64..)
            .zip(self.block_words(region))
            .flat_map(move |(index, word)| {
                set_bits(word).map(move |bit| LiveBlock {
                    address: start + (32 * index + u64::from(bit)) * bytes,
                    bytes,
                    class,
                })
            })
    }

    /// Whether no block is handed out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live().next().is_none()
    }

    /// The live blocks by size class, runs first: empty where the program freed everything.
    #[must_use]
    pub fn leaks(&self) -> Vec<Leak> {
        let mut leaks = BTreeMap::new();
        for block in self.live() {
            let leak = leaks.entry(block.class).or_insert(Leak {
                class: block.class,
                blocks: 0,
                bytes: 0,
                first_address: block.address,
            });
            leak.blocks += 1;
            leak.bytes += block.bytes;
        }
        leaks.into_values().collect()
    }
}

/// Numbers of the set bits, ascending.
fn set_bits(word: u32) -> impl Iterator<Item = u32> {
    let mut rest = word;
    core::iter::from_fn(move || {
        (rest != 0).then(|| {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            bit
        })
    })
}
