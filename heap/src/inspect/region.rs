//! The heap's pages as a sequence of slabs, runs and other pages, told from their entries alone.

use super::Snapshot;
use crate::class;
use crate::entry::{Entry, Kind};
use crate::slab::{INSTALLED, Slab};

/// Pages that belong together.
#[derive(Clone, Copy)]
pub(super) enum Region {
    /// A slab with a well-formed entry on its first page.
    Slab(Slab),
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
            Self::Slab(slab) => slab.page(),
            Self::Run { page, .. } | Self::Other { page } => page,
        }
    }

    /// Number of pages.
    pub fn pages(self) -> u32 {
        match self {
            Self::Slab(slab) => slab.pages(),
            Self::Run { pages, .. } => pages,
            Self::Other { .. } => 1,
        }
    }
}

impl Snapshot {
    /// All pages that the heap has so far, once and in order.
    pub(super) fn regions(&self) -> impl Iterator<Item = Region> + '_ {
        let mut next = 0;
        core::iter::from_fn(move || {
            (next < self.page_count()).then(|| {
                let region = self.region_at(next);
                next += region.pages();
                region
            })
        })
    }

    fn region_at(&self, page: u32) -> Region {
        if let Some(slab) = self.slab_at(page) {
            return Region::Slab(slab);
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
        let well_formed = entry == Entry::slab(class, order).marked(self.mark)
            && (info.least_order..=info.largest_order).contains(&order)
            && entry.head(page) == page
            && page + (1 << order) <= self.page_count();
        well_formed.then(|| Slab::new(page, class, order))
    }

    /// Words of the bitmap that tell which blocks of a region are handed out; bits of slots that a
    /// slab does not have are masked. A run counts as one block.
    pub(super) fn block_words(&self, region: Region) -> impl Iterator<Item = u32> + '_ {
        let first = self.first_slot_word(region.page());
        let blocks = match region {
            Region::Slab(slab) => self.slots(slab),
            Region::Run { .. } => 1,
            Region::Other { .. } => 0,
        };
        let is_run = matches!(region, Region::Run { .. });
        (0..blocks.div_ceil(32)).map(move |index| {
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
            Region::Slab(slab) => class::slot_bytes(slab.class()).into(),
            Region::Run { pages, .. } => u64::from(pages) << self.layout.page_shift,
            Region::Other { .. } => 0,
        }
    }

    /// Blocks of a region that are handed out.
    pub(super) fn used_blocks(&self, region: Region) -> u32 {
        if let (Some(uses), Region::Slab(slab)) = (&self.uses, region) {
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
