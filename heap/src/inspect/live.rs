//! The blocks that are handed out.

use super::Snapshot;
use super::region::Region;
use crate::slab::Slab;
use core::ops::Range;
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
        self.regions().flat_map(|region| self.live_at(region))
    }

    /// Those that are told of at a region: between the pages of a punched slab others lie, so each of them has its own.
    fn live_at(&self, region: Region) -> impl Iterator<Item = LiveBlock> + '_ {
        let (whole, words) = match region {
            Region::Kept { page, slab } => (Region::Punched(slab), self.words_of(page, slab)),
            _ => (region, 0..u32::MAX),
        };
        self.live_in(whole, words)
            .filter(move |block| self.page_of_block(whole, block.address) == region.page())
    }

    /// How many blocks are told of at a page of a punched slab. (In a damaged heap a run may seem to lie over another of its pages, and what lies there is told of nowhere.)
    pub(super) fn used_at_page(&self, region: Region) -> u64 {
        match region {
            // Of a glimpse, which has no bitmaps, all at the first.
            Region::Punched(_) if self.uses.is_some() => self.used_blocks(region).into(),
            Region::Kept { .. } if self.uses.is_some() => 0,
            _ => self.live_at(region).count() as u64,
        }
    }

    /// Words of a slab's bitmap, counted from its first, with the slots that lie in a page.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a slab has fewer words than 2^32"
    )]
    fn words_of(&self, page: u32, slab: Slab) -> Range<u32> {
        let bytes = self.block_bytes(Region::Punched(slab));
        let begin = u64::from(page - slab.page()) << self.layout.page_shift;
        let end = begin + self.layout.page_bytes();
        (begin / bytes / 32) as u32..end.div_ceil(bytes).div_ceil(32) as u32
    }

    /// The page at which a block of a region is told of: where it begins, of a punched slab, and of others the first. (In a damaged heap a punched slab may lack the page of a block.)
    fn page_of_block(&self, region: Region, address: u64) -> u32 {
        let first = region.page();
        let Region::Punched(slab) = region else {
            return first;
        };
        let offset = (address - self.page_address(first)) >> self.layout.page_shift;
        let page = first + u32::try_from(offset).unwrap_or(0);
        let has_page = page < first + slab.pages() && self.entry(page) == self.entry(first);
        if has_page { page } else { first }
    }

    /// The blocks of a region, of a punched slab all, as some words of its bitmap tell of them, counted from the first.
    pub(super) fn live_in(
        &self,
        region: Region,
        words: Range<u32>,
    ) -> impl Iterator<Item = LiveBlock> + '_ {
        let class = region.slab().map(Slab::class);
        let (start, bytes) = (self.page_address(region.page()), self.block_bytes(region));
        let first = u64::from(words.start);
        (first..)
            .zip(self.block_words_in(region, words))
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
