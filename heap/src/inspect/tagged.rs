//! Live blocks by the site that asked for them, as the headers of framed blocks tell.

use super::{LiveBlock, Snapshot};
use crate::hardened::{Hardening, Header};
use core::fmt;
use serde::Serialize;
use std::collections::BTreeMap;

/// Live blocks of a site and size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SiteLeak {
    /// The site, as `malloc_tagged` was told; 0 of other calls.
    pub site: u32,
    /// Their size class; none for runs of pages.
    pub class: Option<u32>,
    /// How many there are.
    pub blocks: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// The lowest of their addresses, as the program knows it.
    pub example: u64,
}

/// Live blocks by site. Its `Display` has a line for each site and size class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeakReport {
    /// In the order of the sites, and of the classes of each.
    pub sites: Vec<SiteLeak>,
    /// Blocks whose headers were written over.
    pub damaged: u64,
}

impl LeakReport {
    /// Whether no block is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty() && self.damaged == 0
    }
}

impl fmt::Display for LeakReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return formatter.write_str("no live block");
        }
        let mut separator = "";
        for leak in &self.sites {
            let SiteLeak {
                site,
                blocks,
                bytes,
                example,
                ..
            } = leak;
            let plural = if *blocks == 1 { "block" } else { "blocks" };
            write!(
                formatter,
                "{separator}site {site}: {blocks} {plural} of {bytes} bytes in all, such as {example:#x}"
            )?;
            separator = "\n";
        }
        if self.damaged > 0 {
            let damaged = self.damaged;
            write!(
                formatter,
                "{separator}{damaged} blocks with a damaged header"
            )?;
        }
        Ok(())
    }
}

/// A block's header, as it was read from the user's memory.
#[derive(Clone, Copy, Debug)]
pub struct FoundHeader {
    /// The block.
    pub block: LiveBlock,
    /// What stands where its header is.
    pub header: Header,
}

impl Snapshot {
    /// Modes of the heap.
    #[must_use]
    pub fn hardening(&self) -> Hardening {
        Hardening::of_flags(self.flags)
    }

    /// The live blocks by site, of the headers found at the beginnings of all [`live`](Self::live)
    /// blocks of a framed heap. Blocks in the quarantine are not live.
    pub fn leak_report(&self, found: impl IntoIterator<Item = FoundHeader>) -> LeakReport {
        let mut report = LeakReport::default();
        let mut sites = BTreeMap::new();
        for FoundHeader { block, header } in found {
            if header.is_freed(block.address, self.generation()) {
                continue;
            }
            if !header.is_live(block.address, self.generation()) {
                report.damaged += 1;
                continue;
            }
            let leak = sites
                .entry((header.site(), block.class))
                .or_insert(SiteLeak {
                    site: header.site(),
                    class: block.class,
                    blocks: 0,
                    bytes: 0,
                    example: block.address + header.distance(),
                });
            leak.blocks += 1;
            leak.bytes += header.bytes();
        }
        report.sites = sites.into_values().collect();
        report
    }
}
