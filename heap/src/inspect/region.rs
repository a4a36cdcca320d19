//! The heap's pages as a sequence of slabs, runs and other pages, told from their entries alone.

use super::Snapshot;
use crate::class;
use crate::entry::{Entry, Kind};
use crate::slab::{INSTALLED, PUNCHED, Slab};
use core::ops::Range;

/// Pages that belong together.
#[derive(Clone, Copy)]
pub(super) enum Region {
    /// A slab with a well-formed entry on its first page.
    Slab(Slab),
    /// The first page of a slab that is punched. What lies between its pages are regions of their own.
    Punched(Slab),
    /// Another page of a slab that is punched.
    Kept {
        /// The page.
        page: u32,
        /// The slab.
        slab: Slab,
    },
    /// A run with a well-formed entry, inside the heap.
    Run {
        /// First page.
        page: u32,
        /// Number of pages.
        pages: u32,
    },
    /// One page at which neither begins, and which lies in none that began before: free, if all
    /// is well.
    Other {
        /// The page.
        page: u32,
    },
}

impl Region {
    /// First page.
    pub fn page(self) -> u32 {
        match self {
            Self::Slab(slab) | Self::Punched(slab) => slab.page(),
            Self::Kept { page, .. } | Self::Run { page, .. } | Self::Other { page } => page,
        }
    }

    /// Number of pages.
    pub fn pages(self) -> u32 {
        match self {
            Self::Slab(slab) => slab.pages(),
            Self::Run { pages, .. } => pages,
            Self::Punched(_) | Self::Kept { .. } | Self::Other { .. } => 1,
        }
    }

    /// The slab whose first page is the region's.
    pub fn slab(self) -> Option<Slab> {
        match self {
            Self::Slab(slab) | Self::Punched(slab) => Some(slab),
            _ => None,
        }
    }
}

impl Snapshot {
    /// All pages that the heap has so far, once and in order.
    pub(super) fn regions(&self) -> impl Iterator<Item = Region> + '_ {
        // Punched slabs that the next page lies in: in a hole of one another may lie.
        let (mut next, mut punched) = (0, Vec::new());
        core::iter::from_fn(move || {
            (next < self.page_count()).then(|| {
                punched.retain(|slab: &Slab| next < slab.page() + slab.pages());
                let region = self.region_at(next, &punched);
                if let Region::Punched(slab) = region {
                    punched.push(slab);
                }
                next += region.pages();
                region
            })
        })
    }

    /// The region that begins at a page, which lies in slabs that are punched.
    fn region_at(&self, page: u32, punched: &[Slab]) -> Region {
        if let Some(slab) = self.slab_at(page) {
            return if self.usage(page) & PUNCHED == 0 {
                Region::Slab(slab)
            } else {
                Region::Punched(slab)
            };
        }
        let has_page = |slab: &&Slab| self.entry(page) == self.entry(slab.page());
        if let Some(slab) = punched.iter().find(has_page) {
            return Region::Kept { page, slab: *slab };
        }
        let entry = self.entry(page);
        let pages = entry.run_pages();
        let room = self.page_count() - page;
        if entry.kind() == Kind::Run
            && entry == Entry::run(pages).marked(self.mark)
            && (1..=room).contains(&pages)
        {
            Region::Run { page, pages }
        } else {
            Region::Other { page }
        }
    }

    /// The slab that begins at a page: its entry is as the allocator writes it, and it fits.
    pub(super) fn slab_at(&self, page: u32) -> Option<Slab> {
        if page >= self.page_count() {
            return None;
        }
        let entry = self.entry(page);
        let (class, order) = (entry.class(), entry.order());
        if entry.kind() != Kind::Slab || class >= self.layout.class_count {
            return None;
        }
        let info = self.layout.class_info(class);
        // The heap may have shrunk by pages that it gave back.
        let end = if self.usage(page) & PUNCHED == 0 {
            self.page_count()
        } else {
            self.layout.page_count
        };
        let well_formed = entry == Entry::slab(class, order).marked(self.mark)
            && (info.least_order..=info.largest_order).contains(&order)
            && entry.head(page) == page
            && page + (1 << order) <= end;
        well_formed.then(|| Slab::new(page, class, order))
    }

    /// Words of the bitmap that tell which blocks of a region are handed out; bits of slots that a
    /// slab does not have are masked. A run counts as one block.
    pub(super) fn block_words(&self, region: Region) -> impl Iterator<Item = u32> + '_ {
        self.block_words_in(region, 0..u32::MAX)
    }

    /// Some of them, counted from the first.
    pub(super) fn block_words_in(
        &self,
        region: Region,
        some: Range<u32>,
    ) -> impl Iterator<Item = u32> + '_ {
        let first = self.first_slot_word(region.page());
        let blocks = match region {
            Region::Slab(slab) | Region::Punched(slab) => self.slots(slab),
            Region::Run { .. } => 1,
            Region::Kept { .. } | Region::Other { .. } => 0,
        };
        let is_run = matches!(region, Region::Run { .. });
        (some.start..blocks.div_ceil(32).min(some.end)).map(move |index| {
            let present = u32::MAX >> (32 - (blocks - 32 * index).min(32));
            if is_run {
                present
            } else {
                self.slot_word(first + u64::from(index)) & present
            }
        })
    }

    /// Size of the blocks of a region in bytes.
    pub(super) fn block_bytes(&self, region: Region) -> u64 {
        match region {
            Region::Slab(slab) | Region::Punched(slab) => class::slot_bytes(slab.class()).into(),
            Region::Run { pages, .. } => u64::from(pages) << self.layout.page_shift,
            Region::Kept { .. } | Region::Other { .. } => 0,
        }
    }

    /// Blocks of a region that are handed out.
    pub(super) fn used_blocks(&self, region: Region) -> u32 {
        if let (Some(uses), Some(slab)) = (&self.uses, region.slab()) {
            let used = uses.get(slab.page() as usize).copied();
            return used.unwrap_or(0).min(self.slots(slab));
        }
        self.block_words(region).map(u32::count_ones).sum()
    }

    /// Whether a slab is held by a stripe and has no block in it, so that a request which needs
    /// its pages gets them.
    pub(super) fn is_idle(&self, slab: Slab) -> bool {
        self.usage(slab.page()) & INSTALLED != 0 && self.used_blocks(Region::Slab(slab)) == 0
    }
}
