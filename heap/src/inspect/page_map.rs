//! What each page is used for: the heap as a picture.

use super::Snapshot;
use super::occupancy::share;
use super::region::Region;
use serde::Serialize;

/// What a page is used for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum PageUse {
    /// Free.
    Free,
    /// Part of a slab.
    Slab {
        /// Size class of the slab.
        class: u32,
        /// Share of the slab's slots that are handed out, 0 to 1.
        used: f64,
    },
    /// Part of a run.
    Run {
        /// First page of the run.
        head: u32,
    },
    /// None of these: the heap was in use, or its metadata is damaged.
    Lost,
}

impl Snapshot {
    /// What each page is used for, in the order of their addresses.
    #[must_use]
    pub fn page_map(&self) -> Vec<PageUse> {
        self.regions()
            .flat_map(|region| {
                let count = usize::try_from(region.pages()).unwrap_or(0);
                core::iter::repeat_n(self.page_use(region), count)
            })
            .collect()
    }

    fn page_use(&self, region: Region) -> PageUse {
        match region {
            Region::Slab(slab) | Region::Punched(slab) | Region::Kept { slab, .. } => {
                let used = self.used_blocks(Region::Slab(slab));
                PageUse::Slab {
                    class: slab.class(),
                    used: share(used.into(), self.slots(slab).into()),
                }
            }
            Region::Run { page, .. } => PageUse::Run { head: page },
            Region::Other { page } if self.is_free(page) => PageUse::Free,
            Region::Other { .. } => PageUse::Lost,
        }
    }
}
